"""``tuner studies`` keeps outcomes between commands, and shows none that is out of date."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Tuner
from tuner.app import outcomes
from tuner.app.outcomes import UNREADABLE, Outcome
from tuner.store.listing import list_names

RECORD = Path("studies/mine/record.db")


def listed() -> list[Outcome]:
    """Return the outcomes in this folder; progress is ignored."""
    return outcomes.outcomes(Path("studies"), lambda _: None)


@pytest.fixture
def opened(finished: Tuner, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the records opened so far, in a folder with a study that ended long ago."""
    assert finished("report", "mine").code == 0
    os.utime(RECORD, (1_700_000_000, 1_700_000_000))
    found: list[str] = []

    def watched(url: str) -> list[str]:
        found.append(url)
        return list_names(url)

    monkeypatch.setattr(outcomes, "list_names", watched)
    return found


def test_an_outcome_is_kept(opened: list[str]) -> None:
    """The second list opens no record, and is the same."""
    first = listed()
    assert [outcome.name for outcome in first] == ["mine"]
    assert listed() == first
    assert len(opened) == 1


def test_a_changed_record_is_opened_again(opened: list[str]) -> None:
    """A change of the file is enough, whether or not its length and its time are the same."""
    listed()
    content = RECORD.read_bytes()
    RECORD.write_bytes(content)
    os.utime(RECORD, (1_700_000_000, 1_700_000_000))
    listed()
    assert len(opened) == 2


def test_a_record_that_is_being_written_is_not_kept(opened: list[str]) -> None:
    """Its next change may fall into the same tick of the file system's clock."""
    os.utime(RECORD)
    listed()
    listed()
    assert len(opened) == 2


def test_a_failure_is_not_kept(opened: list[str]) -> None:
    """An unreadable record is opened again, because its permissions may change."""
    kept = RECORD.read_bytes()
    RECORD.write_bytes(b"no record")
    os.utime(RECORD, (1_700_000_000, 1_700_000_000))
    for _ in range(2):
        (outcome,) = listed()
        assert (outcome.name, outcome.status) == ("mine", UNREADABLE)
    RECORD.write_bytes(kept)
    (outcome,) = listed()
    assert outcome.status != UNREADABLE
    assert len(opened) == 3


def test_a_study_that_is_gone_is_not_listed(opened: list[str]) -> None:
    """Its kept outcome goes with it."""
    shutil.copytree("studies/mine", "studies/other")
    assert len(listed()) == 2
    shutil.rmtree("studies/other")
    assert len(listed()) == 1
    assert len(opened) == 2


def test_kept_outcomes_of_another_version_are_dropped(
    opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other code may judge otherwise."""
    listed()
    monkeypatch.setattr(outcomes, "_code", lambda: (1, 2))
    listed()
    assert len(opened) == 2


def test_kept_outcomes_that_are_damaged_are_ignored(opened: list[str]) -> None:
    """They are made again."""
    (first,) = listed()
    (kept,) = Path("state/tuner/outcomes").iterdir()
    kept.write_text('{"code": [1], "records": {"mine": 5}}')
    assert listed() == [first]
    assert len(opened) == 2


def test_a_state_folder_that_cannot_be_written_costs_only_time(opened: list[str]) -> None:
    """A file lies where the folder should be."""
    folder = Path("state/tuner")
    shutil.rmtree(folder)
    folder.write_text("in the way")
    assert listed() == listed()
    assert len(opened) == 2


def test_a_long_list_shows_its_progress(opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of records and the time left, every few seconds."""
    for number in range(2):
        shutil.copytree("studies/mine", f"studies/other{number}")
    clock = iter(range(0, 1000, 4))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    lines: list[str] = []
    outcomes.outcomes(Path("studies"), lines.append)
    assert lines == ["record 1 of 3, 16 s left", "record 2 of 3, 6 s left"]
    assert len(opened) == 3
