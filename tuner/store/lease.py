"""Leases: detection of dead holders without comparing clocks.

A holder changes its lease repeatedly. A watcher that has seen it unchanged for the lease's time, on
its own clock, knows that the lease has expired. No clock needs to be right, and no time is sent to
another host (Gray and Cheriton 1989 need bounded drift only; DynamoDB's lock client does the same).

The time between two checks counts for a third of the lease at most: a holder cannot renew while the
storage does not answer, and a watcher that waited meanwhile must not take it for dead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

LEAST_LOOKS = 3
"""Checks after the first one that must find a lease unchanged."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The state of a lease at one check."""

    state: Hashable
    """Value that changes with every renewal."""
    lease_s: float


@dataclass(slots=True)
class _LeaseState:
    state: Hashable
    looked_s: float
    unchanged_s: float


@dataclass(slots=True)
class LeaseWatch:
    """One watcher's memory of leases."""

    clock: Callable[[], float] = time.monotonic
    _seen: dict[int, _LeaseState] = field(default_factory=dict)

    def expired(self, leases: Mapping[int, Lease]) -> set[int]:
        """Check all leases; return the keys of expired ones.

        Args:
            leases: all current leases; others are forgotten.
        """
        now = self.clock()
        self._seen = {key: seen for key, seen in self._seen.items() if key in leases}
        out: set[int] = set()
        for key, lease in leases.items():
            seen = self._seen.get(key)
            if seen is None or seen.state != lease.state:
                self._seen[key] = _LeaseState(lease.state, now, 0.0)
                continue
            seen.unchanged_s += min(now - seen.looked_s, lease.lease_s / LEAST_LOOKS)
            seen.looked_s = now
            if seen.unchanged_s >= lease.lease_s * (1 - 1e-9):
                out.add(key)
        return out
