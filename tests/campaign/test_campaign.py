"""A short campaign in every run: each fault once; and tests of the campaign itself."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.campaign.machine import NEEDS_ROOT, Campaign, Case, Outcome, Strike, broken, cases, rows
from tests.campaign.scenarios import SCENARIOS, Ended
from tests.cli.conftest import done
from tuner.hosts import local
from tuner.hosts.host_locks import LOCK
from tuner.testing.faults import FAULTS, Crossings

__all__ = ["done"]
SEED = 20
BY_THE_CLOCK = {"interrupt twice"}
"""Faults with a distance in real time, so that two runs differ; ``make campaign`` has them."""
AS_ROOT = (
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system"),
)
NAMES = [
    pytest.param(name, marks=AS_ROOT if name in NEEDS_ROOT else ())
    for name in FAULTS
    if name not in BY_THE_CLOCK
]
ENDED = Ended(0, "", "", 1.0, 10, (), (), struck=True, now_s=0.0)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """Return a campaign that prepares its scenarios once."""
    return Campaign(tmp_path_factory.mktemp("campaign"))


@pytest.fixture(scope="module")
def known(campaign: Campaign) -> dict[str, int]:
    """Return the crossings of each scenario without a fault."""
    return campaign.lengths()


@pytest.mark.parametrize("name", NAMES)
def test_a_fault_breaks_no_invariant(name: str, campaign: Campaign, known: dict[str, int]) -> None:
    """One case of each fault; ``make campaign`` tries as many as wanted."""
    case = next(c for c in cases(len(FAULTS), SEED, known) if c.fault.name == name)
    outcome = campaign.play(case)
    assert not outcome.broken, json.dumps([case.words, *outcome.broken], indent=1)


def test_a_campaign_follows_from_its_seed() -> None:
    """The same cases again, another seed draws others, and each row has its share."""
    known = {scenario.name: 100 for scenario in SCENARIOS}
    first = list(cases(40, 1, known))
    assert first == list(cases(40, 1, known))
    assert first != list(cases(40, 2, known))
    assert [case.number for case in first] == list(range(40))


def test_what_is_broken_is_found(tmp_path: Path) -> None:
    """The checks have teeth: a traceback, a wrong exit code, silence, no record, a complaint."""
    case = Case(0, SCENARIOS[0], (Strike(FAULTS["kill"], 3, 0.5),))
    for name in ("tmp", "state"):
        (tmp_path / name).mkdir()

    def found(struck: Ended, resumed: Ended = ENDED) -> str:
        return "; ".join(broken(case, tmp_path, [struck], resumed))

    assert "a traceback" in found(replace(ENDED, err="Traceback (most recent call last)"))
    assert "exit code 70" in found(replace(ENDED, code=70, err="tuner failed"))
    assert "without a message" in found(replace(ENDED, code=3))
    assert "exit code -9" not in found(replace(ENDED, code=-9))
    assert "cannot be resumed" in found(ENDED, replace(ENDED, code=3, err="tuner: no"))
    assert "took 999 s" in found(replace(ENDED, took_s=999.0))
    assert "did not strike" in found(replace(ENDED, struck=False))
    assert "the record cannot be read" in found(ENDED)
    assert "a second command" in found(replace(ENDED, complaints=("a second command ended",)))


def test_lost_windows_and_what_is_left_are_found(done: Path, tmp_path: Path) -> None:
    """A whole record that lacks a reported window; a temporary file, a lock, a claim."""
    case = Case(0, SCENARIOS[0], (Strike(FAULTS["kill"], 3, 0.5),))
    study = tmp_path / case.scenario.study
    shutil.copytree(done, study)
    (tmp_path / "tmp").mkdir()
    assert list(broken(case, tmp_path, [ENDED], ENDED)) == []
    (tmp_path / "tmp" / "forgotten").write_text("")
    (study / LOCK).write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        local.claim(study, tmp_path / "lab", tmp_path / "work")
    found = list(broken(case, tmp_path, [replace(ENDED, windows=("none",))], ENDED))
    assert found[0] == "1 of 1 reported windows are lost"
    assert found[1].startswith("left: the claim of ")
    assert found[2:] == ["left: tmp/forgotten", f"left: {case.scenario.study / LOCK}"]


def test_crossings_are_counted_and_one_strikes(tmp_path: Path) -> None:
    """Writing counts, reading does not; the strike itself crosses nothing."""
    struck: list[int] = []

    def strike() -> None:
        (tmp_path / "by the strike").write_text("")
        struck.append(counter.count)

    counter = Crossings(1, strike)
    for _ in range(3):
        counter.cross()
    assert (struck, counter.count) == ([2], 3)


def test_the_table_counts_by_fault() -> None:
    """One row for each fault, with its cases and those in which something broke."""
    case = Case(0, SCENARIOS[0], (Strike(FAULTS["kill"], 3, 0.5),))
    outcomes = [Outcome(case, (ENDED,), ENDED, wrong) for wrong in ((), ("lost",))]
    assert rows(outcomes) == [("processes", "kill", 2, 1)]
