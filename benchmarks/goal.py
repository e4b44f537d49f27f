"""When a search reaches its goal: a recommendation within 5 % of the best configuration.

The clock stops when the recommended configuration is within 5 % of the best one: at first, and
for good until the horizon, so that luck does not count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from benchmarks.replay import World

HORIZON_S = 1200.0
WITHIN = 0.05


@dataclass(frozen=True, slots=True)
class Step:
    """A searcher's recommendation from an instant on."""

    time_s: float
    evaluations: int
    row: int


@dataclass(frozen=True, slots=True)
class Reached:
    """Times at which a search reached its goal; infinity if it never did."""

    first_s: float
    for_good_s: float
    evaluations: float
    """Evaluations until ``for_good_s``."""
    proposal_ms: float = math.nan
    """Mean time of a proposal by tuner's search, processor time in ms."""
    cut: bool = False
    """True if it was ended at the limit of its processor time; it then counts as never there."""


NEVER = Reached(math.inf, math.inf, math.inf)


Searcher = Callable[[World, int], list[Step]]


def reached(world: World, steps: Sequence[Step]) -> Reached:
    """Return when the recommendation came within 5 % of the best: at first, and for good."""
    good = [world.is_near_best(step.row, WITHIN) for step in steps]
    first = next((s.time_s for s, near in zip(steps, good, strict=True) if near), math.inf)
    last_bad = max((place for place, near in enumerate(good) if not near), default=-1)
    stays = steps[last_bad + 1] if last_bad + 1 < len(steps) else None
    if stays is None:
        return replace(NEVER, first_s=first)
    return Reached(first, stays.time_s, stays.evaluations)
