"""The highest rate that meets a limit: where the fit crosses it, and where to look next."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.measurement.windows import window
from tuner.goals.capacity import CLIP, Point, crossing, next_rate, point
from tuner.goals.constraint import Constraint
from tuner.measurement.window import Measurement

SLO = Constraint.parse("p99<5ms")
STEPS = 1024
"""Excesses are multiples of 1 / 1024, so that a sum of them is exact."""
POINTS = st.lists(
    st.builds(
        Point,
        st.floats(6.0, 9.0),
        st.integers(round(-CLIP * STEPS), round(CLIP * STEPS)).map(lambda n: n / STEPS),
    ),
    min_size=1,
    max_size=20,
)


def at(rate_per_s: float, p99_us: float) -> Measurement:
    """Return a window at a rate."""
    return replace(window("c1", 0, p99_us), rate_per_s=rate_per_s, invalid=(), bad=False)


def sought(truth_per_s: float, *, steps: int, noise: float = 0.0, start: float = 1_000.0) -> float:
    """Return a search against a server with this capacity; the estimate after so many windows."""
    random = np.random.default_rng(1)
    own: list[Measurement] = []
    for _ in range(steps):
        rate = next_rate(own, SLO, start)
        ln = 8 * math.log(rate / truth_per_s) + noise * random.standard_normal()
        own.append(at(rate, 5_000 * math.exp(max(-3, min(3, ln)))))
    found = crossing([point(w, SLO) for w in own])
    assert found is not None
    assert found.side == "found"
    return math.exp(found.ln_rate)


@pytest.mark.parametrize("truth", [400, 700, 980, 1_000, 1_300, 2_500])
def test_seven_windows_find_a_capacity_to_one_per_cent(truth: float) -> None:
    """From a start that is up to two and a half times too low or too high, without noise."""
    assert sought(truth, steps=7) == pytest.approx(
        truth, rel=0.01 if 0.6 < truth / 1e3 < 2 else 0.1
    )


def test_noise_is_averaged_over_the_windows() -> None:
    """A p99 that varies by 30 % from window to window leaves the capacity within 3 %."""
    assert sought(1_200, steps=12, noise=0.3) == pytest.approx(1_200, rel=0.03)


def test_all_arms_begin_alike_and_follow_their_own_windows() -> None:
    """The rule is a function of an arm's windows; nothing else can favour one."""
    assert next_rate([], SLO, 1_000) == pytest.approx(1_000)
    assert next_rate([at(1_000, 2_000)], SLO, 1_000) > 1_000
    assert next_rate([at(1_000, 9_000)], SLO, 1_000) < 1_000


@pytest.mark.parametrize(("p99_us", "sign"), [(100, 1), (90_000, -1)])
def test_steps_double_to_at_most_four_fifths(p99_us: float, sign: int) -> None:
    """10 %, 20 %, 40 %, then 80 % each, in logarithms: upwards as downwards."""
    own: list[Measurement] = []
    for _ in range(6):
        own.append(at(next_rate(own, SLO, 1_000.0), p99_us))
    steps = np.diff(np.log([w.rate_per_s for w in own]))
    assert steps == pytest.approx([sign * step for step in (0.1, 0.2, 0.4, 0.8, 0.8)])


def test_a_bracket_is_halved_until_it_is_narrow_and_then_looked_at_from_both_sides() -> None:
    """Below 5 %: 2 % above the estimate and 2 % below it, in turn."""
    own = [at(1_000, 4_000), at(1_200, 6_250)]
    assert next_rate(own, SLO, 1_000) == pytest.approx(math.sqrt(1_000 * 1_200))
    own = [at(1_000, 4_000), at(1_040, 6_250)]
    for side in (-0.02, 0.02, -0.02):
        estimate = crossing([point(w, SLO) for w in own])
        assert estimate is not None
        rate = next_rate(own, SLO, 1_000)
        assert math.log(rate) - estimate.ln_rate == pytest.approx(side)
        own.append(at(rate, 5_000 * math.exp(side)))


def test_a_rate_that_the_generator_cannot_offer_is_not_offered_again() -> None:
    """The next one lies between what it could and what it could not."""
    starved = replace(at(2_000, 100), invalid=("could not keep up",), generator_busy_share=0.99)
    assert 1_500 < next_rate([at(1_500, 2_000), starved], SLO, 1_500) < 2_000


def test_requests_that_fail_or_come_late_miss_the_limit() -> None:
    """However fast the others were."""
    assert point(at(1_000, 100), SLO).excess == -CLIP
    assert point(replace(at(1_000, 100), errors={"reset": 1}), SLO).excess == CLIP
    assert point(replace(at(1_000, 100), timeouts=1), SLO).excess == CLIP


def test_windows_at_one_rate_are_one_point() -> None:
    """One above the limit and one as far below it say that the limit is there."""
    found = crossing([Point(6.0, -0.5), Point(7.0, 0.4), Point(7.0, -0.4), Point(8.0, 0.5)])
    assert found is not None
    assert found.ln_rate == 7.0


def test_where_no_window_or_every_window_meets_the_limit_the_capacity_is_beyond() -> None:
    """The result states it, at the last rate on that side."""
    low, high = Point(6.0, -0.5), Point(7.0, -0.1)
    found = crossing([low, high])
    assert found is not None
    assert (found.ln_rate, found.side) == (7.0, "beyond")
    found = crossing([replace(low, excess=0.2), replace(high, excess=0.9)])
    assert found is not None
    assert (found.ln_rate, found.side) == (6.0, "below")
    assert crossing([]) is None


@given(POINTS)
def test_the_crossing_lies_among_the_rates(points: list[Point]) -> None:
    """Nothing is extrapolated, and the order of the windows does not matter."""
    found, again = crossing(points), crossing(points[::-1])
    assert found is not None
    assert again is not None
    assert min(p.ln_rate for p in points) - 1e-9 <= found.ln_rate
    assert found.ln_rate <= max(p.ln_rate for p in points) + 1e-9
    assert again.ln_rate == pytest.approx(found.ln_rate)


@given(POINTS, st.integers(0, STEPS // 2))
def test_a_slower_server_has_no_higher_capacity(points: list[Point], worse: int) -> None:
    """More latency everywhere moves the crossing down, or not at all."""
    slower = [replace(p, excess=p.excess + worse / STEPS) for p in points]
    first, second = crossing(points), crossing(slower)
    assert first is not None
    assert second is not None
    if first.side == second.side == "found":
        assert second.ln_rate <= first.ln_rate + 1e-9
