"""The goal of a search, and the limit of its processor time."""

from __future__ import annotations

import math

import optuna
import pytest

from benchmarks.goal import NEVER, Reached, Step, reached
from benchmarks.replay import World, world_of
from benchmarks.rivals import TooSlowError, by_optuna
from benchmarks.short_search import TABLE


@pytest.fixture(scope="module")
def world() -> World:
    """Return the recorded table as a world."""
    return world_of(TABLE)


def test_a_search_reaches_its_goal_at_first_and_for_good(world: World) -> None:
    """The time for good is that of the first good recommendation after the last bad one."""
    good, bad = int(world.truth.argmin()), int(world.truth.argmax())
    steps = [Step(10.0, 1, bad), Step(20.0, 2, good), Step(30.0, 3, bad), Step(40.0, 4, good)]
    assert reached(world, steps) == Reached(20.0, 40.0, 4)
    assert reached(world, steps[:3]) == Reached(20.0, math.inf, math.inf)
    assert reached(world, steps[:1]) == NEVER


def test_a_slow_search_ends_at_its_limit(world: World) -> None:
    """A search that has used its processor time is ended, and does not count as finished."""
    search = by_optuna(lambda seed: optuna.samplers.RandomSampler(seed=seed), 30.0, limit_s=0.0)
    with pytest.raises(TooSlowError, match=r"trials took more than 0 s"):
        search(world, 1)
