"""No control character and no mark of direction of a record gets into anything made of it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.reading.test_printable import hidden
from tests.report.test_contest_pages import evaluated, met, study_of, without_code
from tuner.errors import DefinitionError
from tuner.export.ansible import role, variables
from tuner.export.compose import compose
from tuner.export.configuration import comment, export_files, provenance
from tuner.export.results import write_results
from tuner.judge.contest_results import ContestResult
from tuner.judge.results import StudyResult, evaluate
from tuner.record.model import ConfigurationRecord, Record
from tuner.report.charts import charts, titles
from tuner.report.data import as_data
from tuner.report.embed import bundle
from tuner.report.html import render_html
from tuner.report.junit import render_junit
from tuner.report.markdown import plain, render_markdown
from tuner.report.pictures import write_pictures
from tuner.report.side import render_side_html, render_side_markdown
from tuner.report.text import result_lines
from tuner.words.terminal import OwnCodes, writes_own_codes

HOSTILE = "\x00\x07\x1b]0;title\x07\x1b[31m\x7f\x85\x9b2J\u202e\u2066\u200b\u2028\r\nnew line"
WORDS = {
    *("digest", "instance", "baseline", "objective", "phase", "state", "origin", "estimand"),
    *("confirmation", "hdr", "choose", "mode", "file_name", "space", "server"),
}
"""Fields that hold a word of tuner's own, an identity, or a name that a reader checks."""


def poisoned(value: Any) -> Any:
    """Return the same with a hostile text behind every text that is free."""
    if isinstance(value, ConfigurationRecord):
        # The file itself is data; what tuner writes around it is looked at.
        return replace(value, values={**value.values, "extra": HOSTILE})
    if is_dataclass(value) and not isinstance(value, type):
        changed = {
            each.name: poisoned(getattr(value, each.name))
            for each in fields(value)
            if each.name not in WORDS
        }
        return replace(value, **changed)
    if isinstance(value, str):
        return value + HOSTILE
    if isinstance(value, Mapping):
        return {
            key: entry if isinstance(entry, str) else poisoned(entry)
            for key, entry in value.items()
        }
    if isinstance(value, tuple):
        return tuple(map(poisoned, value))
    return value


@pytest.fixture(scope="module")
def wild(record: Callable[..., Record]) -> StudyResult:
    """A study with a hostile text in every field that is free."""
    original = record()
    own = {
        name: getattr(original, name)
        for name in ("definition", "blocks", "calibration", "protocol", "trials", "instrument")
    }
    server = replace(original.server, build=HOSTILE, version=f"1.22.1{HOSTILE}")
    made = replace(poisoned(original), **own, server=server)
    blocks = tuple(replace(b, reason=HOSTILE) if b.reason else b for b in original.blocks)
    trials = tuple(replace(trial, message=HOSTILE) for trial in original.trials)
    definition = {**original.definition, "allow": [HOSTILE], "workload": HOSTILE, HOSTILE: HOSTILE}
    return evaluate(
        replace(
            made, blocks=blocks, trials=trials, definition=definition, importance={HOSTILE: 0.5}
        )
    )


def test_the_study_is_hostile(wild: StudyResult) -> None:
    """Name, notes and facts of the host hold what must not be seen."""
    assert all(
        hidden(text) for text in (wild.record.name, wild.record.notes[0], wild.record.host.hostname)
    )


def test_reports_hold_nothing_hidden(wild: StudyResult) -> None:
    """Markdown, HTML, JSON and JUnit, of one study and of several."""
    assert not hidden(render_markdown(wild))
    assert not hidden(render_html(wild).replace(bundle(), ""))
    assert not hidden(render_side_markdown([wild, wild]))
    assert not hidden(render_side_html([wild, wild]).replace(bundle(), ""))
    assert not hidden(json.dumps(as_data(wild, Path("studies/x")), indent=2))
    xml = render_junit([wild])
    assert not hidden(xml)
    root = ET.fromstring(xml.partition("\n")[2])  # noqa: S314 - our own text
    assert not hidden("".join(root.itertext()))


