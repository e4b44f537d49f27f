"""The rule for limits, in a confirmation and in an ablation's checks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tuner.goals.constraint import Constraint
from tuner.goals.metric import difference_ln, typical_ln
from tuner.measurement.window import Measurement
from tuner.stats.paired import estimate

LimitState = Literal["held", "violated", "undecided"]

Windows = Sequence[Measurement]


@dataclass(frozen=True, slots=True)
class LimitFound:
    """A limit evaluated on blocks, by the interval of its figure."""

    state: LimitState
    value: float
    """The candidate's figure; for a relative limit its ratio to the baseline's."""
    low: float
    high: float


def limit_found(
    limit: Constraint, blocks: Sequence[tuple[Windows, Windows]], confidence: float
) -> LimitFound:
    """Return whether a limit is held, violated or neither, over the blocks.

    Args:
        limit: the limit.
        blocks: the windows of baseline and candidate in each block.
        confidence: confidence of the interval, which must lie on one side of the limit.
    """
    metric = limit.metric
    if metric.name == "errors":
        # Shares may be zero, so they are compared directly and not by their logarithm.
        shares = [[metric.value(window) for window in own] for _, own in blocks]
        values = [math.fsum(share) / len(share) if share else math.nan for share in shares]
    else:
        values = [
            difference_ln(own, other, metric.value)
            if limit.relative
            else typical_ln(own, metric.value)
            for other, own in blocks
        ]
    if not values or not all(map(math.isfinite, values)):
        return LimitFound("undecided", math.nan, math.nan, math.inf)
    found = estimate(values, confidence)
    figures = [found.ratio, found.low, found.high]
    if metric.name == "errors":
        figures = [math.log(value) if 0 < value < math.inf else math.inf for value in figures]
    value, low, high = figures
    if not found.is_finite:
        return LimitFound("undecided", value, -math.inf, math.inf)
    inside = low >= limit.limit if metric.larger_is_better else high <= limit.limit
    outside = high < limit.limit if metric.larger_is_better else low > limit.limit
    return LimitFound(
        "held" if inside else "violated" if outside else "undecided", value, low, high
    )
