"""The smallest change that a study can claim on a host, from the host's noise.

`tuner doctor`, the notes before a study, and its report share one scale: what a study of ten
minutes could claim here. The answer uses the verdict's own rule: the interval must lie beyond the
margin, with a probability of 80 % (`tuner.stats.power`, `tuner.stats.verdict`).

The noise σ_d, the standard deviation of a block's difference between identical instances, is
measured if possible. If only stalls and the speed of the host's cores were watched, `from_stalls`
estimates it (docs/instrument.md describes the source of the estimate and its accuracy).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Literal

from tuner.goals.goals import Goals
from tuner.judge.plan import Budget, plan_blocks
from tuner.stats.power import PooledSigma, minimum_detectable_effect
from tuner.words.terminal import duration

STUDY_S = 600.0
"""Length of the study for the scale: the default of `--time`."""
FINE = 0.10
"""Largest claimable effect of a host that needs no warning."""
COARSE = 0.20
"""Smallest claimable effect at which another host or hour is advised."""
Grade = Literal["fine", "coarse", "poor"]
USUAL_RATE_PER_S = 10_000.0
"""Default load point, at which windows have enough samples in a second or two."""
_CYCLE_S = 0.0005
"""Time around a stall that its busy cycle holds, in a server of some 50 µs per request."""
_LOAD = 0.7
"""Load at which a study measures, as a share of the capacity."""
_BACKLOG = _LOAD / (1 - _LOAD)
"""Time in which a stall's backlog drains, as a multiple of its length."""
FROM_STALLS = "estimated from stalls: "
FROM_CORES = "estimated from the cores' stalls and speed: "
ESTIMATED = f"noise, {FROM_STALLS}"
"""Prefix of a note from stalls alone, which a measured one replaces."""
MEASURED = "noise, measured between identical instances: "
"""Prefix of a note from A/A blocks."""
P99 = Goals.of("p99")
AA_DEGREES = 6
"""Degrees of freedom of a study's A/A blocks: three blocks of three instances."""
_QUIET_SIGMA = 0.03
"""σ_d of Nginx on a host without stalls."""
_SIGMA_PER_TOUCHED = 0.25
"""σ_d per share of requests that stalls touch; a proxy under 60 stalls a second had 0.1."""
_LONGER_S = (1_200, 1_800, 3_600, 7_200, 14_400, 28_800)
"""Values of `--time` to suggest."""


@dataclass(frozen=True, slots=True)
class Claimable:
    """The claims that a study could make on a host at one level of noise."""

    time_s: float
    """Length of the study."""
    sigma_d: float
    """Noise of a block's difference, in natural logarithms."""
    blocks: int
    """Blocks of its confirmation."""
    effect: float
    """Smallest reduction that is *better* with 80 % probability, as a share; 1: none."""
    rate_per_s: float = USUAL_RATE_PER_S
    """Its load point."""
    goals: Goals = P99
    """Its goals, with the margin."""
    degrees_of_freedom: int = AA_DEGREES
    """Degrees of freedom of the noise as the study estimates it."""
    is_least: bool = False
    """True if ``sigma_d`` is a lower bound, without what only a server under load shows."""

    @property
    def grade(self) -> Grade:
        """The place on the scale."""
        if self.effect <= FINE:
            return "fine"
        return "coarse" if self.effect < COARSE else "poor"

    @property
    def words(self) -> str:
        """The claimable effect and, where it is large, the ways out."""
        text = f"{self.short}: the smallest change that a study can claim here"
        if self.effect >= 1:
            text = f"{self.short}: no change of any size could be claimed here"
        if self.grade == "fine":
            return text
        longer = _longer(self)
        if self.grade == "coarse":
            return f"{text}; for a finer claim use {longer}, or a quieter host"
        return (
            f"{text}; come back when the host is quieter (often at night), use a host with cores"
            f" of its own, or use {longer}"
        )

    @property
    def short(self) -> str:
        """The claimable effect in a few words."""
        if self.effect >= 1:
            return f"nothing in {duration(self.time_s)}"
        return f"{self.about} in {duration(self.time_s)}"

    @property
    def about(self) -> str:
        """The claimable effect with its accuracy."""
        return f"{'not less than' if self.is_least else 'about'} {self.effect:.0%}"


def claimable(
    sigma_d: float,
    *,
    time_s: float = STUDY_S,
    rate_per_s: float = USUAL_RATE_PER_S,
    goals: Goals = P99,
    degrees_of_freedom: int = AA_DEGREES,
) -> Claimable:
    """Return what a study could claim at this noise, if it plans with the noise's upper limit.

    Args:
        sigma_d: noise of a block's difference between identical instances, in ln units.
        time_s: length of the study.
        rate_per_s: its load point, which affects the length of its blocks.
        goals: its goals, likewise, and its margin.
        degrees_of_freedom: of the noise as the study estimates it.

    Raises:
        ValueError: `sigma_d` is negative or not finite.
    """
    plan = plan_blocks(goals, rate_per_s, time_s)
    blocks = Budget(time_s).confirm_blocks(plan)
    upper = PooledSigma(sigma_d, degrees_of_freedom).upper_limit()
    effect = minimum_detectable_effect(upper, blocks, goals.margin)
    return Claimable(time_s, sigma_d, blocks, effect, rate_per_s, goals, degrees_of_freedom)


