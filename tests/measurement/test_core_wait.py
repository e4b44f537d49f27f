"""Tests of the server's wait for its cores: where it is reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from tests.measurement.windows import window
from tuner.measurement import core_wait
from tuner.measurement.resources import ProcessUsage, Resources
from tuner.measurement.window import Measurement

USED = ProcessUsage(0.5, 0.0, 1.0, 1, 0, 0, None, None, None, 1, queued_s=0.3)


def measured(foreign_s: float | None, **changes: Any) -> Measurement:
    """Return a window of one second in which another program ran for this time."""
    server = replace(USED, foreign_s=foreign_s)
    resources = Resources(1.2, 1.0, server, None, None, 0, 0, 0, 0, 0.0)
    return replace(window("baseline", 0, 100.0), resources=resources, **changes)


def test_a_long_wait_is_told_and_a_short_one_is_not() -> None:
    """A long wait is reported in milliseconds with its meaning; a short one is not."""
    assert core_wait.reason(measured(0.3)) == (
        "something else ran on the server's cores for 300 ms, and the server may have waited for it"
    )
    for quiet in (measured(0.09), measured(None), window("baseline", 0, 100.0)):
        assert core_wait.reason(quiet) == ""
        assert core_wait.warning([quiet]) == ""
    words = core_wait.warning([measured(0.3), measured(0.0), measured(0.11)])
    assert words.startswith(
        "in 2 of 3 windows something else ran on the server's cores, for up to 300 ms"
    )


def test_known_stalls_explain_a_wait() -> None:
    """A wait that the recorded stalls account for is not reported again."""
    spans = ((0, 100_000_000), (50_000_000, 280_000_000))
    assert core_wait.reason(measured(0.3, server_spans=spans)) == ""
    assert "for 120 ms" in core_wait.reason(measured(0.4, server_spans=spans))


def test_stolen_time_explains_a_wait() -> None:
    """Another guest had the core; without real-time priority no stall shows it."""
    assert core_wait.reason(measured(0.3, steal_s=0.28)) == ""
    stalls = {"server_spans": ((0, 200_000_000),), "steal_s": 0.2}
    assert "for 110 ms" in core_wait.reason(measured(0.31, **stalls)), "the two are one"


def test_an_older_record_is_read() -> None:
    """Without the fields, as version 0.1 wrote it."""
    kept = msgspec.to_builtins(USED)
    del kept["queued_s"], kept["foreign_s"]
    found = msgspec.convert(kept, ProcessUsage)
    assert (found.queued_s, found.foreign_s) == (None, None)
