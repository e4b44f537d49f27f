"""A run's results as a folder that is kept, and the page that lists such folders."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.report.test_contest_pages import met, study_of
from tuner.export.index import write_index
from tuner.export.results import write_results
from tuner.export.run import run_files
from tuner.judge.results import evaluate
from tuner.record.file import read_record
from tuner.report.contest_tables import brief
from tuner.report.data import contest_data
from tuner.testing.sample_record import sample_record


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run and a study, kept side by side."""
    folder = tmp_path_factory.mktemp("kept") / "results"
    write_results([study_of(met())], folder / "run")
    write_results([evaluate(sample_record("better"))], folder / "a study")
    assert write_index(folder) == folder / "README.md"
    return folder


def test_every_picture_and_link_leads_to_a_file(results: Path) -> None:
    """As a visitor follows them: relative to the page, SVG only, light enough to load."""
    for page in (results / "README.md", results / "run" / "report.md"):
        text = page.read_text(encoding="utf-8")
        targets = [target.replace("%20", " ") for target in re.findall(r"\]\(([^)#]+)\)", text)]
        assert targets
        assert all((page.parent / target).exists() for target in targets), targets
    charts = list((results / "run" / "charts").iterdir())
    assert {path.suffix for path in charts} == {".svg"}
    assert max(path.stat().st_size for path in charts) < 100_000


def test_the_same_figures_come_from_the_kept_record(results: Path) -> None:
    """The small form holds all that the page needs, availability in time among it."""
    kept = results / "run" / "record-words.json.gz"
    found = evaluate(read_record(kept)).contest
    assert found is not None
    assert contest_data(found) == contest_data(met())
    assert kept.stat().st_size < 300_000


def test_configurations_say_where_they_come_from_and_what_was_shown() -> None:
    """Study, hash and claims, in the values and in the server's own file."""
    files = run_files([met()])
    assert {name.partition(".")[0] for name in files} == {"one-stock", "one-hand"}
    for text in files.values():
        assert text.startswith("# From tuner ")
        assert "one-hand against one-stock: better in p50" in text


def test_an_arm_that_differs_by_case_is_there_for_each() -> None:
    """One name for two configurations would hide one of them."""
    one = met()
    first, second = one.contest.contenders
    swapped = replace(first, label=second.label), replace(second, label=first.label)
    other = replace(one, contest=replace(one.contest, case="4KB", contenders=swapped))
    names = {name.partition(".")[0] for name in run_files([one, other])}
    assert names == {"one-stock", "one-hand", "one-stock-4KB", "one-hand-4KB"}


def test_the_list_has_machine_time_version_and_verdicts(results: Path) -> None:
    """For runs what was shown of each pair, for studies their sentence; and its own limits."""
    text = (results / "README.md").read_text(encoding="utf-8")
    assert "## run" in text
    assert f"- words: {brief(met())[0]}" in text
    assert "- Better: p99 is " in text
    assert "2 cores" in text
    assert re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC, tuner \d", text)
    assert "What a machine of 2 shared cores can show" in text
    assert write_index(results / "run") is None
