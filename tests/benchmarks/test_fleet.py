"""The cost of a block outside of its windows, and the windows per second."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks.fleet import costs, judged, windows_per_s
from tests.measurement.windows import block, window
from tuner.record.model import Block

AT_S = 1_700_000_000.0


def search(begins_s: float) -> Block:
    """Return a block of 10 s with windows of 1 s in its third, fifth and seventh second."""
    windows = [
        replace(window("baseline", round_, 100.0), started_unix_s=AT_S + begins_s + place)
        for round_, place in enumerate((3.0, 5.0, 7.0))
    ]
    begun_s = AT_S + begins_s
    return block(windows, started_unix_s=begun_s, ended_unix_s=begun_s + 10)


def test_the_cost_of_a_block_is_split_by_its_parts() -> None:
    """Before its first window, between them, and from the last one to the next block."""
    (cost,) = costs([search(0.0), search(12.0)])
    assert (cost.phase, cost.blocks) == ("search", 2)
    assert cost.share == pytest.approx(6 / 22)
    assert (cost.before_s, cost.between_s) == pytest.approx((3.0, 2.0))
    assert cost.after_s == pytest.approx((2 + 2 + 2) / 2)


def test_two_workers_at_once_have_twice_the_windows() -> None:
    """Without their blocks there is no figure."""
    one, two = [search(0.0)], [search(0.0), search(0.0)]
    assert windows_per_s(two) == 2 * windows_per_s(one)
    assert math.isnan(windows_per_s([]))
    reported = {finding.question: finding.value for finding in judged({"one": one, "two": two})}
    assert reported["two workers / one: windows a second, search"] == 2.0
