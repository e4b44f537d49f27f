"""Leases: whether a holder is still there, decided without comparing two clocks.

A lease is something that its holder changes again and again. A watcher that has seen it unchanged
for the lease's time, on a clock of its own, knows that it ran out. No host's clock needs to be
right, and none is sent to another (Gray and Cheriton 1989 need bounded drift only; this is the way
of DynamoDB's lock client).

The time between two looks counts for a third of the lease at most: while the storage does not
answer, a holder cannot renew, and a watcher that slept through it must not take that for a death.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

LEAST_LOOKS = 3
"""Looks after the first one that must find a lease unchanged."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease as one look finds it."""

    state: Hashable
    """Anything that is different after every renewal."""
    lease_s: float


@dataclass(slots=True)
class _LeaseState:
    state: Hashable
    looked_s: float
    unchanged_s: float


@dataclass(slots=True)
class LeaseWatch:
    """One watcher's memory of the leases that it looks at."""

    clock: Callable[[], float] = time.monotonic
    _seen: dict[int, _LeaseState] = field(default_factory=dict)

    def expired(self, leases: Mapping[int, Lease]) -> set[int]:
        """Look at all leases; the keys of those that ran out.

        Args:
            leases: all that are held now; what is not among them is forgotten.
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
