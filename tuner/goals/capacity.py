"""The highest rate at which an arm meets a latency limit, from windows at several rates.

A window at rate r gives the excess of its percentile over the limit, ln(percentile / limit).
Latency does not fall with a higher rate, so a non-decreasing function of ln r is fitted to the
excess (``tuner.stats.isotonic``), and the capacity is where the fit crosses zero. The offered rates
depend only on an arm's own windows, by one rule for all arms that is fixed beforehand:
double the step until the limit is bracketed, then halve the bracket, then look to either side of
the estimate (the up-and-down method, Dixon and Mood 1948, with the distances used and not only the
signs).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from tuner.goals.constraint import Constraint
from tuner.measurement.bottleneck import is_starved
from tuner.measurement.window import Measurement
from tuner.stats.isotonic import isotonic

CLIP = 1.0
"""Limit for the size of an excess: near the limit its distance counts, far off only its side."""
FIRST_STEP = 0.10
"""Natural logarithm of the first step from the rate at which all arms begin."""
LONGEST_STEP = 0.80
CLOSE = 0.05
"""A bracket of this width, in logarithms, is narrow enough to look to either side."""
SIDE = 0.02
Side = Literal["found", "beyond", "below"]
_LATE_SHARE = 0.01
"""Share of unanswered requests above which a rate was not served, for any percentile."""


@dataclass(frozen=True, slots=True)
class Point:
    """One window at one rate."""

    ln_rate: float
    excess: float
    """ln(percentile / limit), at most ``CLIP`` to either side; positive: the limit is missed."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """The rate at which the limit is reached."""

    ln_rate: float
    side: Side
    """``beyond``: the limit is met at every rate offered; ``below``: at none of them."""


def missed(window: Measurement) -> bool:
    """Return whether a window's rate was not served, for any percentile of its answers."""
    late = window.timeouts + window.unsent + window.in_flight
    return late > _LATE_SHARE * window.offered or any(window.errors.values())


def point(window: Measurement, slo: Constraint) -> Point:
    """Return the point of a window at its rate."""
    value = slo.metric.value(window)
    served = value > 0 and not missed(window)
    excess = clipped(math.log(value / slo.limit)) if served else CLIP
    return Point(math.log(window.rate_per_s), excess)


def clipped(excess: float) -> float:
    """Return an excess within ``CLIP`` to either side."""
    return max(-CLIP, min(CLIP, excess))


def points(windows: Sequence[Measurement], slo: Constraint) -> list[Point]:
    """Return the points of the valid windows, in their order."""
    return [point(window, slo) for window in windows if window.valid]


def crossing(found: Iterable[Point], *, spread: bool = False) -> Crossing | None:
    """Return the rate at which the fitted excess is zero; None without points.

    Args:
        found: the windows.
        spread: whether the rates are far apart. Pooled rates then keep their places; close rates,
            as in a search, are replaced by their mean.
    """
    pools = isotonic((p.ln_rate, p.excess) for p in found)
    if not pools:
        return None
    below = [pool for pool in pools if pool.y <= 0]
    above = [pool for pool in pools if pool.y > 0]
    if not above:
        return Crossing(pools[-1].x[-1], "beyond")
    if not below:
        return Crossing(pools[0].x[0], "below")
    last, first = below[-1], above[0]
    low, high = (last.x[-1], first.x[0]) if spread else (last.mean_x, first.mean_x)
    share = -last.y / (first.y - last.y)
    return Crossing(low + share * (high - low), "found")


def next_rate(own: Sequence[Measurement], slo: Constraint, start_per_s: float) -> float:
    """Return the rate of an arm's next window, requests/s.

    Args:
        own: the windows of the arm in this block so far. Those in which the generator could not
            keep up say nothing about the server, and their rates are not offered again.
        slo: an absolute limit on a percentile.
        start_per_s: first rate of every arm.
    """
    found = points(own, slo)
    ceiling = min((math.log(w.rate_per_s) for w in own if is_starved(w)), default=math.inf)
    passed = [p.ln_rate for p in found if p.excess <= 0]
    failed = [p.ln_rate for p in found if p.excess > 0]
    if not found:
        target = math.log(start_per_s)
    elif not failed:
        target = max(passed) + _step(len(passed))
    elif not passed:
        target = min(failed) - _step(len(failed))
    else:
        target = _between(found)
    if target >= ceiling:
        target = (max(passed) + ceiling) / 2 if passed else ceiling - FIRST_STEP
    return math.exp(target)


def _step(tries: int) -> float:
    return float(min(LONGEST_STEP, FIRST_STEP * 2 ** (tries - 1)))


def _between(found: Sequence[Point]) -> float:
    """Return the middle of a wide bracket, else alternate between both sides of the estimate."""
    estimate = crossing(found)
    assert estimate is not None  # noqa: S101 - there are points on both sides
    low = max((p.ln_rate for p in found if p.ln_rate < estimate.ln_rate), default=-math.inf)
    high = min((p.ln_rate for p in found if p.ln_rate > estimate.ln_rate), default=math.inf)
    if CLOSE < high - low < math.inf:
        return (low + high) / 2
    return estimate.ln_rate + (SIDE if len(found) % 2 else -SIDE)
