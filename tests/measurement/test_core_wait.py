"""Tests of the server's wait for its core: its cause, and where it is reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.measurement.windows import window
from tuner.measurement import core_wait
from tuner.measurement.resources import (
    CounterReading,
    HostCounters,
    ProcessCounters,
    ProcessUsage,
    Resources,
    between,
)
from tuner.measurement.window import Measurement

START = ProcessCounters(1.0, 0.0, 1, 1, 0, 0, None, None, None, threads=1, queued_s=0.5)
HOST = HostCounters(0, 0, 0, 0, 0.0)


def used(*processes: tuple[float, float | None], threads: int = 1) -> ProcessUsage:
    """Return the usage of a server whose processes ran and waited for these seconds."""
    first = {pid: replace(START, threads=threads) for pid in range(len(processes))}
    last = {
        pid: replace(
            first[pid],
            user_s=first[pid].user_s + ran_s,
            queued_s=None if waited_s is None else 0.5 + waited_s,
        )
        for pid, (ran_s, waited_s) in enumerate(processes)
    }
    found = between(
        CounterReading(0, first, HOST), CounterReading(1, last, HOST), {"server": first}, loaded_s=1
    )
    assert found.server is not None
    return found.server


@pytest.mark.parametrize(
    ("processes", "threads", "foreign_s"),
    [
        # One worker: it waited for other programs only.
        ([(0.5, 0.3)], 1, 0.3),
        # Two workers on one core wait for each other.
        ([(0.5, 0.45), (0.45, 0.5)], 1, 0.0),
        # A process of several threads may have waited for itself.
        ([(0.5, 0.4)], 4, 0.0),
        ([(0.1, 0.4)], 4, 0.3),
        # A kernel without these counters.
        ([(0.5, None)], 1, None),
    ],
)
def test_a_wait_that_the_server_itself_explains_is_not_foreign(
    processes: list[tuple[float, float | None]], threads: int, foreign_s: float | None
) -> None:
    """Only the wait that is longer than all of the server's other work ran."""
    found = used(*processes, threads=threads)
    assert found.foreign_s == (None if foreign_s is None else pytest.approx(foreign_s))


def measured(foreign_s: float | None, **changes: Any) -> Measurement:
    """Return a window of one second in which another program ran for this time."""
    server = replace(used((0.5, 0.0)), foreign_s=foreign_s)
    resources = Resources(1.2, 1.0, server, None, None, 0, 0, 0, 0, 0.0)
    return replace(window("baseline", 0, 100.0), resources=resources, **changes)


def test_a_long_wait_is_told_and_a_short_one_is_not() -> None:
    """A long wait is reported in milliseconds with its meaning; a short one is not."""
    assert core_wait.reason(measured(0.3)) == (
        "the server waited 300 ms for its core: something else ran there"
    )
    for quiet in (measured(0.04), measured(None), window("baseline", 0, 100.0)):
        assert core_wait.reason(quiet) == ""
        assert core_wait.warning([quiet]) == ""
    words = core_wait.warning([measured(0.3), measured(0.0), measured(0.1)])
    assert words.startswith("in 2 of 3 windows the server waited for its core, up to 300 ms")


def test_known_stalls_explain_a_wait() -> None:
    """A wait that the recorded stalls account for is not reported again."""
    spans = ((0, 100_000_000), (50_000_000, 280_000_000))
    assert core_wait.reason(measured(0.3, server_spans=spans)) == ""
    assert "waited 120 ms" in core_wait.reason(measured(0.4, server_spans=spans))


def test_an_older_record_is_read() -> None:
    """Without the fields, as version 0.1 wrote it."""
    kept = msgspec.to_builtins(used((0.5, 0.3)))
    del kept["queued_s"], kept["foreign_s"]
    found = msgspec.convert(kept, ProcessUsage)
    assert (found.queued_s, found.foreign_s) == (None, None)