def from_stalls(
    cores: Iterable[CoreStalls], goals: Goals = P99, speeds: Sequence[CoreSpeed] = ()
) -> Claimable:
    """Estimate what a study could claim on a host with these stalls and speeds.

    Args:
        cores: stalls of the cores of server and generator.
        goals: goals of the study.
        speeds: changes of the speed of the server's cores, if they were measured.
    """
    plan = plan_blocks(goals, USUAL_RATE_PER_S, STUDY_S).confirm
    of_stalls = sigma_from_stalls(touched_share(cores))
    least = math.hypot(_QUIET_SIGMA, sigma_from_speed(speeds, plan.rounds * plan.window_s))
    found = claimable(math.hypot(of_stalls, least), goals=goals)
    # The part of the stalls is a cautious estimate, the others are lower bounds.
    return replace(found, is_least=of_stalls <= least)


def _longer(found: Claimable) -> str:
    """Return the shortest longer study with a fine claim, or the longest suggestion."""
    options = [
        claimable(
            found.sigma_d,
            time_s=time_s,
            rate_per_s=found.rate_per_s,
            goals=found.goals,
            degrees_of_freedom=found.degrees_of_freedom,
        )
        for time_s in _LONGER_S
    ]
    enough = [option for option in options if option.grade == "fine"] or options[-1:]
    option = enough[0]
    option = replace(option, is_least=found.is_least)
    effect = "still nothing" if option.effect >= 1 else option.about
    return f"--time {_option(option.time_s)} ({effect})"


def _option(time_s: float) -> str:
    """Return a duration in the format of `--time`."""
    return f"{time_s / 3_600:g}h" if time_s >= 3_600 else f"{time_s / 60:g}m"


@dataclass(frozen=True, slots=True)
class CoreStalls:
    """Observed stalls of one core."""

    cpu: int
    per_s: float
    share: float
    """Share of the time in stalls."""
    longest_us: float

    @property
    def words(self) -> str:
        """The stalls in words."""
        return (
            f"{self.per_s:.1f} stalls/s, {self.share:.1%} of the time, longest"
            f" {self.longest_us:,.0f} µs"
        )


@dataclass(frozen=True, slots=True)
class CoreSpeed:
    """Changes of one core's speed."""

    cpu: int
    change: float
    """Root mean square of the change from one slice to the next, in ln units."""
    slice_s: float
    """Length of the slices."""

    @property
    def words(self) -> str:
        """The changes in words."""
        slice_ms = self.slice_s * 1e3
        return f"speed changes by {self.change:.1%} from one {slice_ms:.0f} ms to the next"


def change_of_speed(times_s: Sequence[float]) -> float:
    """Return the root mean square of the changes of ln time from each to the next.

    Raises:
        ValueError: there are fewer than two times.
    """
    if len(times_s) < 2:
        raise ValueError(f"{len(times_s)} times show no change")
    changes = [math.log(last / first) for first, last in pairwise(times_s)]
    return math.sqrt(fmean(change**2 for change in changes))


def sigma_from_speed(speeds: Sequence[CoreSpeed], block_s: float) -> float:
    """Return the part of σ_d that comes from changes of the speed between the slices of the arms.

    A latency is in proportion to S/(1 - ρ) with the service time S and the load ρ, and so are its
    percentiles in the M/M/1 queue (Kleinrock, Queueing Systems I, 3.2); since ρ is in proportion to
    S, a change of ln S by 1 changes their logarithm by 1/(1 - ρ). Differences of neighbouring
    slices of two arms average over the slices of a block, and over the cores. It is a lower bound:
    changes that last for several slices average less, and in a slow slice the queue grows more than
    in proportion.

    Args:
        speeds: changes by core of the server; empty if not measured.
        block_s: time for which a block measures each arm.
    """
    if not speeds:
        return 0.0
    variance = fmean(speed.change**2 * speed.slice_s / block_s for speed in speeds)
    return math.sqrt(variance / len(speeds)) / (1 - _LOAD)


def touched_share(cores: Iterable[CoreStalls]) -> float:
    """Return the share of requests that stalls touch, estimated for a busy server.

    A stall touches the busy cycle in which it falls (`tuner.measurement.cycles`): some milliseconds
    around it, and its backlog. Stalls are assumed to be random, so the share outside is
    exp(-time in cycles).
    """
    spans = sum(core.per_s * _CYCLE_S + core.share * (1 + _BACKLOG) for core in cores)
    return -math.expm1(-spans)


def sigma_from_stalls(touched: float) -> float:
    """Return the part of σ_d that comes from the share of requests that stalls touch.

    It is about a quarter of that share, since the arms meet the same stalls in slices: a cautious
    estimate, good to a factor of two or three
    (docs/instrument.md#what-the-noise-of-a-host-allows).
    """
    return _SIGMA_PER_TOUCHED * touched
