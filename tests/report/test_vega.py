"""Axes of charts."""

from __future__ import annotations

import math

import pytest

from tuner.report.vega import log_ticks


@pytest.mark.parametrize(
    ("ends", "most", "ticks"),
    [
        ((0.48, 1.02), 6, [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
        ((0.48, 1.02), 4, [0.6, 0.8, 1.0]),
        ((0.97, 1.03), 6, [0.98, 1.0, 1.02]),
        ((30.0, 25_000.0), 8, [30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0]),
        ((1.0, 1e12), 4, [1.0, 1e4, 1e8, 1e12]),
        ((200.0, 450.0), 8, [200.0, 250.0, 300.0, 350.0, 400.0, 450.0]),
        ((), 8, []),
        ((math.nan, 0.0), 8, []),
    ],
)
def test_a_log_axis_has_round_ticks(ends: tuple[float, ...], most: int, ticks: list[float]) -> None:
    """At most as many as there is room for labels, so that each has one."""
    assert log_ticks(ends, most) == ticks


@pytest.mark.parametrize("most", [4, 5, 6, 8])
def test_a_log_axis_never_has_more_ticks_than_wanted(most: int) -> None:
    """For any span, and at least two where it is wider than a fifth."""
    for low in (0.03, 0.7, 1.0, 950.0):
        for span in (1.25, 1.9, 3.0, 9.9, 10.0, 55.0, 1e4, 1e9):
            found = log_ticks((low, low * span), most)
            assert 2 <= len(found) <= most
            assert all(low * 0.999 <= tick <= low * span * 1.001 for tick in found)
