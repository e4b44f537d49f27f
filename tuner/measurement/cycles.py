"""Busy cycles: the requests that a stall of the host can have touched, and the weight of the rest.

A stall touches exactly the *busy cycle* in which it falls: from the last moment before it at which
no request was outstanding to the first such moment after it. A request counts if its cycle holds
no stall, of the generator's core or of the server's. Where several arms share a window in slices,
a border between two slices is a stall of length 0: what one arm leaves behind touches the next.
An arm that falls behind until it is given up is a stall for all of them.

A long cycle is likelier to meet a stall than a short one, so the cycles that are left are too
short. Stalls are the host's and independent of the queue; hence each remaining cycle of length l
has the weight 1/S(l), where S(l) is the share of undisturbed time that is followed by more than l
of it (Horvitz and Thompson, JASA 47, 1952; regenerative simulation: Crane and Iglehart, Operations
Research 23, 1975). ``docs/statistics.md`` has the simulations.

With many workers something is always outstanding. Cycles then count above a ``level``: what up to
that number of outstanding requests do is deemed independent of one another.

``loadgen/src/cycles.rs`` has the same rule for users of the generator alone.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuner.measurement.stalls import Span, merged

Instants: TypeAlias = NDArray[np.int64]
"""Instants in ns from the start of a window's measured part."""
Weights: TypeAlias = NDArray[np.float64]
"""One weight per request; 0 for those that a stall or a border touched."""

HEAVIEST = 50.0
"""Largest weight: heavier ones would let a few long cycles decide."""


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """All requests of a window, those of every arm that shares it."""

    intended_ns: Instants
    """Ascending."""
    ended_ns: Instants
    """Instants of the answers, or of giving up, ascending."""
    borders_ns: Instants = field(default_factory=lambda: np.empty(0, np.int64))
    """Instants at which the turn passed from one arm to another, ascending."""
    behind: tuple[Span, ...] = ()
    """Times in which an arm fell behind, up to the moment at which it was given up."""

    @classmethod
    def of(
        cls,
        arms: Sequence[tuple[Instants, Instants]],
        borders_ns: Sequence[int] = (),
        behind: Sequence[Span | None] = (),
    ) -> Traffic:
        """Return the traffic of arms, given the intended and the last instants of each.

        ``behind`` has a span for each arm that was given up. Its later requests did not reach it,
        or waited for its own slices, so that no other arm met them.
        """
        met = [
            _met(arm, span) if span else arm for arm, span in itertools.zip_longest(arms, behind)
        ]
        intended = np.concatenate([arm[0] for arm in met])
        ended = np.concatenate([np.maximum(*arm) for arm in met])
        # Each arm's instants are in order, or nearly, which a stable sort makes use of.
        return cls(
            np.sort(intended, kind="stable"),
            np.sort(ended, kind="stable"),
            np.asarray(borders_ns, np.int64),
            tuple(span for span in behind if span),
        )


def _met(arm: tuple[Instants, Instants], behind: Span) -> tuple[Instants, Instants]:
    """Return the requests from before an arm fell behind, which end when it is given up."""
    (intended_ns, ended_ns), (start, end) = arm, behind
    before = intended_ns < start
    return intended_ns[before], np.minimum(ended_ns[before], end)


@functools.lru_cache(maxsize=1)  # The arms of a window ask for the same spans in turn.
def busy_spans(traffic: Traffic, level: int) -> tuple[Instants, Instants]:
    """Return the starts and the ends of the times with more than ``level`` outstanding requests.

    A request that begins at the instant at which another ends has met it.
    """
    begun, ended = traffic.intended_ns, traffic.ended_ns
    count = np.arange(1, len(begun) + 1)
    ahead = count - np.searchsorted(ended, begun, "left")
    left = np.searchsorted(begun, ended, "right") - count
    return begun[ahead == level + 1], ended[left == level]


@dataclass(frozen=True, slots=True)
class Disturbances:
    """Stalls and borders of a window, disjoint and in order, and the quiet time between them."""

    starts_ns: Instants
    ends_ns: Instants
    lengths_ns: Instants
    """Lengths of the quiet times, ascending."""
    ahead_ns: Instants
    """Sum of each quiet time and all longer ones."""

    @classmethod
    def of(cls, spans: Sequence[Span], borders_ns: Instants, end_ns: int) -> Disturbances:
        """Merge the stalls and the borders within 0 and ``end_ns``, which count as borders."""
        inside = [span for span in spans if span[1] > 0 and span[0] < end_ns]
        points = [(at, at) for at in (0, *borders_ns.tolist(), end_ns)]
        found = np.array(merged([*inside, *points]), np.int64)
        quiet = np.sort(found[1:, 0] - found[:-1, 1])
        return cls(found[:, 0], found[:, 1], quiet, np.cumsum(quiet[::-1])[::-1])

    def survival(self, lengths_ns: Instants) -> Weights:
        """Return the share of quiet time that is followed by more than each length of it."""
        quiet = self.lengths_ns
        if not len(quiet) or not self.ahead_ns[0]:
            return np.ones(len(lengths_ns))
        first = np.searchsorted(quiet, lengths_ns, "right")
        longer = len(quiet) - first
        sums = np.append(self.ahead_ns, 0)[first] - longer * lengths_ns
        return np.asarray(sums / self.ahead_ns[0], np.float64)


def weights(
    intended_ns: Instants,
    ended_ns: Instants,
    traffic: Traffic,
    disturbances: Disturbances,
    level: int = 0,
) -> Weights:
    """Return the weight of each request of one arm; 0 where its busy cycle was disturbed.

    Args:
        intended_ns: shape (n,).
        ended_ns: shape (n,).
        traffic: the requests of all arms of the window.
        disturbances: what disturbed them.
        level: number of outstanding requests above which a cycle begins.
    """
    starts, ends = busy_spans(traffic, level)
    own_end = np.maximum(intended_ns, ended_ns)
    first = np.searchsorted(ends, intended_ns, "right")
    after = np.searchsorted(starts, own_end, "left")
    in_cycle = first < after
    begin, end = intended_ns.copy(), own_end.copy()
    begin[in_cycle] = np.minimum(begin[in_cycle], starts[first[in_cycle]])
    end[in_cycle] = np.maximum(end[in_cycle], ends[after[in_cycle] - 1])
    place = np.searchsorted(disturbances.ends_ns, begin, "right")
    beyond = np.append(disturbances.starts_ns, np.iinfo(np.int64).max)
    disturbed = beyond[place] < end
    survived = np.maximum(disturbances.survival(end - begin), 1 / HEAVIEST)
    return np.where(disturbed, 0.0, 1 / survived)


def effective_size(weight: Weights) -> float:
    """Return the number of requests of equal weight with the same information: (Σw)²/Σw².

    Kish, Survey Sampling (1965), section 11.7.
    """
    squares = float((weight**2).sum())
    return float(weight.sum()) ** 2 / squares if squares else 0.0
