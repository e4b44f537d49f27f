"""Rounds that the host spoilt count neither for an arm nor against one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.measurement.windows import window
from tuner.judge.rounds import good_rounds, least_effective, spoilt_rounds
from tuner.measurement.window import Measurement

GOOD = window("baseline", 0, 100.0)
LACKING = replace(GOOD, invalid=("an effective sample of 12 requests",), lacking=True)
LATE = replace(GOOD, invalid=("achieved less than offered",), bad=True)
FAILED = replace(LATE, errors={"status": 3})
STARVED = replace(GOOD, invalid=("the generator could not keep up",))


def rounds(*pairs: tuple[Measurement, Measurement]) -> list[Measurement]:
    """Return the windows of two arms, round by round."""
    return [
        replace(found, window_id=f"{number:02d}-{arm}", instance=arm)
        for number, pair in enumerate(pairs)
        for arm, found in zip(("baseline", "candidate"), pair, strict=True)
    ]


@pytest.mark.parametrize(
    ("first", "second", "spoilt"),
    [
        (GOOD, GOOD, False),
        (LACKING, GOOD, True),
        (LACKING, LACKING, True),
        (LATE, LATE, True),
        (LACKING, LATE, True),
        (GOOD, LATE, False),
        (FAILED, FAILED, False),
        (LATE, FAILED, False),
        (STARVED, LACKING, False),
    ],
)
def test_stalls_spoil_a_round_and_so_does_a_moment_in_which_no_arm_keeps_up(
    first: Measurement, second: Measurement, spoilt: bool
) -> None:
    """An arm that fails by itself, errors and a starved generator are not the host's doing."""
    found = spoilt_rounds(rounds((GOOD, GOOD), (first, second)))
    assert found == ({1} if spoilt else set())


def test_arms_that_never_keep_up_have_too_much_load() -> None:
    """Without a good round it may be the rate, and not a moment of the host."""
    assert not spoilt_rounds(rounds((LATE, LATE), (LATE, LATE)))
    assert spoilt_rounds(rounds((LACKING, LATE), (LACKING, LACKING))) == {1}


def test_a_round_is_good_if_each_arm_has_a_valid_window_in_it() -> None:
    """In a block in progress one arm has no window yet, and an invalid window spoils its round."""
    found = rounds((GOOD, GOOD), (GOOD, LATE), (GOOD, GOOD))
    assert good_rounds(found, 2) == 2
    assert good_rounds(found[:-1], 2) == 1


def test_a_block_has_as_many_effective_samples_as_its_weakest_arm() -> None:
    """Invalid windows add none."""
    few, many = replace(GOOD, effective=900.0), replace(GOOD, effective=2_000.0)
    found = rounds((many, few), (many, replace(many, invalid=("late",))), (many, few))
    assert least_effective(found) == 1_800.0
    assert least_effective([]) == 0.0
