"""Tests of a generator's limits: differences that are too small for its precision."""

from __future__ import annotations

import pytest

from tuner.generators.h2load import H2LOAD
from tuner.generators.wrk2 import WRK2
from tuner.measurement.instrument import NATIVE


@pytest.mark.parametrize("candidate_us", [2_000.0, 1_001.0, 2_999.0])
def test_wrk2_cannot_tell_latencies_apart_that_differ_by_less_than_its_tick(
    candidate_us: float,
) -> None:
    """The reason names both figures, the label and the way out."""
    reason = WRK2.too_fine(2_000.0, candidate_us)
    assert f"{abs(candidate_us - 2_000):.0f} µs" in reason
    assert "resolves 1000 µs (±1 ms, includes the tool's own oversleep)" in reason
    assert "--load native" in reason


@pytest.mark.parametrize("candidate_us", [1_000.0, 3_000.0, 40_000.0])
def test_wrk2_can_tell_apart_what_differs_by_its_tick_or_more(candidate_us: float) -> None:
    """In either direction."""
    assert WRK2.too_fine(2_000.0, candidate_us) == ""


def test_our_own_generator_refuses_no_difference() -> None:
    """tuner-loadgen refuses no difference: its floor is the noise of identical instances."""
    assert NATIVE.too_fine(100.0, 100.0) == ""


def test_every_foreign_tool_says_that_it_knows_no_stalls() -> None:
    """And carries a label."""
    for tool in (WRK2, H2LOAD):
        assert tool.label
        assert not tool.tells_stalls
