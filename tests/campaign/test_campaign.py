"""A short campaign in every run: each fault once; and tests of the campaign itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.campaign.machine import Case, broken, cases, lengths, play, rows
from tests.campaign.scenarios import SCENARIOS, Ended
from tuner.testing.faults import FAULTS, Crossings

SEED = 20
ENDED = Ended(0, "", "", 1.0, 10, (), (), 0.0)


@pytest.fixture(scope="module")
def known() -> dict[str, int]:
    """Return the crossings of each scenario without a fault."""
    return lengths()


@pytest.mark.parametrize("number", range(len(FAULTS)))
def test_a_fault_breaks_no_invariant(number: int, known: dict[str, int]) -> None:
    """One case of each fault; ``make campaign`` tries as many as wanted."""
    case = next(case for case in cases(len(FAULTS), SEED, known) if case.number == number)
    outcome = play(case)
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
    case = Case(0, SCENARIOS[0], FAULTS["kill"], 3, 0.5)
    for name in ("tmp", "state"):
        (tmp_path / name).mkdir()

    def found(struck: Ended, resumed: Ended = ENDED) -> str:
        return "; ".join(broken(case, tmp_path, struck, resumed))

    assert "a traceback" in found(replace(ENDED, err="Traceback (most recent call last)"))
    assert "exit code 70" in found(replace(ENDED, code=70, err="tuner failed"))
    assert "without a message" in found(replace(ENDED, code=3))
    assert "exit code -9" not in found(replace(ENDED, code=-9))
    assert "cannot be resumed" in found(ENDED, replace(ENDED, code=3, err="tuner: no"))
    assert "took 99 s" in found(replace(ENDED, took_s=99.0))
    assert "the record cannot be read" in found(ENDED)
    assert "a second command" in found(replace(ENDED, complaints=("a second command ended",)))


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
    from tests.campaign.machine import Outcome

    case = Case(0, SCENARIOS[0], FAULTS["kill"], 3, 0.5)
    outcomes = [Outcome(case, ENDED, ENDED, ()), Outcome(case, ENDED, ENDED, ("lost",))]
    assert rows(outcomes) == [("processes", "kill", 2, 1)]
