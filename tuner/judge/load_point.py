"""The load point: where the server's cores are 70 % busy in the host's slow seconds.

A share of the closed-loop capacity alone is another load on every machine. A saturated server
takes many requests at a time and spends less on each, so it is busier at 70 % of its rate; and a
rate that the generator, or the worst of several windows, limited is not what the server can do.
p99 follows the busy share of the cores: for M/M/1 it is proportional to 1/(1 - ρ) (Kleinrock,
Queueing Systems 1, 3.2). Therefore the first rate is a share of the capacity, and the CPU time seen
there in an open loop moves it. Slow seconds count, because near saturation p99 is mostly noise: for
M/M/1 a core that is 1 % slower makes it 3.3 % longer at ρ = 0.7, and 10 % at ρ = 0.9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuner.errors import InstrumentError
from tuner.machine.facts import CoreSplit
from tuner.measurement.bottleneck import busy_share, generator_is_limit, is_saturated
from tuner.measurement.window import Measurement
from tuner.record.model import Calibration, Record

LOAD_SHARE = 0.7
"""Busy share of the server's cores at the load point: busy, but not near saturation. Where their
CPU time is unknown or does not limit the server, the share of the closed-loop capacity."""
OTHER_LOAD_SHARES = (0.5, 0.85)
"""Further load points in the report, because p99 rises steeply near saturation."""
BUSIEST = 0.8
"""Busy share above which busy cycles hardly ever end, and p99 is mostly the noise of the core."""
MOST_MOVES = 2
"""Most rates that are tried after the first one."""
_NEAR = 0.03
"""Difference of a busy share that is not worth another probe: two significant digits of a rate
leave as much, and windows of some seconds differ by as much."""
_HIGHEST_SHARE = 0.9
"""Most of the closed-loop capacity that is offered: the closed loop showed that much for a few
seconds, and the host has slower ones."""
_HIGHEST_OTHER_SHARE = 0.95
"""The same for the other load points, which support no claim."""
_LOWER = 0.8
"""Next rate, as a share of one that the baseline cannot hold."""
_OF_BASELINE = "{share} of the baseline's capacity"
_OF_WEAKEST = "{share} of what the weakest arm can do here"
_OVERLOADED = ", lowered because the baseline did not keep up there"
_SLOWER = ", lowered because the host became slower"


@dataclass(frozen=True, slots=True)
class Capacity:
    """Closed-loop throughput of one configuration.

    It is the lowest of several windows: on a shared host a core's speed changes by the second, and
    a load point near its best would exceed its capacity at other times.
    """

    per_s: float
    generator_bound: bool
    """True if the generator was the limit: the server's capacity is at least ``per_s``."""
    busy_share: float | None = None
    """Busy share of the server's cores at the capacity; None if unknown."""

    @classmethod
    def of(cls, windows: Iterable[Measurement], cores: CoreSplit) -> Capacity | None:
        """Return the capacity from windows in a closed loop; None without answers."""
        valid = [window for window in windows if window.valid]
        per_s = min((window.completed_per_s for window in valid), default=0.0)
        if not per_s > 0:
            return None
        busy = busy_share(valid, cores)
        return cls(per_s, generator_is_limit(valid, busy), busy)

    @property
    def follows_cores(self) -> bool:
        """True if nothing but the server's cores is known to limit it.

        A closed loop that leaves cores idle, and not because of the generator, is limited by
        something else, such as a backend or the network: at a rate that keeps the cores busier,
        that would be saturated.
        """
        return self.busy_share is not None and (
            self.generator_bound or is_saturated(self.busy_share)
        )


@dataclass(frozen=True, slots=True)
class StudyLoad:
    """The offered rate of a study, and its source."""

    rate_per_s: float
    rule: str
    """The rule behind the rate, in words; ``{share}`` stands for its share of the capacity."""
    capacity_per_s: float
    given: bool = False
    """True if it is the user's, which never moves."""
    highest_per_s: float = math.inf
    """Limit for further moves."""
    busy_share: float | None = None
    """Busy share of the server's cores there, in slow seconds; None if unknown."""
    seen: tuple[tuple[float, float], ...] = ()
    """Probed rates with their busy shares."""

    @property
    def source(self) -> str:
        """Return the rule with its share: ``70% of the baseline's capacity``."""
        return self.rule.format(share=f"{self.rate_per_s / self.capacity_per_s:.0%}")

    def probed(self, busy: float | None) -> StudyLoad:
        """Return the load with its busy share from a probe."""
        seen = self.seen if busy is None else (*self.seen, (self.rate_per_s, busy))
        return replace(self, busy_share=busy, seen=seen)

    def words(self, cores: int) -> str:
        """Return source and busy share, as in a report.

        ``61% of the baseline's capacity; its core is 70% busy in slow seconds``

        Args:
            cores: number of the server's cores.
        """
        if self.busy_share is None:
            return self.source
        they = "its core is" if cores == 1 else f"its {cores} cores are"
        return f"{self.source}; {they} {self.busy_share:.0%} busy in slow seconds"


def move_words(load: StudyLoad, following: StudyLoad) -> str:
    """Return why a study tries another load."""
    return (
        f"at {load.rate_per_s:,.0f}/s the server's cores are {load.busy_share:.0%} busy in slow"
        f" seconds; trying {following.rate_per_s:,.0f}/s"
    )


