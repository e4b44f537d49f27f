"""Several generators, each on a host of its own, that share one load.

Each runs the same plan with its share of it (``tuner.generators.share``). Before a window all open
their connections; then every one is given the same instant in the time of its own host, so all
begin together to within the error of the clocks. Their reports are merged into one window
(``tuner.measurement.merged``).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.errors import InstrumentError
from tuner.generators.generator import Next, WindowPlan
from tuner.generators.native import NativeGenerator, RunningPlan
from tuner.measurement.clocks import ClockReading, error_since, narrowest
from tuner.measurement.instrument import NATIVE, Instrument, Mode
from tuner.measurement.merged import merged_window
from tuner.measurement.window import RawWindow
from tuner.workload.workload import Workload

_READINGS = 8
"""Most readings of a clock before and after a window, of which the narrowest counts. Each takes a
round trip; on a busy host a single one is often ten times as long as the shortest."""
_ENOUGH = 1.5
"""Round trip, as a multiple of the shortest so far, with which a reading is good enough."""
_LEAD_S = 0.02
"""Time from the agreement to the start, in addition to a few round trips: the generators have to
receive the line."""
_TRIPS = 4
_LONGEST_LEAD_S = 1.0
_ON_TIME_NS = 1_000
"""Difference between the wanted and the true start that rounding explains."""
_COARSE_NS = 20_000_000
"""Error of a clock above which its host cannot share a load: stalls are widened by it."""


@dataclass(slots=True)
class Member:
    """One of the generators."""

    name: str
    """Its host."""
    native: NativeGenerator
    """The generator, with its share of the load."""
    read_clock: Callable[[], ClockReading]
    """Reads the monotonic clock of its host, between two instants of ours."""
    shortest_ns: int = 0
    """Shortest round trip so far; 0 before the first reading."""

    def clock(self) -> ClockReading:
        """Return the narrowest of some readings; of a few if one is as short as any before."""
        readings: list[ClockReading] = []
        while len(readings) < _READINGS:
            readings.append(self.read_clock())
            if narrowest(readings).trip_ns <= _ENOUGH * self.shortest_ns:
                break
        found = narrowest(readings)
        self.shortest_ns = min(found.trip_ns, self.shortest_ns or found.trip_ns)
        return found


def _checked(member: Member) -> int:
    """Return the error with which the clock of a generator's host is known.

    Raises:
        InstrumentError: it is too large for a share of a load, or the clock was set meanwhile.
    """
    error_ns = error_since(member.clock(), member.clock())
    if error_ns > _COARSE_NS:
        raise InstrumentError(
            f"its clock is known to {error_ns / 1e6:.0f} ms only, and a shared load needs"
            f" {_COARSE_NS / 1e6:.0f} ms; leave the host out of the group generators"
        )
    return error_ns


class SharedGenerator:
    """Native generators on several hosts that offer one load together.

    Args:
        members: at least two generators, by their place.
    """

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = tuple(members)
        self._lead_s = _LEAD_S

    @property
    def name(self) -> str:
        """Implement ``LoadGenerator.name``."""
        programs = dict.fromkeys(member.native.name for member in self._members)
        return f"{' + '.join(programs)} on {', '.join(self.members)}"

    @property
    def instrument(self) -> Instrument:
        """Implement ``LoadGenerator.instrument``."""
        return NATIVE

    @property
    def members(self) -> tuple[str, ...]:
        """Implement ``SharesLoad.members``."""
        return tuple(member.name for member in self._members)

    def clock_error_ns(self) -> int:
        """Implement ``SharesLoad.clock_error_ns``.

        Raises:
            InstrumentError: a clock or a program cannot be used; the message names the host.
        """
        errors = []
        for member in self._members:
            with _named(member):
                _ = member.native.name
                errors.append(_checked(member))
        return max(errors)

    def refuses(self, workload: Workload, mode: Mode) -> str:  # noqa: ARG002 - the port's signature
        """Implement ``LoadGenerator.refuses``."""
        count = len(self._members)
        if workload.connections < count:
            return (
                f"cannot divide {workload.connections} between {count} generators; use more"
                " connections, or fewer hosts in the group generators"
            )
        return ""

    def stalls(self, duration_s: float) -> Mapping[str, Any]:
        """Implement ``WatchesStalls.stalls`` for the cores of the first generator."""
        return self._members[0].native.stalls(duration_s)

    def run(self, plan: WindowPlan, after: Callable[[RawWindow], Next]) -> None:
        """Implement ``LoadGenerator.run``.

        Raises:
            InstrumentError: as the port says; or a window has slices, because the generators would
                change from one arm to the next at different instants.
        """
        if not plan.windows:
            return
        if any(spec.slices for spec in plan.windows):
            raise InstrumentError(
                "several generators cannot measure arms in slices; a study that began with one"
                " generator needs that one alone in the group generators"
            )
        warmups_ns = {spec.window_id: int(spec.warmup_s * 1e9) for spec in plan.windows}
        with contextlib.ExitStack() as stack:
            running = []
            for member in self._members:
                with _named(member):
                    running.append(stack.enter_context(member.native.running(plan)))
            while self._are_ready(running):
                answer = after(self._window(running, warmups_ns))
                for member, each in zip(self._members, running, strict=True):
                    with _named(member):
                        each.touch()
                        each.go_on([answer])

    def _are_ready(self, running: Sequence[RunningPlan]) -> bool:
        """Wait for the connections of the next window; return False if there is none."""
        ready = []
        for member, each in zip(self._members, running, strict=True):
            with _named(member):
                ready.append(each.ready())
        if any(ready) and not all(ready):
            ended = self._members[ready.index(False)].name
            raise InstrumentError(f"{ended}: tuner-loadgen ended before the others")
        return all(ready)

    def _window(self, running: Sequence[RunningPlan], warmups_ns: Mapping[str, int]) -> RawWindow:
        """Let all begin the next window at one instant; return what they report together."""
        before = [member.clock() for member in self._members]
        longest_ns = max(reading.trip_ns for reading in before)
        at_ns = time.monotonic_ns() + round(self._lead_s * 1e9) + _TRIPS * longest_ns
        starts_ns = [at_ns + reading.offset.ahead_ns for reading in before]
        for member, each, start_ns in zip(self._members, running, starts_ns, strict=True):
            with _named(member):
                each.start(start_ns)
        parts = []
        for member, each in zip(self._members, running, strict=True):
            with _named(member):
                found = each.windows()
                if len(found) != 1:
                    raise InstrumentError("tuner-loadgen did not report the window")
                parts += found
        faults: list[str] = []
        guard_ns = 0
        for member, reading, part, start_ns in zip(
            self._members, before, parts, starts_ns, strict=True
        ):
            faults += self._late(member, part, start_ns + warmups_ns[part.window_id])
            try:
                guard_ns = max(guard_ns, error_since(reading, member.clock()))
            except InstrumentError as error:
                faults.append(f"{member.name}: {error}")
        return merged_window(parts, self.members, guard_ns, faults)

    def _late(self, member: Member, part: RawWindow, wanted_ns: int) -> list[str]:
        """Return in words by how much a generator missed the start; empty if it did not."""
        began_ns = part.started_monotonic_ns
        if began_ns is not None and abs(began_ns - wanted_ns) <= _ON_TIME_NS:
            return []
        # Next time the line has more time on its way.
        self._lead_s = min(_LONGEST_LEAD_S, 2 * self._lead_s)
        if began_ns is None:
            return [f"the generator {member.name} does not report when it began"]
        late_ms = (began_ns - wanted_ns) / 1e6
        return [f"the generator {member.name} began {late_ms:.1f} ms late: the line came too late"]


@contextlib.contextmanager
def _named(member: Member) -> Iterator[None]:
    """Put the name of the host before what its generator complains about."""
    try:
        yield
    except InstrumentError as error:
        raise InstrumentError(f"the generator {member.name}: {error}") from error
