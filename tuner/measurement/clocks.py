"""Stalls reported by another host's clock, laid over a window of this one.

The ticker of a remote target (``tuner-loadgen ticker``) answers each line with the time of its
clock. The answer lies between question and receipt, so the offset of the clocks is known within
half a round trip (Cristian, Probabilistic clock synchronization, Distributed Computing 3, 1989).
Several answers narrow it to the intersection of their intervals (Marzullo and Owicki 1983). The
remaining error widens every span, so that no request touched by a stall counts as undisturbed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuner.errors import InstrumentError
from tuner.measurement.stalls import Span

DRIFT = 1e-3
"""Largest drift between two clocks, s/s: each is slewed by up to 500 ppm (adjtimex(2))."""


WANDER = 1e-4
"""Largest change of the drift between two clocks within a window, s/s. NTP's daemons change the
frequency by parts per million once a clock is set; oscillators change far less."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """One answer of the other clock: it showed ``theirs_ns`` between two instants of ours."""

    asked_ns: int
    theirs_ns: int
    answered_ns: int

    @property
    def trip_ns(self) -> int:
        """Length of the round trip."""
        return self.answered_ns - self.asked_ns

    @property
    def offset(self) -> ClockOffset:
        """The offset of the clock at the reading."""
        ahead_ns = self.theirs_ns - (self.asked_ns + self.answered_ns) // 2
        return ClockOffset(ahead_ns, (self.trip_ns + 1) // 2)


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """The offset of another clock from ours, with its error."""

    ahead_ns: int
    error_ns: int
    """The bound: the truth lies within ``ahead_ns`` ± ``error_ns``, throughout the window."""


def difference(
    readings: Iterable[ClockReading], window_ns: Span, *, drift: float = DRIFT
) -> ClockOffset:
    """Return the offset of the other clock during a window.

    Args:
        readings: answers before, during or after the window; one before and one after it give the
            narrowest bound.
        window_ns: start and end of the window on our clock.
        drift: largest drift between the clocks, s/s.

    Raises:
        InstrumentError: there is no reading, one was answered before it was asked, or they
            contradict each other: a clock was set in the meantime.
    """
    lowest, highest = -math.inf, math.inf
    for reading in readings:
        if reading.answered_ns < reading.asked_ns:
            raise InstrumentError(
                f"a clock reading was answered at {reading.answered_ns} ns, before it was asked at"
                f" {reading.asked_ns} ns"
            )
        apart_ns = max(abs(edge - reading.asked_ns) for edge in window_ns)
        apart_ns = max(apart_ns, *(abs(edge - reading.answered_ns) for edge in window_ns))
        parted_ns = math.ceil(apart_ns * drift)
        lowest = max(lowest, reading.theirs_ns - reading.answered_ns - parted_ns)
        highest = min(highest, reading.theirs_ns - reading.asked_ns + parted_ns)
    if lowest == -math.inf:
        raise InstrumentError("the other host's clock was never read; ask the ticker for it")
    if lowest > highest:
        raise InstrumentError(
            f"readings of the other host's clock contradict each other by"
            f" {(lowest - highest) / 1e6:.3f} ms: a clock was set during the measurement"
        )
    low, high = int(lowest), int(highest)
    ahead_ns = (low + high) // 2
    return ClockOffset(ahead_ns, high - ahead_ns)


def narrowest(readings: Iterable[ClockReading]) -> ClockReading:
    """Return the reading with the shortest round trip, which has the smallest error."""
    return min(readings, key=lambda reading: reading.trip_ns)


def error_since(before: ClockReading, after: ClockReading, *, drift: float = DRIFT) -> int:
    """Return how far a clock may have been from its first reading's offset in a window, ns.

    Args:
        before: reading right before the window.
        after: reading right after it.
        drift: largest drift between the clocks, s/s.

    Between the readings the offset is that of a steady drift, up to ``WANDER``: a drift that
    changes by Δ in the middle of a time T departs from the line by at most Δ·T/4.

    Raises:
        InstrumentError: the clocks drifted more than two clocks can: one was set.
    """
    first, last = before.offset, after.offset
    lasted_ns = after.answered_ns - before.asked_ns
    moved_ns = abs(last.ahead_ns - first.ahead_ns)
    if moved_ns > first.error_ns + last.error_ns + math.ceil(drift * lasted_ns):
        raise InstrumentError(
            f"the clock moved by {moved_ns / 1e6:.3f} ms in {lasted_ns / 1e9:.1f} s: it was set"
        )
    return max(first.error_ns, last.error_ns) + moved_ns + math.ceil(WANDER * lasted_ns / 4)


def aligned(
    spans: Sequence[Span], clock: ClockOffset, start_ns: int, *, resolution_ns: int = 0
) -> tuple[Span, ...]:
    """Convert spans of another host's clock for ``stalls.excluded``, ns from a window's start.

    Args:
        spans: start and end of each stall on the other clock, ns.
        clock: offset of that clock; its error widens each span at both ends.
        start_ns: start of the window's measured part on our clock.
        resolution_ns: usual lateness of the ticker's wake-ups without real-time priority; spans
            no longer than that are left out.
    """
    shift_ns = clock.ahead_ns + start_ns
    return tuple(
        (start - shift_ns - clock.error_ns, end - shift_ns + clock.error_ns)
        for start, end in spans
        if end - start > resolution_ns
    )
