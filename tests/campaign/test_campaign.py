"""A short campaign in every run, on the simulated lab; and tests of the campaign itself."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.campaign.cases import Case, Choice, Strike, cases, offered
from tests.campaign.checks import broken
from tests.campaign.command import PATIENCE_S, Ended
from tests.campaign.labs import Labs
from tests.campaign.machine import Campaign, Outcome, is_spoilt, rows, target_of
from tests.campaign.place import Place, place
from tests.campaign.scenarios import SCENARIOS, SIMULATED
from tests.cli.conftest import done
from tuner.hosts import local
from tuner.hosts.host_locks import LOCK
from tuner.testing.faults import FAULTS, Crossings

__all__ = ["done"]
SEED = 20
CHOICE = Choice(
    # The others have several times the windows.
    [
        scenario
        for scenario in SIMULATED
        if scenario.name in {"optimize", "compare", "own workload"}
    ],
    [fault for fault in FAULTS.values() if not fault.by_the_clock and fault.name != "slow disk"],
)
"""Faults at a crossing; ``make campaign`` has those that real time decides too."""
SLOW = Choice(CHOICE.scenarios, [FAULTS["slow disk"]])
"""One case has it, since it takes three times as long as others."""
USABLE = CHOICE.usable()
COUNT = 100
NAMES = [
    pytest.param(number, id=f"{number}-{USABLE[number % len(USABLE)].name.replace(' ', '-')}")
    for number in range(COUNT)
]
ENDED = Ended(0, "", "", 1.0, PATIENCE_S["simulated"], 10, (), (), struck=True, now_s=0.0)
KILL = (Strike(FAULTS["kill"], 3, 0.5),)
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system")


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    """Yield a campaign that prepares its scenarios once."""
    with Labs() as labs:
        yield Campaign(tmp_path_factory.mktemp("campaign"), labs)


@pytest.fixture(scope="module")
def lengths(campaign: Campaign) -> dict[str, int]:
    """Return the number of crossings of each scenario."""
    return campaign.lengths(CHOICE.struck())


@pytest.fixture(scope="module")
def played(lengths: dict[str, int]) -> list[Case]:
    """Return the cases of every run."""
    return list(cases(COUNT, SEED, lengths, CHOICE))


@pytest.mark.parametrize("number", NAMES)
def test_a_fault_breaks_no_invariant(number: int, campaign: Campaign, played: list[Case]) -> None:
    """Four cases or five of each fault with a fixed seed; ``make campaign`` tries any number."""
    outcome = campaign.play(played[number])
    assert not outcome.broken, json.dumps([outcome.case.words, *outcome.broken], indent=1)


@pytest.mark.skipif(not SLOW.usable(), reason="needs root, to mount a file system, and strace")
def test_a_slow_disk_breaks_no_invariant(campaign: Campaign, lengths: dict[str, int]) -> None:
    """Each ``fsync`` takes 10 ms longer."""
    (case,) = cases(1, SEED, lengths, SLOW)
    outcome = campaign.play(case)
    assert not outcome.broken, json.dumps([outcome.case.words, *outcome.broken], indent=1)


def test_a_campaign_follows_from_its_seed() -> None:
    """The same cases again, another seed draws others, and each fault has its turn."""
    known = {scenario.name: 100 for scenario in SCENARIOS}
    first = list(cases(40, 1, known))
    assert first == list(cases(40, 1, known))
    assert first != list(cases(40, 2, known))
    assert [case.number for case in first] == list(range(40))
    assert {case.fault for case in cases(len(USABLE), 1, known, CHOICE)} == set(USABLE)


def test_a_fault_meets_only_commands_that_it_can_strike() -> None:
    """No port is taken from a simulated lab, and nothing is added to a removed study."""
    known = {scenario.name: 100 for scenario in SCENARIOS}
    for case in cases(500, 1, known):
        for strike in case.strikes:
            assert strike.fault.needs <= offered(case.scenario)
            assert not (strike.fault.name == "removed folder" and case.scenario.extends)


def test_what_is_broken_is_found(tmp_path: Path) -> None:
    """The checks have teeth: a traceback, a wrong exit code, silence, no record, a complaint."""
    case = Case(0, SIMULATED[0], KILL)
    for name in ("tmp", "state"):
        (tmp_path / name).mkdir()

    def found(struck: Ended, resumed: Ended = ENDED) -> str:
        return "; ".join(broken(case, Place(tmp_path), [struck], resumed))

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
    """A whole record that lacks a reported window; another verdict; a temporary file, a claim."""
    case = Case(0, SIMULATED[0], KILL)
    study = tmp_path / case.scenario.study
    shutil.copytree(done, study)
    (tmp_path / "tmp").mkdir()
    at = Place(tmp_path, changed=lambda: ["web is not as it was"])
    (silent, changed) = broken(case, at, [ENDED], ENDED)
    assert silent.startswith("the command did not say: ")
    assert changed == "web is not as it was"
    said = replace(ENDED, out=silent.removeprefix("the command did not say: "))
    assert list(broken(case, Place(tmp_path), [ENDED], said)) == []
    (tmp_path / "tmp" / "forgotten").write_text("")
    (study / LOCK).write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        local.claim(study, tmp_path / "lab", tmp_path / "work")
    found = list(broken(case, Place(tmp_path), [replace(ENDED, windows=("none",))], said))
    assert found[0] == "1 of 1 reported windows are lost"
    assert found[1].startswith("left: the claim of ")
    assert found[2:] == ["left: tmp/forgotten", f"left: {case.scenario.study / LOCK}"]


@AS_ROOT
@pytest.mark.root
def test_a_power_cut_loses_what_was_not_synchronised() -> None:
    """The disk of a case keeps what ``fsync`` promised and nothing else."""
    with place("24M") as at:
        for name in ("kept", "lost"):
            (at.folder / name).write_text(name)
        with (at.folder / "kept").open("rb") as stream:
            os.fsync(stream.fileno())
        (at.folder / "lost").write_text("lost again")
        target = target_of(Case(0, SIMULATED[0], KILL), at, KILL[0])
        FAULTS["broken disk"].strike(target)
        with pytest.raises(OSError, match="Input/output error"):
            (at.folder / "more").write_text("")
        FAULTS["broken disk"].heal(target)
        assert (at.folder / "kept").read_text() == "kept"
        assert not (at.folder / "lost").exists() or (at.folder / "lost").read_text() != "lost again"


def test_a_command_that_the_host_disturbed_is_tried_again() -> None:
    """Another reason to end is broken at once."""
    disturbed = "tuner: none of 2 windows is valid; `tuner doctor` shows what disturbs this host"
    assert is_spoilt(replace(ENDED, code=3, err=disturbed))
    assert not is_spoilt(replace(ENDED, code=3, err="tuner: no"))
    assert not is_spoilt(replace(ENDED, err=disturbed))


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


def test_a_fault_waits_for_what_it_strikes() -> None:
    """A process to kill may start later than at the drawn crossing."""
    struck: list[int] = []
    counter = Crossings(1, lambda: struck.append(counter.count), lambda: counter.count > 3)
    for _ in range(6):
        counter.cross()
    assert struck == [4]


def test_the_table_counts_by_fault() -> None:
    """One row for each fault, with its cases, those that it struck, and those that held."""
    case = Case(0, SIMULATED[0], KILL)
    outcomes = [Outcome(case, (ENDED,), ENDED, wrong) for wrong in ((), ("lost",))]
    assert rows(outcomes) == [("processes", "kill", 2, 2, 1)]
