"""Latency against offered rate: the knee, the highest rate within a limit, availability.

A ladder offers every arm the same rates, one rate per block in random order, so that changes of the
host affect all rates equally. The growth of a percentile with the rate is fitted as for a capacity
(``tuner.goals.capacity``).

The knee is where p99 is twice its value at the two lowest rates. In the simplest queue (M/M/1)
requests take twice as long as on an idle server where power, the ratio of throughput to latency,
is greatest: beyond that rate more throughput costs more waiting than it is worth
(Kleinrock, Power and deterministic rules of thumb for probabilistic problems in computer
communications, ICC 1979).

Intervals are percentiles of a bootstrap that resamples whole blocks within each rate (Efron and
Tibshirani, An Introduction to the Bootstrap, 1993, ch. 13), the same draw for all arms.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tuner.goals.capacity import CLIP, Point, Side, clipped, crossing, missed, point
from tuner.goals.constraint import Constraint
from tuner.measurement.bottleneck import is_starved
from tuner.measurement.latency import decode
from tuner.measurement.window import Measurement
from tuner.record.model import Block

KNEE = 2.0
"""Ratio of p99 at the knee to its value at the lowest rates."""
LOWEST = 2
"""Number of the lowest rates for the latency of an idle server."""
LEAST_BLOCKS = 3
"""Fewest blocks of each rate for an interval."""
RESAMPLES = 200
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Rung:
    """One arm at one rate: medians over its windows, but for the availability, which is a mean."""

    rate_per_s: float
    windows: int
    p50_us: float
    p99_us: float
    answered_per_s: float
    availability: float
    """Share of the offered requests with the right answer in time."""
    cpu_cores: float
    """CPU time of the server per second; NaN if unreadable."""
    starved: int
    """Windows in which the generator could not keep up, which are not in the figures."""


@dataclass(frozen=True, slots=True)
class ReachedRate:
    """An estimated rate, such as the knee, with its 95 % interval."""

    per_s: float
    side: Side
    """``beyond``: above the highest offered rate; ``below``: below the lowest."""
    low: float = math.nan
    high: float = math.nan
    """Upper end of the interval; NaN with too few blocks."""


@dataclass(frozen=True, slots=True)
class Climb:
    """The figures of one arm on a ladder."""

    arm: str
    rungs: tuple[Rung, ...]
    """Rungs by rising rate."""
    knee: ReachedRate | None
    holds: ReachedRate | None
    """The highest rate within the limit."""
    generator_limit_per_s: float | None
    """Lowest rate at which the generator, and not the server, was the limit."""


def available(window: Measurement, within_s: float) -> float:
    """Return the share of the offered requests with the right answer within a time.

    The time counts from the intended instant. Requests that failed, came too late, or were never
    sent because the server accepted no more, were not available. NaN without requests.
    """
    if not window.offered:
        return math.nan
    if window.raw.max_us <= within_s * 1e6:
        return window.completed / window.offered
    values_ns, counts = decode(window.raw.hdr)
    in_time = int(counts[values_ns <= within_s * 1e9].sum())
    return min(in_time, window.completed) / window.offered


def climbs(
    blocks: Iterable[Block],
    arms: Sequence[str],
    limit: Constraint,
    *,
    within_s: float,
    seed: int = 1,
) -> tuple[Climb, ...]:
    """Return the figures of every arm on a ladder.

    Args:
        blocks: blocks, of which those of phase ``ladder`` count, also unfinished ones.
        arms: labels, in the order of the report.
        limit: an absolute limit on a percentile.
        within_s: a client's time limit for an answer.
        seed: seed of the bootstrap.
    """
    climbed = [block for block in blocks if block.phase == "ladder" and block.windows]
    draws = _draws(climbed, seed)
    return tuple(_climb(arm, climbed, draws, limit, within_s) for arm in arms)


def rungs(low_per_s: float, high_per_s: float, count: int) -> tuple[float, ...]:
    """Return rising rates from idle to beyond the strongest arm's capacity, requests/s.

    Two of them far below the weakest arm's capacity show the latency of an idle server; the
    others are spread evenly, on a log scale, from where the weakest may bend.

    Args:
        low_per_s: capacity of the weakest arm.
        high_per_s: capacity of the strongest.
        count: number of rates, at least 4.
    """
    idle = [0.1 * low_per_s, 0.3 * low_per_s]
    steps = np.geomspace(0.6 * low_per_s, 1.2 * high_per_s, max(2, count - len(idle)))
    return tuple(dict.fromkeys(_round(rate) for rate in (*idle, *steps.tolist())))


def _climb(
    arm: str, blocks: Sequence[Block], draws: Sequence[_Draw], limit: Constraint, within_s: float
) -> Climb:
    windows: dict[float, list[Measurement]] = {}
    for block in blocks:
        for window in block.windows:
            if window.instance == arm:
                windows.setdefault(window.rate_per_s, []).append(window)
    seen = _seen(arm, blocks, limit)
    starved = [rate for rate, found in windows.items() if any(map(is_starved, found))]
    return Climb(
        arm=arm,
        rungs=tuple(_rung(rate, windows[rate], within_s) for rate in sorted(windows)),
        knee=_reach(seen, draws, _knee_points),
        holds=_reach(seen, draws, lambda found: [window.limited for window in found]),
        generator_limit_per_s=min(starved, default=None),
    )


def _rung(rate_per_s: float, windows: Sequence[Measurement], within_s: float) -> Rung:
    good = [window for window in windows if window.valid]

    def typical(values: Iterable[float]) -> float:
        known = [value for value in values if math.isfinite(value)]
        return statistics.median(known) if known else math.nan

    return Rung(
        rate_per_s=rate_per_s,
        windows=len(good),
        p50_us=typical(window.stall_free.p50_us for window in good),
        p99_us=typical(window.stall_free.p99_us for window in good),
        answered_per_s=typical(window.completed_per_s for window in good),
        availability=(
            statistics.fmean(available(window, within_s) for window in good) if good else math.nan
        ),
        cpu_cores=typical(
            window.server_cpu_s / window.duration_s
            for window in good
            if window.server_cpu_s is not None
        ),
        starved=sum(map(is_starved, windows)),
    )


# --- where a fit crosses a line ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Seen:
    """Data of one window for the fits."""

    limited: Point
    """Excess over the limit."""
    ln_p99: float
    """NaN where the rate was not served."""


_ByBlock = Mapping[int, Sequence[_Seen]]
_Draw = Sequence[int]
"""Indices of blocks, possibly repeated."""


def _seen(arm: str, blocks: Sequence[Block], limit: Constraint) -> _ByBlock:
    return {
        block.number: [
            _Seen(
                point(window, limit),
                math.nan if missed(window) else _ln(window.stall_free.p99_us),
            )
            for window in block.windows
            if window.instance == arm and window.valid
        ]
        for block in blocks
    }


def _ln(value: float) -> float:
    return math.log(value) if value > 0 else math.nan


def _draws(blocks: Sequence[Block], seed: int) -> list[_Draw]:
    """Return the blocks first, then resamples; none if a rate has too few blocks."""
    by_rate: dict[float, list[int]] = {}
    for block in blocks:
        by_rate.setdefault(block.windows[0].rate_per_s, []).append(block.number)
    draws: list[_Draw] = [[block.number for block in blocks]]
    if min(map(len, by_rate.values()), default=0) < LEAST_BLOCKS:
        return draws
    random = np.random.default_rng(seed)
    for _ in range(RESAMPLES):
        drawn = [random.choice(numbers, len(numbers)) for numbers in by_rate.values()]
        draws.append([int(number) for number in np.concatenate(drawn)])
    return draws


def _reach(
    seen: _ByBlock, draws: Sequence[_Draw], points: Callable[[Sequence[_Seen]], list[Point]]
) -> ReachedRate | None:
    """Return the rate where the fit crosses zero, with an interval from the resamples."""
    found = [
        crossing(points([window for number in draw for window in seen[number]]), spread=True)
        for draw in draws
    ]
    first = found[0]
    if first is None:
        return None
    again = [other.ln_rate for other in found[1:] if other is not None]
    if not again:
        return ReachedRate(math.exp(first.ln_rate), first.side)
    low, high = np.quantile(again, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2])
    return ReachedRate(math.exp(first.ln_rate), first.side, math.exp(low), math.exp(high))


def _knee_points(seen: Sequence[_Seen]) -> list[Point]:
    lowest = sorted({window.limited.ln_rate for window in seen})[:LOWEST]
    idle = [w.ln_p99 for w in seen if w.limited.ln_rate in lowest and not math.isnan(w.ln_p99)]
    if not idle:
        return []
    ln_knee = statistics.median(idle) + math.log(KNEE)
    return [
        Point(w.limited.ln_rate, CLIP if math.isnan(w.ln_p99) else clipped(w.ln_p99 - ln_knee))
        for w in seen
    ]


def _round(rate: float) -> float:
    """Return two significant digits, for a rate that is easy to repeat."""
    return float(f"{rate:.2g}")
