"""Tests of the schedule: one look for all, three for the better part, more for the best."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import seeds
from tuner.goals.goals import Goals
from tuner.record.model import Trial, TrialState
from tuner.search.schedule import RUNGS, again, best_first, finalists, look_noise, winner

ONE = Goals.of("p99")


def trial(number: int, losses: Sequence[float], state: TrialState = "racing") -> Trial:
    """Return a trial with these looks."""
    looks = {10 * number + place: loss for place, loss in enumerate(losses)}
    return Trial(number, f"d{number}", "proposed", state, looks, "")


def numbers(trials: Sequence[Trial]) -> list[int]:
    """Return the numbers of the trials."""
    return [t.number for t in trials]


TRIALS = st.lists(st.lists(st.floats(-1, 1), max_size=6), max_size=15).map(
    lambda all_losses: [trial(n, losses) for n, losses in enumerate(all_losses)]
)


def test_after_one_look_the_best_quarter_is_looked_at_again() -> None:
    """Best first; the rest had its look."""
    trials = [trial(n, [n / 10]) for n in range(8)]
    assert numbers(again(trials, 5, ONE)) == [0, 1]


def test_nobody_is_in_the_better_part_of_three() -> None:
    """A quarter of fewer than four is nobody."""
    assert again([trial(n, [n / 10]) for n in range(3)], 5, ONE) == []


def test_a_trial_goes_on_until_its_rung_and_then_has_to_be_among_the_best_again() -> None:
    """Two looks lead to the third without a contest of those with three."""
    ones = [trial(n, [n / 20]) for n in range(10, 13)]
    assert numbers(again([trial(1, [-0.3, -0.3]), *ones], 5, ONE)) == [1]
    threes = [trial(n, [n / 10] * 3) for n in range(4)]
    assert numbers(again([*threes, *ones], 5, ONE)) == [0]
    assert again([*threes[1:], *ones], 5, ONE) == [], "of three with three looks none is the best"


def test_enough_looks_are_enough() -> None:
    """Then the time is better spent on others."""
    others = [trial(n, [0.0]) for n in range(1, 5)]
    assert again([trial(0, [-1.0] * RUNGS[-1]), *others], 5, ONE) == []


def test_a_lucky_first_look_does_not_decide() -> None:
    """The mean over the looks decides, not a lucky first look."""
    lucky, steady = trial(0, [-0.9, 0.6]), trial(1, [-0.4, -0.4])
    others = [trial(n, [-0.3 + n / 20]) for n in range(2, 5)]
    assert numbers(again([lucky, steady, *others], 5, ONE)) == [1]
    assert numbers(best_first([lucky, steady], ONE))[0] == 1


@pytest.mark.parametrize("state", ["dropped", "infeasible", "complete"])
def test_only_racing_trials_are_measured_again(state: TrialState) -> None:
    """Only racing trials are measured again."""
    trials = [trial(0, [-1.0], state), *(trial(n, [0.1]) for n in range(1, 6))]
    assert 0 not in numbers(again(trials, 5, ONE))
    assert 0 not in numbers(finalists(trials, 5, ONE))


@given(TRIALS, st.integers(0, 6))
def test_never_more_than_there_is_room_for(trials: list[Trial], slots: int) -> None:
    """And nobody twice."""
    for chosen in (again(trials, slots, ONE), finalists(trials, slots, ONE)):
        assert len(chosen) <= slots
        assert len(set(numbers(chosen))) == len(chosen)
        assert all(1 <= len(t.losses) < RUNGS[-1] for t in chosen)


def test_the_end_of_the_search_looks_again_at_the_best() -> None:
    """The last looks go to the best trials that still lack some, on any rung."""
    known = trial(0, [-0.5] * RUNGS[-1])
    trials = [known, trial(1, [-0.4]), trial(2, [-0.3] * 3), trial(3, [0.0])]
    assert numbers(finalists(trials, 3, ONE)) == [1, 2]


def test_a_single_brilliant_look_loses_against_five_good_ones() -> None:
    """Looks of the same configuration differ by 0.2 here, so one of them says little."""
    trials = [
        trial(0, [-0.45]),
        trial(1, [-0.2, -0.4, 0.0, -0.3, -0.1], "complete"),
        trial(2, [-0.3, -0.5, -0.1, -0.4, -0.2], "complete"),
    ]
    found = winner(trials, ONE)
    assert found is not None
    assert found.number == 2


def test_a_look_that_no_noise_explains_wins_at_once() -> None:
    """A single look that is better by more than the noise wins."""
    steady = trial(1, [-0.2, -0.22, -0.18, -0.21, -0.19], "complete")
    found = winner([trial(0, [-0.9]), steady], ONE)
    assert found is not None
    assert found.number == 0


def test_the_noise_of_a_look_is_that_of_repeated_looks() -> None:
    """The noise of a look comes from repeated looks; one disturbed look changes little."""
    rng = seeds.rng(21)
    trials = [trial(n, rng.normal(n, 0.1, 4).tolist()) for n in range(100)]
    trials.append(trial(100, [0.0, 5.0]))
    # 400 looks: a robust estimate of a standard deviation has a relative error of 1.17 / sqrt(400),
    # so half of the truth is more than eight standard errors away.
    assert look_noise(trials) == pytest.approx(0.1, rel=0.5)
    assert look_noise([trial(0, [1.0]), trial(1, [2.0])]) == 0.0, "nothing was measured twice"


@pytest.mark.parametrize("state", ["dropped", "infeasible"])
def test_who_left_the_race_cannot_win(state: TrialState) -> None:
    """However good the rounds before."""
    found = winner([trial(0, [-0.9] * 5, state), trial(1, [0.2])], ONE)
    assert found is not None
    assert found.number == 1


def test_without_a_measured_trial_there_is_no_winner() -> None:
    """Nothing to confirm."""
    assert winner([trial(0, []), trial(1, [], "infeasible")], ONE) is None
