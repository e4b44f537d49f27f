"""Findings say what was found, and whether it is what was aimed at."""

from __future__ import annotations

import math

from benchmarks.finding import Finding, at_least, at_most, median_of


def test_the_value_is_the_median_of_the_runs() -> None:
    """One disturbed run moves nothing, and the range shows it."""
    found = median_of("ratio", [0.4, 0.5, 9.0])
    assert found.value == 0.5
    assert "[0.4 … 9]" in found.line()


def test_the_limit_itself_reaches_the_aim() -> None:
    """Aims are "at most" and "at least"."""
    for value, aim in ((0.7, at_most(0.7)), (1.0, at_least(1.0))):
        assert "reached" in Finding("ratio", value, aim=aim).line()
    for value, aim in ((0.71, at_most(0.7)), (0.99, at_least(1.0))):
        assert "MISSED" in Finding("ratio", value, aim=aim).line()


def test_no_runs_reach_nothing() -> None:
    """Without a run there is no figure, and no aim is reached by it."""
    found = median_of("ratio", [], aim=at_most(1.0))
    assert math.isnan(found.value)
    assert "MISSED" in found.line()