def load_point(capacity: Capacity, rate_per_s: float | None) -> StudyLoad:
    """Return the first load of a study: the given rate, or a share of the capacity.

    Raises:
        InstrumentError: the capacity is too small to measure.
    """
    if rate_per_s is not None:
        return StudyLoad(rate_per_s, f"--rate, {_OF_BASELINE}", capacity.per_s, given=True)
    rate = two_digits(LOAD_SHARE * capacity.per_s)
    if rate < 1:
        raise InstrumentError(
            f"the baseline answers {capacity.per_s:.2f} requests/s, too few to measure"
        )
    return StudyLoad(rate, _OF_BASELINE, capacity.per_s)


def contest_load(
    wanted_per_s: float | None, weakest: Capacity, kind: str = "published"
) -> StudyLoad:
    """Return the first load of a contest: the wanted rate if every arm can serve it.

    Args:
        wanted_per_s: the published rate, or another wanted one; None without one.
        weakest: capacity of the weakest arm here.
        kind: name for the wanted rate, if it is not the published one.
    """
    most = max(1.0, two_digits(LOAD_SHARE * weakest.per_s))
    if wanted_per_s is None:
        return StudyLoad(most, _OF_WEAKEST, weakest.per_s)
    if wanted_per_s <= most:
        rule = f"as {kind}, {{share}} of the weakest arm"
        return StudyLoad(wanted_per_s, rule, weakest.per_s, given=True)
    rule = f"{_OF_WEAKEST}; the {kind} {wanted_per_s:,.0f}/s are more than that"
    return StudyLoad(most, rule, weakest.per_s, highest_per_s=wanted_per_s)


def moved(load: StudyLoad, capacity: Capacity) -> StudyLoad | None:
    """Return the load to probe next; None if the probed one is the load point.

    The rate is in proportion to the busy share, or between two probed rates. It rises only if the
    closed loop shows that the cores limit the server.

    Args:
        load: the load that was probed last.
        capacity: closed-loop capacity of the same configuration.
    """
    busy = load.busy_share
    if load.given or busy is None or abs(busy - LOAD_SHARE) <= _NEAR:
        return None
    if busy < LOAD_SHARE and not capacity.follows_cores:
        return None
    most = min(load.highest_per_s, _HIGHEST_SHARE * capacity.per_s)
    rate = two_digits(_rate_at(LOAD_SHARE, load.seen))
    if rate > most:
        rate = two_digits(most, math.floor)
    # A rounded rate may be a probed one.
    if rate < 1 or rate in {probed for probed, _ in load.seen}:
        return None
    return replace(load, rate_per_s=rate, busy_share=None)


def lower(load: StudyLoad) -> StudyLoad:
    """Return the next lower load, if the baseline cannot hold this one in an open loop."""
    return _lowered(load, _LOWER, _OVERLOADED)


def for_slower_host(load: StudyLoad) -> StudyLoad | None:
    """Return a lower load if the cores are too busy at this one; None if they are not.

    Args:
        load: a load with the busy share of its A/A blocks.
    """
    busy = load.busy_share
    if load.given or busy is None or busy <= BUSIEST:
        return None
    return _lowered(load, LOAD_SHARE / busy, _SLOWER)


def _lowered(load: StudyLoad, part: float, reason: str) -> StudyLoad:
    """Return a load at a part of the rate, from which it does not rise, and the reason for it."""
    rate = two_digits(part * load.rate_per_s)
    rule = load.rule.removesuffix(_OVERLOADED).removesuffix(_SLOWER) + reason
    return StudyLoad(rate, rule, load.capacity_per_s, highest_per_s=rate)


def windows_alone(record: Record) -> list[Measurement]:
    """Return the windows in an open loop in which the baseline of a study ran alone."""
    found = [w for block in record.blocks if block.phase == "capacity" for w in block.windows]
    return [window for window in found if window.mode == "open"]


def other_rates(known: Calibration) -> tuple[float, ...]:
    """Return the rates of the further load points.

    They are relative to the load point if the server's cores are about as busy there as wanted,
    and shares of the capacity otherwise, as with a rate of the user's.
    """
    whole, busy = known.capacity_per_s, known.busy_share
    if busy is not None and LOAD_SHARE - 2 * _NEAR <= busy <= BUSIEST:
        whole = known.rate_per_s / busy
    most = _HIGHEST_OTHER_SHARE * known.capacity_per_s
    return tuple(float(round(min(share * whole, most))) for share in OTHER_LOAD_SHARES)


def _rate_at(share: float, seen: Sequence[tuple[float, float]]) -> float:
    """Return the rate with a busy share, by linear interpolation of probed ones."""
    rates, busy = zip(*sorted([(0.0, 0.0), *seen]), strict=True)
    if share > busy[-1] > 0:
        return float(rates[-1] * share / busy[-1])
    # Noise must not make a higher rate less busy.
    return float(np.interp(share, np.maximum.accumulate(busy), rates))


def two_digits(rate: float, to_whole: Callable[[float], int] = round) -> float:
    """Return two significant digits, for a figure that is easy to repeat.

    Args:
        rate: the figure.
        to_whole: how to round it.
    """
    unit = 10 ** max(0, math.floor(math.log10(rate)) - 1) if rate >= 1 else 1
    return float(to_whole(rate / unit) * unit)
