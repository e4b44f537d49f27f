"""Goals are read from a study's texts, and order its trials."""

from __future__ import annotations

from typing import Any

import pytest

from tuner.errors import DefinitionError
from tuner.goals.goals import Goals, goals_of, parse_goals
from tuner.judge.ranking import choose, dominates, front, ranked, violates
from tuner.record.model import Trial

BOTH = Goals.of("p99", "memory")


def trial(
    number: int, first: float, second: float = 0.0, excess: dict[str, float] | None = None
) -> Trial:
    """Return a trial of one look."""
    over = {limit: {0: value} for limit, value in (excess or {}).items()}
    return Trial(
        number,
        f"d{number}",
        "proposed",
        "complete",
        {0: first},
        "",
        second={0: second},
        excess=over,
    )


def numbers(trials: list[Trial]) -> list[int]:
    """Return the numbers of the trials."""
    return [t.number for t in trials]


@pytest.mark.parametrize(
    ("objectives", "more", "words"),
    [
        (("capacity",), {}, "--objective: the objective capacity needs a latency limit"),
        (("p99",), {"slo": "p99<5ms"}, "--slo: only --objective capacity has a latency limit"),
        (("p99", "p99"), {}, "--objective: 'p99' is named twice"),
        (("p99", "cpu", "memory"), {}, "--objective: found 3 objectives; allowed: one, or two"),
        (("p99", "throughput"), {}, "--objective: throughput and 'p99' need different"),
        (("capacity", "p50"), {"slo": "p99<5ms"}, "--objective: capacity and 'p50' need different"),
        (
            ("throughput",),
            {"constraints": ("p99 <= 5ms",)},
            "--constraint: throughput and 'p99 <= 5ms' need different loads",
        ),
        (("p99",), {"constraints": ("p99 = 5ms",)}, "--constraint: 'p99 = 5ms' is not a limit"),
        (("p99",), {"choose": "p99=1"}, "--choose: a choice needs two objectives"),
        (
            ("p99", "cpu"),
            {"choose": "p99=1"},
            "--choose: 'p99=1' is not a choice; allowed: weights",
        ),
        (("p99", "cpu"), {"choose": "p99=1,cpu=0"}, "--choose: 'p99=1,cpu=0' is not a choice"),
        (("p99", "cpu"), {"choose": "memory <= 1x baseline"}, "is not a choice"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    objectives: tuple[str, ...], more: dict[str, Any], words: str
) -> None:
    """With the option that is wrong, and what is allowed."""
    with pytest.raises(DefinitionError) as caught:
        parse_goals(objectives, **more)
    assert words in str(caught.value)


def test_goals_are_read_again_from_a_definition() -> None:
    """As they stand in a record."""
    goals = goals_of(
        {
            "objective": ["capacity", "memory"],
            "slo": "p99<5ms",
            "constraint": ["cpu <= 1.1x baseline"],
            "choose": "memory=1,capacity=2",
        }
    )
    assert goals.words == "capacity at p99 <= 5ms and memory, with cpu <= 1.1x baseline"
    assert goals.choice.weights == (2.0, 1.0)
    assert goals.seek is not None
    assert goals_of({}).first.name == "p99"


def test_windows_hold_what_the_finest_figure_needs() -> None:
    """A constraint on p99.9 needs its samples too, and one on errors allows them."""
    assert Goals.of("p50").samples_needed == 2_000
    assert Goals.of("p50", constraints=("p99.9 <= 9ms",)).samples_needed == 100_000
    assert Goals.of("p50").error_share == 0
    assert Goals.of("p50", constraints=("errors <= 0.1%",)).error_share == pytest.approx(0.001)


def test_with_one_objective_the_order_is_that_of_the_mean_loss() -> None:
    """And more looks go first among equals."""
    twice = Trial(3, "d3", "proposed", "complete", {0: -0.1, 1: -0.1}, "")
    assert numbers(ranked([trial(1, 0.2), trial(2, -0.1), twice], Goals.of("p99"))) == [3, 2, 1]


def test_what_violates_a_constraint_comes_last_and_is_never_chosen() -> None:
    """However good it is."""
    goals = Goals.of("p99", constraints=("memory <= 1.2x baseline",))
    over = trial(1, -0.9, excess={"memory <= 1.2x baseline": 0.1})
    within = trial(2, 0.3, excess={"memory <= 1.2x baseline": -0.1})
    assert violates(over, goals)
    assert numbers(ranked([over, within], goals)) == [2, 1]
    assert choose([over, within], goals) == within
    assert choose([over], goals) is None


def test_the_front_is_what_nobody_beats_in_both() -> None:
    """Equal points do not beat each other."""
    points = [trial(1, -0.5, 0.2), trial(2, -0.2, -0.1), trial(3, -0.2, 0.0), trial(4, -0.5, 0.2)]
    assert numbers(front(points, BOTH)) == [1, 4, 2]
    assert numbers(ranked(points, BOTH))[-1] == 3
    assert not dominates((0.0, 0.0), (0.0, 0.0))


def test_the_choice_is_the_best_product_unless_the_user_says_otherwise() -> None:
    """By weights, or by a limit on one objective."""
    limit = "memory <= 1.1x baseline"
    points = [
        trial(1, -0.50, 0.30, {limit: 0.20}),
        trial(2, -0.30, 0.05, {limit: -0.05}),
        trial(3, -0.05, -0.10, {limit: -0.20}),
    ]

    def chosen(rule: str) -> int:
        found = choose(points, parse_goals(("p99", "memory"), choose=rule))
        assert found is not None
        return found.number

    assert chosen("") == 2
    assert chosen("p99=3,memory=1") == 1
    assert chosen("p99=1,memory=5") == 3
    assert chosen(limit) == 2
