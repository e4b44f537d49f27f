"""The arrivals of a log: requests in each second of the clock."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

_MOST_SECONDS = 5_000_000
"""Limit for seconds, 58 days; requests beyond it have no second."""
_ROOM = 3600


@dataclass(slots=True)
class Arrivals:
    """Counts of requests per second, in 4 bytes each."""

    start_s: int = 0
    """Unix time of the first counted second."""
    counts: array[int] = field(default_factory=lambda: array("I"))

    def add(self, unix_s: float) -> None:
        """Count a request; requests need not be in order."""
        second = int(unix_s)
        counts = self.counts
        if not counts:
            self.start_s = second
        at = second - self.start_s
        if 0 <= at < len(counts):
            counts[at] += 1
        elif self._extend(at):
            self.counts[second - self.start_s] += 1

    def _extend(self, at: int) -> bool:
        """Make room for an offset; return False if the log would be too long."""
        size = len(self.counts)
        if at >= _MOST_SECONDS or size - at > _MOST_SECONDS:
            return False
        if at >= 0:
            self.counts.frombytes(bytes(4 * (at + 1 - size)))
        else:
            before = array("I", bytes(4 * (_ROOM - at)))
            self.counts = before + self.counts
            self.start_s -= len(before)
        return True

    @property
    def per_second(self) -> NDArray[np.uint32]:
        """Requests in every second from the first to the last one with a request."""
        counts = np.frombuffer(self.counts, dtype=np.uint32)
        busy = np.flatnonzero(counts)
        return counts[busy[0] : busy[-1] + 1] if len(busy) else counts[:0]

    @property
    def peak_per_s(self) -> int:
        """Largest number of requests in one second of the clock."""
        return int(self.per_second.max(initial=0))

    def busiest(self, seconds: int) -> NDArray[np.uint32]:
        """Return the counts of the stretch of this length that has most requests."""
        counts = self.per_second
        if len(counts) <= seconds:
            return counts
        sums = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        start = int(np.argmax(sums[seconds:] - sums[:-seconds]))
        return counts[start : start + seconds]


def dispersion(counts: NDArray[np.uint32]) -> float:
    """Return the index of dispersion, variance over mean: 1 for independent arrivals.

    NaN with fewer than ten seconds, or without a request. See Cox and Lewis, The Statistical
    Analysis of Series of Events, 1966.
    """
    if len(counts) < 10 or not counts.any():
        return math.nan
    return float(np.var(counts, ddof=1) / np.mean(counts))
