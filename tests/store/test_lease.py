"""A lease runs out on the watcher's own clock, and on no other."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.store.lease import Lease, LeaseWatch


@dataclass
class Clock:
    """Set by hand."""

    now: float = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def looks(watch: LeaseWatch, clock: Clock, state: int, *, every_s: float, times: int) -> set[int]:
    """Look several times at one lease of 30 s; what the last look found."""
    found: set[int] = set()
    for _ in range(times):
        clock.now += every_s
        found = watch.expired({7: Lease(state, 30.0)})
    return found


def test_a_lease_that_is_never_renewed_runs_out() -> None:
    """After its time, not before."""
    clock = Clock()
    watch = LeaseWatch(clock)
    assert looks(watch, clock, 1, every_s=5, times=6) == set()
    assert looks(watch, clock, 1, every_s=5, times=1) == {7}


def test_a_renewal_begins_the_time_anew() -> None:
    """Any change of the lease renews it, since the holder's clock is not compared."""
    clock = Clock()
    watch = LeaseWatch(clock)
    for state in range(10):
        assert looks(watch, clock, state, every_s=5, times=5) == set()


def test_a_watcher_that_slept_takes_nothing_for_dead() -> None:
    """While the storage is away nobody can renew: one long gap is not proof."""
    clock = Clock()
    watch = LeaseWatch(clock)
    looks(watch, clock, 1, every_s=5, times=1)
    assert looks(watch, clock, 1, every_s=600, times=2) == set()
    assert looks(watch, clock, 1, every_s=600, times=1) == {7}


def test_a_lease_that_ended_is_forgotten() -> None:
    """A later one of the same number begins anew."""
    clock = Clock()
    watch = LeaseWatch(clock)
    looks(watch, clock, 1, every_s=5, times=6)
    watch.expired({})
    assert looks(watch, clock, 1, every_s=5, times=6) == set()
