"""The blocks of an ablation within a time."""

from __future__ import annotations

import pytest

from tuner.goals.goals import parse_goals
from tuner.judge.ablation_plan import (
    AblationPlan,
    command_s,
    least_plan,
    plan_ablation,
    reserved_s,
)
from tuner.judge.plan import plan_blocks
from tuner.stats.margin import Margin
from tuner.testing.sample_record import sample_record

CONFIRM = plan_blocks(parse_goals(("p99",)), 17_000.0, 360.0).confirm


def least(changes: int) -> AblationPlan:
    """Return the shortest ablation of independent changes."""
    return least_plan(CONFIRM, changes, 2 + 2 * changes)


@pytest.mark.parametrize("changes", range(2, 12))
@pytest.mark.parametrize("noise", [0.01, 0.3])
def test_an_ablation_that_fits_keeps_to_its_time(changes: int, noise: float) -> None:
    """The contrasts and one check; more time gives more blocks or longer ones."""
    shortest = least(changes)
    for share in (1.0, 1.3, 2.0, 10.0):
        time_s = share * shortest.total_s
        plan = plan_ablation(shortest, time_s, noise, Margin(0.03))
        assert shortest.total_s <= plan.total_s <= time_s + 1e-6


def test_without_enough_time_the_plan_is_the_shortest() -> None:
    """Fewer blocks could decide nothing."""
    assert plan_ablation(least(7), 10.0, 0.1, Margin(0.03)) == least(7)


def test_a_long_study_keeps_time_for_an_ablation() -> None:
    """At most a quarter of its time, and nothing if that is too short for six changes."""
    needed_s = 1.1 * least(6).total_s
    assert reserved_s(CONFIRM, 4.01 * needed_s) == pytest.approx(needed_s)
    assert reserved_s(CONFIRM, 3.99 * needed_s) == 0


def test_the_time_of_the_command_grows_with_the_changes() -> None:
    """The time is the command's default, or longer if the shortest ablation needs more."""
    record = sample_record("better")
    assert command_s(record, 1) == 600
    assert 600 < command_s(record, 7) < command_s(record, 14)
