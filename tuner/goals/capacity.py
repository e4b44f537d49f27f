"""The highest rate at which an arm meets a latency limit, from windows at several rates.

A window at rate r shows by how much its percentile exceeds the limit, ln(percentile / limit).
Latency does not fall when more is offered, so the excess is fitted by a non-decreasing function
of ln r (isotonic regression by pooling adjacent violators: Barlow et al. 1972), and the capacity
is where the fit crosses zero. Which rates are offered follows from an arm's own windows alone, by
one rule for all arms that is fixed beforehand: double the step until the limit is bracketed, then
halve the bracket, then look to either side of the estimate (the up-and-down method, Dixon and
Mood 1948, with the distances used and not only the signs).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.goals.constraint import Constraint
from tuner.measurement.window import STARVED_SHARE, Measurement

CLIP = 1.0
"""An excess counts as at most a factor e: near the limit the distance tells, far off the side."""
FIRST_STEP = 0.10
"""Natural logarithm of the first step from the rate at which all arms begin."""
LONGEST_STEP = 0.80
CLOSE = 0.05
"""A bracket of this width, in logarithms, is narrow enough to look to either side."""
SIDE = 0.02
_LATE_SHARE = 0.01
"""More unanswered requests than this is a rate that was not served, whatever the percentile."""


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
    bounded: bool
    """False: every window met the limit, or none did, so the capacity lies beyond the rates."""


def missed(window: Measurement) -> bool:
    """Return whether its rate was not served, whatever the percentile of what was answered."""
    late = window.timeouts + window.unsent + window.in_flight
    return late > _LATE_SHARE * window.offered or any(window.errors.values())


def point(window: Measurement, slo: Constraint) -> Point:
    """Return the point that a window contributes at its rate."""
    excess = math.log(slo.metric.value(window) / slo.limit)
    if missed(window):
        excess = CLIP
    return Point(math.log(window.rate_per_s), max(-CLIP, min(CLIP, excess)))


def points(windows: Sequence[Measurement], slo: Constraint) -> list[Point]:
    """Return the points of the valid windows, in their order."""
    return [point(window, slo) for window in windows if window.valid]


def crossing(found: Sequence[Point]) -> Crossing | None:
    """Return the rate at which the fitted excess is zero; None without points."""
    if not found:
        return None
    knots = _isotonic(found)
    below = [knot for knot in knots if knot.excess <= 0]
    above = [knot for knot in knots if knot.excess > 0]
    if not above:
        return Crossing(max(p.ln_rate for p in found), bounded=False)
    if not below:
        return Crossing(min(p.ln_rate for p in found), bounded=False)
    low, high = below[-1], above[0]
    share = -low.excess / (high.excess - low.excess)
    return Crossing(low.ln_rate + share * (high.ln_rate - low.ln_rate), bounded=True)


def next_rate(own: Sequence[Measurement], slo: Constraint, start_per_s: float) -> float:
    """Return the rate of an arm's next window, requests/s.

    Args:
        own: the windows of the arm in this block so far. Those in which the generator could not
            keep up show nothing about the server, and no such rate is offered again.
        slo: an absolute limit on a percentile.
        start_per_s: where every arm begins.
    """
    found = points(own, slo)
    starved = [w for w in own if not w.valid and w.generator_busy_share > STARVED_SHARE]
    ceiling = min((math.log(w.rate_per_s) for w in starved), default=math.inf)
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
    """Inside the bracket: its middle while it is wide, then one side of the estimate, the other."""
    estimate = crossing(found)
    assert estimate is not None  # noqa: S101 - there are points on both sides
    low = max((p.ln_rate for p in found if p.ln_rate < estimate.ln_rate), default=-math.inf)
    high = min((p.ln_rate for p in found if p.ln_rate > estimate.ln_rate), default=math.inf)
    if CLOSE < high - low < math.inf:
        return (low + high) / 2
    return estimate.ln_rate + (SIDE if len(found) % 2 else -SIDE)


def _isotonic(found: Sequence[Point]) -> list[Point]:
    """Non-decreasing excess over ascending rates: each knot is the mean of the points it pools.

    Windows at the same rate are one point of their weight, whatever their order.
    """
    pools: list[tuple[float, float, int]] = []
    for _, same in itertools.groupby(sorted(found, key=_rate), _rate):
        at_once = list(same)
        count = len(at_once)
        rate, excess = count * at_once[0].ln_rate, math.fsum(p.excess for p in at_once)
        while pools and pools[-1][1] / pools[-1][2] >= excess / count:
            before = pools.pop()
            rate, excess, count = rate + before[0], excess + before[1], count + before[2]
        pools.append((rate, excess, count))
    return [Point(rate / count, excess / count) for rate, excess, count in pools]


def _rate(found: Point) -> float:
    return found.ln_rate
