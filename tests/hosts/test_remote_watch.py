"""A remote target's stalls and processes in a window: read once, also where arms share it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.measurement.windows import raw_window
from tests.phases.rig import WORKLOAD
from tuner.generators.generator import Endpoint, Slices, WindowPlan, WindowSpec
from tuner.hosts.remote_watch import RemoteWatch
from tuner.measurement.clocks import ClockReading
from tuner.measurement.stalls import StallRule
from tuner.measurement.window import RawWindow, Turns

MS = 1_000_000


@dataclass
class Target:
    """A target on this machine's clock, with a stall of 3 ms in the middle of its window."""

    started_ns: int
    asked: list[str] = field(default_factory=list)

    def ask(self, what: str, **_: Any) -> dict[str, Any]:
        """Answer as the agent does."""
        self.asked.append(what)
        if what == "watch":
            return {"realtime": True}
        stall = (self.started_ns + 500 * MS, self.started_ns + 503 * MS)
        samples = [
            [self.started_ns + at * 1_000 * MS, {"7": at * 400 * MS}, {"7": 1 << 20}]
            for at in (0, 1)
        ]
        found = {"ticks": True, "steal_s": 0.5 * self.asked.count("window")}
        return found | {"stalls": [stall], "samples": samples, "resolution_us": 0.0}

    def clocks(self) -> dict[str, ClockReading]:
        """Read the one clock of both hosts."""
        now = time.monotonic_ns()
        reading = ClockReading(now, now, now)
        return {"monotonic_ns": reading, "unix_ns": reading}


def part(place: int, started_ns: int) -> RawWindow:
    """Return an arm's part of a window of one second that two arms share."""
    turns = Turns(slice_ns=100 * MS, order=(0, 1) * 5, place=place)
    raw = raw_window(started_unix_s=started_ns / 1e9, duration_s=0.5, instance=f"arm{place}")
    return replace(raw, turns=turns)


def test_the_parts_of_a_window_have_the_same_observations() -> None:
    """One answer of the target holds for both arms: its stall, its steal, each arm's own CPU."""
    started_ns = time.monotonic_ns()
    target = Target(started_ns)
    watch = RemoteWatch(target, target, ["ticker"], StallRule())  # type: ignore[arg-type]
    labels = ("arm0", "arm1")
    shared = WindowSpec("00", "", "open", 100.0, 1, 0.0, 0.5, Slices(labels, 100.0))
    endpoints = tuple(Endpoint(label, "127.0.0.1:1", (7,)) for label in labels)
    watch.begin(WindowPlan(WORKLOAD, endpoints, (shared,)))
    before = target.asked.count("window")
    seen = [watch.completed(part(place, started_ns)) for place in (0, 1)]
    assert target.asked.count("window") == before + 1
    assert seen[0].server_spans == seen[1].server_spans
    ((start, end),) = seen[0].server_spans
    assert start <= 500 * MS
    assert end >= 503 * MS
    assert seen[0].steal_s == seen[1].steal_s == pytest.approx(0.5)
    assert seen[0].server_cpu_s == pytest.approx(0.4)
    watch.completed(part(0, started_ns + 2_000 * MS))
    assert target.asked.count("window") == before + 2
