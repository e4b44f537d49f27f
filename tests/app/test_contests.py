"""The time of a contest: searches first, then common blocks."""

from __future__ import annotations

import pytest

from tuner.app.contests import search_time_s


@pytest.mark.parametrize(
    ("time_s", "searches", "each_s"),
    [(600.0, 2, 120.0), (7_200.0, 2, 900.0), (7_200.0, 5, 576.0), (600.0, 0, 0.0)],
)
def test_searches_take_two_fifths_of_the_time_or_less(
    time_s: float, searches: int, each_s: float
) -> None:
    """In a long contest a quarter of an hour each."""
    assert search_time_s(time_s, searches) == pytest.approx(each_s)
