"""The one isotonic fit: for the capacity of an arm and for a ladder of rates."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.goals.capacity import Point, crossing
from tuner.stats.isotonic import isotonic

POINTS = st.lists(st.tuples(st.integers(1, 6).map(float), st.floats(-1, 1)), min_size=1)


@given(POINTS)
def test_the_fit_rises_and_keeps_the_mean(points: list[tuple[float, float]]) -> None:
    """Every position is in one pool, and pooling moves no mean."""
    pools = isotonic(points)
    assert [x for pool in pools for x in pool.x] == sorted({x for x, _ in points})
    assert all(low.y < high.y for low, high in pairwise(pools))
    fitted = sum(pool.y * sum(x in pool.x for x, _ in points) for pool in pools)
    assert fitted == pytest.approx(sum(y for _, y in points), abs=1e-9)


def test_rates_far_apart_keep_their_places() -> None:
    """The limit lies between the last rate that meets it and the next, however many are pooled."""
    near = [Point(1.0, -0.5), Point(2.0, -0.3), Point(3.0, -0.7), Point(4.0, 0.5)]
    found = crossing(near, spread=True)
    assert found is not None
    assert found.ln_rate == pytest.approx(3.5)
    pooled = crossing(near)
    assert pooled is not None
    assert pooled.ln_rate == pytest.approx(3.0), "half-way from the pool's mean, 2, to 4"