def test_pictures_hold_nothing_hidden(wild: StudyResult, tmp_path: Path) -> None:
    """Nor their titles."""
    specs = {"search": charts(wild)["search"]}
    (path,) = write_pictures(specs, {"search": HOSTILE, **titles(wild)}, tmp_path, ["svg"])
    assert not hidden(path.read_text())
    (path,) = write_pictures(specs, {"search": HOSTILE}, tmp_path, ["svg"])
    assert not hidden(path.read_text())


def test_exports_hold_nothing_hidden(wild: StudyResult) -> None:
    """A name ends no comment, in the server's file, its values and an Ansible role."""
    chosen = wild.record.configurations[wild.record.baseline]
    lines = comment(provenance(wild, chosen)).splitlines()
    assert all(line.startswith("#") for line in lines)
    for files in (export_files(wild), role(wild), variables(wild)):
        assert files
        for name, text in files.items():
            assert not hidden(text), name


MARKUP = "</script><img src=x onerror=alert(1)> [a](https://evil.example) @team"
PATHS = "/../../evil"


def seen_in(folder: Path) -> dict[str, str]:
    """Return the text of every file that a visitor of a kept folder opens, by its name there."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in files
        if path.suffix != ".gz"
    }


def test_a_kept_folder_holds_nothing_hidden(wild: StudyResult, tmp_path: Path) -> None:
    """The page, charts, configurations and role variables of ``tuner export --results``."""
    written = write_results([wild], tmp_path / "kept" / "results")
    assert all(path.is_relative_to(tmp_path / "kept" / "results") for path in written)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    found = seen_in(tmp_path / "kept" / "results")
    assert {"report.md", "charts/effect.svg", "tuned/configuration.yaml"} <= found.keys()
    for name, text in found.items():
        assert not hidden(text), name


def test_compose_holds_nothing_hidden(wild: StudyResult) -> None:
    """The comments, labels and commands of its file; a hostile version names no image."""
    definition = {**wild.record.definition, "workload": "static"}
    record = replace(wild.record, definition=definition)
    with pytest.raises(DefinitionError, match="which no image has"):
        compose(replace(wild, record=record))
    record = replace(record, server=replace(record.server, version="1.22.1"))
    files = compose(replace(wild, record=record))
    assert yaml.safe_load(files["compose.yaml"])["services"].keys() == {"server", "load"}
    for name, text in files.items():
        assert name.startswith(("compose.yaml", "server/", "site/"))
        assert name.startswith("site/") or not hidden(str(text)), name


@pytest.fixture(scope="module")
def contest() -> ContestResult:
    """A contest with a hostile text in every field that is free."""
    text = HOSTILE + MARKUP + PATHS
    found = met(text=text)
    made = poisoned(found.record)
    kept = {
        name: getattr(found.record, name)
        for name in ("definition", "blocks", "calibration", "protocol", "trials", "instrument")
    }
    contest = replace(
        found.contest,
        servers=tuple(replace(each, version=text, build=text) for each in found.contest.servers),
    )
    return evaluated(replace(made, **kept, contest=contest))


def test_the_pages_of_a_contest_hold_nothing_hidden(contest: ContestResult) -> None:
    """Nor any markup but tuner's own: no script ends, no picture, link or mention begins."""
    page = render_html(study_of(contest)).replace(bundle(), "")
    assert not hidden(page)
    assert "<img src=x" not in page
    markdown = render_markdown(study_of(contest))
    assert not hidden(markdown)
    # Code shows what it holds.
    shown = without_code(markdown)
    for text in ("<img src=x", "](https://evil", "@team"):
        assert text not in shown


