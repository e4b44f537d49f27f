"""A server with a queue on a host that stalls: what a request waits for is known exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.measurement.cycles import Instants
from tuner.measurement.stalls import Span, merged

SIGMA = 0.5
"""Standard deviation of the logarithm of a service demand."""


@dataclass(frozen=True, slots=True)
class Host:
    """A host whose core is taken away: a Poisson process of lognormal stalls, up to 10 ms."""

    per_s: float
    seconds: float
    median_ms: float = 1.0

    def stalls(self, seed: int) -> list[Span]:
        """Return the stalls of some seconds, in order."""
        rng = np.random.default_rng(seed)
        count = rng.poisson(self.per_s * self.seconds)
        starts = np.sort(rng.random(count) * self.seconds * 1e9)
        lengths = np.minimum(self.median_ms * 1e6 * np.exp(0.7 * rng.normal(size=count)), 10e6)
        return merged(zip(starts.astype(int), (starts + lengths).astype(int), strict=True))


def served(
    seed: int, service_us: float, rate_per_s: float, seconds: float, stalls: Sequence[Span]
) -> tuple[Instants, Instants]:
    """Return intended and answered instants of a FIFO queue with lognormal demands.

    A stall freezes the server. Demands and arrivals depend on the seed alone.
    """
    rng = np.random.default_rng(seed)
    count = rng.poisson(rate_per_s * seconds)
    begun = np.sort(rng.random(count) * seconds * 1e9)
    demand = service_us * 1e3 * np.exp(SIGMA * rng.normal(size=count) - SIGMA**2 / 2)
    working = _working_time(begun, stalls)
    # Lindley: on the clock of the working server a request ends after all demands since the last
    # idle moment.
    total = np.cumsum(demand)
    done = total + np.maximum.accumulate(working - (total - demand))
    ended = _wall_time(done, stalls)
    return begun.astype(np.int64), np.maximum(ended, begun).astype(np.int64)


def _columns(stalls: Sequence[Span]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    spans = np.array(stalls, np.float64).reshape(-1, 2)
    return spans[:, 0], spans[:, 1]


def _working_time(instants: NDArray[np.float64], stalls: Sequence[Span]) -> NDArray[np.float64]:
    """Return how long the server has worked up to each instant."""
    starts, ends = _columns(stalls)
    place = np.searchsorted(starts, instants, "right")
    stalled = np.append(0.0, np.cumsum(ends - starts))[place]
    over = np.where(place > 0, np.append(ends, 0.0)[place - 1] - instants, 0.0)
    return np.asarray(instants - stalled + np.maximum(over, 0.0))


def _wall_time(worked: NDArray[np.float64], stalls: Sequence[Span]) -> NDArray[np.float64]:
    """Return the instant at which the server has worked that long."""
    starts, ends = _columns(stalls)
    lengths = ends - starts
    before = np.append(0.0, np.cumsum(lengths))
    at_start = starts - before[:-1]
    return np.asarray(worked + before[np.searchsorted(at_start, worked, "left")])
