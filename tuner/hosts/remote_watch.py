"""Activity of a remote target's cores and processes in a window, read in the gap after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tuner.errors import HostError, InstrumentError
from tuner.generators.generator import WindowPlan
from tuner.hosts.agent import Agent
from tuner.measurement.clocks import ClockOffset, ClockReading, aligned, difference
from tuner.measurement.stalls import Span, StallRule
from tuner.measurement.window import RawWindow

_READINGS = 2
"""Readings of a clock per window: right before and right after it."""


class Clocks:
    """The offset between the clocks of two hosts, from readings of both over our own."""

    def __init__(self) -> None:
        self._target: deque[ClockReading] = deque(maxlen=_READINGS)
        self._generator: deque[ClockReading] = deque(maxlen=_READINGS)

    def read(self, target: Agent, generator: Agent) -> None:
        """Read the target's monotonic clock and the generator's Unix time."""
        self._target.append(target.clocks()["monotonic_ns"])
        self._generator.append(generator.clocks()["unix_ns"])

    def ahead(self) -> ClockOffset:
        """Return the target's clock minus the generator's, since the first reading.

        Raises:
            InstrumentError: the readings contradict each other.
        """
        readings = [*self._target, *self._generator]
        span = (
            min((r.asked_ns for r in readings), default=0),
            max((r.answered_ns for r in readings), default=0),
        )
        theirs = difference(self._target, span)
        its = difference(self._generator, span)
        return ClockOffset(theirs.ahead_ns - its.ahead_ns, theirs.error_ns + its.error_ns)


class RemoteWatch:
    """The observer of a remote target: its ticker, and the server's processes.

    Args:
        target: agent of the host that serves.
        generator: agent of the host that offers the load.
        ticker: command of the ticker on the target; empty if cores are not watched.
        rule: the stall rule.
    """

    def __init__(
        self, target: Agent, generator: Agent, ticker: Sequence[str], rule: StallRule
    ) -> None:
        self._target = target
        self._generator = generator
        self._ticker = tuple(ticker)
        self._rule = rule
        self._clocks = Clocks()
        self._pids: dict[str, tuple[int, ...]] = {}
        self._order: list[str] = []
        self._realtime = False
        self._ticking = False
        self._steal_s = 0.0
        self._answer: dict[str, Any] = {}
        """The target's observations of the last window."""
        self._stolen_s = 0.0
        """Time stolen from the target's cores in it, s."""
        self._started_ns = 0

    def begin(self, plan: WindowPlan) -> None:
        """Implement ``Onlooker.begin``."""
        self._pids = {endpoint.instance: endpoint.pids for endpoint in plan.endpoints}
        self._clocks = Clocks()
        if self._ticker and not self._ticking:
            header = self._target.ask("watch", command=list(self._ticker))
            self._realtime, self._ticking = bool(header["realtime"]), True
        self._target.ask("follow", pids=sorted({p for pids in self._pids.values() for p in pids}))
        self._steal_s = self._target.ask("window")["steal_s"]
        self.go_on()

    def go_on(self) -> None:
        """Implement ``Onlooker.go_on``."""
        self._clocks.read(self._target, self._generator)

    def completed(self, window: RawWindow) -> RawWindow:
        """Implement ``Onlooker.completed``.

        Raises:
            HostError: the target is gone.
        """
        started_ns = round(window.started_unix_s * 1e9)
        if window.turns is None or started_ns != self._started_ns:
            self._read()
        # The parts of a window that instances share have the same observations.
        self._started_ns = started_ns
        answer, steal_s = self._answer, self._stolen_s
        try:
            clock = self._clocks.ahead()
            # Of several generators, that clock is the first one's, near the common time.
            clock = replace(clock, error_ns=clock.error_ns + window.guard_ns)
        except InstrumentError as error:
            # A clock was set: this window cannot be judged, but later ones can.
            return replace(window, faults=(*window.faults, str(error)))
        used = _used(
            answer["samples"],
            self._pids[window.instance],
            started_ns + clock.ahead_ns,
            window.turns.end_ns if window.turns else round(window.duration_s * 1e9),
        )
        return replace(
            window,
            server_spans=self._spans(answer, clock, started_ns),
            realtime=self._realtime,
            steal_s=window.steal_s + max(0.0, steal_s),
            server_cpu_s=used[0],
            server_rss_bytes=used[1],
        )

    def _read(self) -> None:
        """Read the target's observations of the window that has just ended."""
        self._clocks.read(self._target, self._generator)
        answer = self._target.ask("window")
        if self._ticker and not answer["ticks"]:
            self._ticking = False
            raise HostError("the ticker on the target ended; are its cores still there?")
        self._stolen_s = answer["steal_s"] - self._steal_s
        self._steal_s = answer["steal_s"]
        self._answer = answer

    def _spans(self, answer: dict[str, Any], clock: ClockOffset, start_ns: int) -> tuple[Span, ...]:
        """Return the stalls of the target's cores in the window's time."""
        # With real-time priority a late wake-up is a stall of any length.
        coarse_us = 0.0 if self._realtime else max(answer["resolution_us"], self._rule.gap_us)
        spans = [(start, end) for start, end in answer["stalls"]]
        return aligned(spans, clock, start_ns, resolution_ns=round(coarse_us * 1e3))


def _used(
    samples: Sequence[Sequence[Any]], pids: Sequence[int], start_ns: int, lasted_ns: int
) -> tuple[float | None, int | None]:
    """Return CPU time and memory of some processes between two instants of the target's clock.

    CPU time is interpolated linearly between two samples, which are 50 ms apart.
    """
    rows = [
        (at_ns, sum(cpu[str(p)] for p in pids), sum(rss[str(p)] for p in pids))
        for at_ns, cpu, rss in samples
        if pids and all(str(p) in cpu for p in pids)
    ]
    if len(rows) < 2:
        return None, None
    at_ns, cpu_ns, rss_bytes = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    begun, ended = np.interp([start_ns, start_ns + lasted_ns], at_ns, cpu_ns)
    return float(ended - begun) / 1e9, int(rss_bytes[-1])