def test_a_kept_contest_holds_nothing_hidden_and_stays_in_its_folder(
    contest: ContestResult, tmp_path: Path
) -> None:
    """Names of cases, arms and charts become names of files there, and of nothing else."""
    folder = tmp_path / "kept" / "run"
    written = write_results([study_of(contest)], folder)
    assert all(path.resolve().is_relative_to(folder) for path in written)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert [path.name for path in folder.parent.iterdir()] == ["run"]
    for name, text in seen_in(folder).items():
        assert not hidden(name, lines=False), name
        assert not hidden(text), name


def test_markdown_makes_no_link_of_a_text() -> None:
    """No mention, no issue's number, no address, no picture and no list."""
    assert plain("@team #12 GH-3") == "@<!-- -->team \\#<!-- -->12 GH<!-- -->-3"
    assert plain("https://evil.example") == "https:<!-- -->//evil.example"
    assert plain("www.evil.example") == "www<!-- -->.evil.example"
    assert plain("![x](y)") == "\\!\\[x\\](y)"
    assert (plain("1. a"), plain("- b"), plain("+ c")) == ("1\\. a", "\\- b", "\\+ c")


PROGRAM = """
import sys
from pathlib import Path
import click
from tuner.app.progress import TerminalProgress
from tuner.cli import streams
streams.prepare()
text = Path(sys.argv[1]).read_text(encoding="utf-8", errors="surrogateescape")
click.echo(text)
click.echo(text, err=True)
print(text)
progress = TerminalProgress()
with progress.live():
    progress.phase(text, 60.0)
    progress.window(text)
    progress.best(text)
    progress.note(text)
    progress.command(text)
progress.note(text)
"""


@pytest.mark.parametrize("locale", ["C.UTF-8", "POSIX"])
def test_a_terminal_gets_no_control_sequence_of_a_text(tmp_path: Path, locale: str) -> None:
    """Neither click, nor Python, nor the live view prints a text's control sequences."""
    hostile = HOSTILE.replace("new line", "[red]bold[/red]")
    (tmp_path / "text").write_text(hostile, encoding="utf-8", newline="")
    main, terminal = pty.openpty()
    environment = {**os.environ, "LC_ALL": locale, "TERM": "xterm", "COLUMNS": "200"}
    done = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "text")],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment,
    )
    os.close(terminal)
    seen = b""
    while True:
        try:
            read = os.read(main, 1 << 16)
        except OSError:
            break
        seen += read
    os.close(main)
    assert done.wait() == 0
    assert seen.count(b"\\x1b]0;title") >= 6
    for sequence in (b"\x00", b"\x07", b"\x1b]", b"\x1b[31m", b"\x7f", b"\x9b"):
        assert sequence not in seen.replace("\u2019".encode(), b"")
    for mark in ("\x85", "\x9b", "\u202e", "\u2066", "\u200b", "\u2028"):
        assert mark.encode() not in seen
    assert b"[red]bold[/red]" in seen


def test_a_bar_of_progress_lets_nothing_else_through(capsys: pytest.CaptureFixture[str]) -> None:
    """Only what is written by it is tuner's own."""
    stream = OwnCodes(sys.stderr)
    assert not writes_own_codes()
    stream.write("\x1b[?25l")
    assert not writes_own_codes()
    stream.flush()
    assert capsys.readouterr().err == "\x1b[?25l"


def test_data_for_another_program_is_exact() -> None:
    """A patch of a file whose lines end with carriage returns must stay one; a message need not."""
    program = (
        "import click\nfrom tuner.cli import streams\nfrom tuner.words.terminal import say_data\n"
        "streams.prepare()\nsay_data('+a\\r\\n')\nclick.echo('b\\r')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"+a\r\nb\\r\n"


def test_the_lines_for_a_terminal_come_from_hostile_text(wild: StudyResult) -> None:
    """They are made visible where they are printed, and there alone."""
    assert any(hidden(line) for line in result_lines(wild))
