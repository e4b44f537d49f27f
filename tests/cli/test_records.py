"""Records from elsewhere, damaged ones, and one's own: what the commands say and do."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.cli.conftest import Terminal, Tuner
from tests.phases.rig import NAME, rig
from tests.store.workers import begin, joined, simulated, whole
from tuner.app import signing
from tuner.app.progress import TerminalProgress
from tuner.app.provenance import origin_words
from tuner.record.model import Record
from tuner.store.signature import made_here, sign, sign_beginning
from tuner.store.store import Store, sqlite_url
from tuner.testing.lab import Faults, SimulatedHost
from tuner.testing.sample_record import sample_record

SHORT = ("--study", "static", "--time", "10s", "--rate", "600", "--trials", "1", "--quiet")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The record of a study that came to its end."""
    folder = tmp_path_factory.mktemp("made")
    rig(storage=sqlite_url(folder), time_s=10.0, trials=1).run()
    return folder / "record.db"


def placed(made: Path, name: str) -> Path:
    """That record as one of this folder's studies."""
    folder = Path("studies") / name
    folder.mkdir(parents=True)
    return Path(shutil.copy(made, folder / "record.db"))


def everything() -> set[Path]:
    """Return all that lies here."""
    return set(Path().rglob("*"))


def test_a_record_that_cannot_be_read_does_not_hide_the_others(tuner: Tuner, made: Path) -> None:
    """`tuner studies` lists it with the reason, goes on, and ends with 0."""
    placed(made, NAME)
    whole = made.read_bytes()
    placed(made, "broken").write_bytes(whole[: len(whole) // 2])
    placed(made, "another").write_bytes(b"nothing of the kind")
    done = tuner("studies", "--json")
    assert (done.code, done.err) == (0, "")
    rows = {row["name"]: row for row in json.loads(done.out)["here"]}
    assert rows.keys() == {NAME, "broken", "another"}
    assert rows["broken"]["status"] == rows["another"]["status"] == "unreadable"
    assert "not an SQLite database" in rows["another"]["sentence"]
    assert rows[NAME]["status"] == "confirmed"
    assert "another" in tuner("studies").out


@pytest.mark.parametrize(
    "command", [("report",), ("export",), ("apply", "--inventory", "i.yml", "--yes")]
)
def test_a_damaged_record_ends_a_command_with_one_line(
    tuner: Tuner, made: Path, command: tuple[str, ...]
) -> None:
    """Exit code 3, the record's path, and nothing written."""
    path = placed(made, NAME)
    with path.open("r+b") as file:
        file.seek(4096 * 8)
        file.write(bytes(range(256)) * 64)
    before = everything()
    done = tuner(command[0], NAME, *command[1:])
    assert (done.code, done.out) == (3, "")
    assert "record.db" in done.err
    assert done.err.startswith("tuner: ")
    assert "Traceback" not in done.err
    assert everything() == before


@pytest.mark.parametrize(
    "change", [{"file_name": "../../evil"}, {"file_name": "/etc/evil"}, {"more": {"../evil": ""}}]
)
@pytest.mark.parametrize("form", ["file", "database"])
def test_a_foreign_record_writes_nothing_outside(
    tuner: Tuner, made: Path, change: dict[str, object], form: str
) -> None:
    """Neither a record in a file nor one in a database; it is refused as a whole."""
    if form == "file":
        record = sample_record("better", trials=6)
        kept = {d: replace(c, **change) for d, c in record.configurations.items()}  # type: ignore[arg-type]
        name = "record.json"
        Path(name).write_bytes(
            json.dumps(msgspec.to_builtins(replace(record, configurations=kept))).encode()
        )
    else:
        name = NAME
        with closing(sqlite3.connect(placed(made, NAME))) as connection, connection:
            rows = "FROM study_user_attributes WHERE key LIKE 'configuration:%'"
            found = connection.execute(f"SELECT rowid, value_json {rows}").fetchall()
            for row, text in found:
                connection.execute(
                    "UPDATE study_user_attributes SET value_json = ? WHERE rowid = ?",
                    (json.dumps(json.loads(text) | change), row),
                )
    before = everything()
    commands = [("report", name), ("export", name), ("export", name, "--format", "role")]
    for command in commands if form == "database" else commands[:1]:
        done = tuner(*command)
        assert (done.code, done.out) == (3, "")
        assert "path" in done.err
    assert everything() == before


def test_reading_a_study_does_not_write_into_its_record(tuner: Tuner, made: Path) -> None:
    """Report, export and the list of studies leave the file as it is, byte for byte."""
    path = placed(made, NAME)
    before = path.read_bytes()
    for command in (("report", NAME), ("export", NAME), ("studies",)):
        assert tuner(*command, *(("--quiet",) if command[0] == "report" else ())).code == 0
    assert path.read_bytes() == before
    assert {found.name for found in path.parent.iterdir()} == {
        *("record.db", "report.html", "report.md", "best")
    }


def _record(name: str) -> Record:
    return Store.open(sqlite_url(Path("studies") / name), name, writing=False).record()


def test_a_study_knows_that_it_was_made_here(
    tuner: Tuner, host: SimulatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record is signed when its command ends; another user does not have the key."""
    assert not host.running
    assert tuner("optimize", *SHORT, "--name", "mine").code == 0
    assert made_here(_record("mine")) == "here"
    assert tuner("report", "mine", "--quiet").code == 0
    assert made_here(_record("mine")) == "here"
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("theirs").absolute()))
    assert made_here(_record("mine")) == "elsewhere"


def test_a_record_that_was_not_made_here_is_not_applied_unasked(tuner: Tuner, made: Path) -> None:
    """The message names the origin; --foreign accepts it, --yes does not."""
    placed(made, NAME)
    done = tuner("apply", NAME, "--inventory", "none.yml", "--yes")
    assert (done.code, done.out) == (2, "")
    assert "was not made here by this user" in done.err
    assert "--foreign" in done.err
    done = tuner("apply", NAME, "--inventory", "none.yml", "--yes", "--foreign")
    assert "was not made here by this user" in done.err
    assert "none.yml" in done.err


MEASURING = {
    "resumed": ("optimize", "--resume", "--name", "mine"),
    "taken apart": ("ablate", "mine"),
    "repeated": ("replicate", "mine"),
}
"""Commands that measure what a record says."""


@pytest.mark.parametrize("command", MEASURING.values(), ids=MEASURING.keys())
def test_a_record_that_was_not_made_here_is_not_measured_unasked(
    unended: Tuner,
    host: SimulatedHost,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    """Nothing is started before it is accepted: at a terminal, or with --foreign."""
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("theirs").absolute()))
    before = everything()
    done = unended(*command, "--quiet")
    assert (done.code, done.out, host.windows) == (2, "", 0)
    assert "'mine' was not made here by this user" in done.err
    assert "inspect it with `tuner report mine`, then accept it with --foreign" in done.err
    monkeypatch.setattr(sys, "stdin", Terminal("no\n"))
    done = unended(*command, "--quiet")
    assert (done.code, host.windows) == (130, 0)
    assert "measure what it says?" in done.out + done.err
    assert everything() == before


def test_an_accepted_record_is_measured(
    finished: Tuner, host: SimulatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --foreign, and it does not become this user's own by that."""
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("theirs").absolute()))
    host.faults = Faults(interrupted={host.windows + 2})
    assert finished("ablate", "mine", "--quiet", "--foreign").code == 130
    assert host.windows > 0
    assert made_here(_record("mine")) == "elsewhere"


def test_a_run_that_was_not_made_here_is_not_resumed_unasked(
    tuner: Tuner, host: SimulatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resuming a run of another user is refused, with nothing measured or changed."""
    host.faults = Faults(interrupted={3})
    up = ("ladder", "nginx:stock", "nginx:hand", "--quiet")
    assert tuner(*up, "--time", "10s", "--name", "up").code == 130
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("theirs").absolute()))
    found, windows = everything(), host.windows
    done = tuner(*up, "--resume")
    assert (done.code, done.out, host.windows) == (2, "", windows)
    assert "was not made here by this user" in done.err
    assert everything() == found


def test_a_killed_study_of_ones_own_is_resumed_without_a_question(
    tuner: Tuner, host: SimulatedHost
) -> None:
    """A killed command cannot sign what it measured; the beginning proves whose the study is."""
    host.faults = Faults(interrupted={5})
    assert tuner("optimize", *SHORT, "--name", "mine").code == 130
    Store.open(sqlite_url(Path("studies/mine")), "mine").set_importance({"fast": 0.1})
    assert made_here(_record("mine")) == "changed"
    host.faults = Faults(interrupted={host.windows + 2})
    done = tuner("optimize", "--resume", "--name", "mine", "--quiet")
    assert done.code == 130
    assert "made here" not in done.err


def test_a_study_of_several_workers_is_signed_by_the_one_that_began_it(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For its readers, who see all hosts; another user's worker neither signs nor spoils that."""
    assert callable(tuner)
    url = sqlite_url(Path())
    begin(url, "a")
    progress = TerminalProgress(quiet=True)
    signing.begin(Store.open(url, NAME))
    first = joined(url, "a", simulated(1))
    with signing.signed(lambda: [first], progress):
        first.set_ended()
    assert made_here(whole(url)) == "here"
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("theirs").absolute()))
    second = joined(url, "b", simulated(2))
    with signing.signed(lambda: [second], progress):
        second.set_ended()
    assert made_here(whole(url)) == "elsewhere"
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("state").absolute()))
    assert made_here(whole(url)) == "changed"
    assert "another worker measured for it" in origin_words(whole(url))
    with signing.signed(lambda: [first], progress):
        pass
    assert made_here(whole(url)) == "here"


def test_ones_own_record_is_applied_without_a_word(tuner: Tuner, made: Path) -> None:
    """Until it is changed."""
    path = placed(made, NAME)
    store = Store.open(sqlite_url(path.parent), NAME)
    store.set_signed(sign_beginning(store.record()))
    store.set_signed(sign(store.record()))
    done = tuner("apply", NAME, "--inventory", "none.yml", "--yes")
    assert "made here" not in done.err
    assert "none.yml" in done.err
    store.set_importance({"fast": 0.1})
    done = tuner("apply", NAME, "--inventory", "none.yml", "--yes")
    assert done.code == 2
    assert "began here and has changed since" in done.err
