"""The rule of spans: which requests a stall may have touched, decided without any latency."""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.measurement.windows import GATES, raw_window
from tuner.measurement import stalls
from tuner.measurement.measuring import measure
from tuner.measurement.stalls import Span, StallRule, excluded

MS = 1_000_000
SPANS = st.lists(
    st.tuples(st.integers(-50 * MS, 1000 * MS), st.integers(0, 30 * MS)).map(
        lambda pair: (pair[0], pair[0] + pair[1])
    ),
    max_size=8,
)
INTENDED = np.arange(0, 1000 * MS, MS // 3, dtype=np.int64)


def touched(spans: list[Span], rule: StallRule) -> list[int]:
    """Return the intended instants, in ms, that the rule excludes from one request per ms."""
    intended = np.arange(100, dtype=np.int64) * MS
    return np.flatnonzero(excluded(intended, spans, rule)).tolist()


def test_a_stall_excludes_what_was_intended_around_it() -> None:
    """A stall excludes from 1 ms before it to 2 ms after it, both ends included."""
    assert touched([(10 * MS, 15 * MS)], StallRule()) == list(range(9, 18))


def test_a_gap_of_a_hundred_microseconds_is_no_stall() -> None:
    """The smallest stall is longer than the gap, not equal to it."""
    at_the_gap, above = (10 * MS, 10 * MS + 100_000), (10 * MS, 10 * MS + 100_001)
    assert touched([at_the_gap], StallRule()) == []
    assert touched([above], StallRule()) == [9, 10, 11, 12]


def test_a_backlog_takes_time_in_proportion_to_the_stall() -> None:
    """A recovery of 2 excludes twice the stall's length beyond the fixed 2 ms."""
    assert touched([(10 * MS, 15 * MS)], replace(StallRule(), recovery=2.0)) == list(range(9, 28))


def test_stalls_at_the_edges_reach_into_the_window() -> None:
    """A stall of the warm-up and one that outlasts the window count as far as they touch it."""
    assert touched([(-5 * MS, -1 * MS)], StallRule()) == [0, 1]
    assert touched([(98 * MS, 300 * MS)], StallRule()) == [97, 98, 99]
    assert touched([(-90 * MS, -80 * MS), (200 * MS, 210 * MS)], StallRule()) == []


def test_a_window_without_requests_or_stalls_excludes_nothing() -> None:
    """The ends of the domain are not a special case."""
    assert excluded(np.empty(0, np.int64), [(0, MS)], StallRule()).shape == (0,)
    assert not excluded(INTENDED, [], StallRule()).any()


def test_stalls_in_a_cluster_add_up() -> None:
    """The backlog of one stall adds to that of the next."""
    rule = replace(StallRule(), recovery=3.0)
    one_by_one = [(10 * MS, 12 * MS), (14 * MS, 16 * MS), (18 * MS, 20 * MS)]
    # 6 ms left at 12, 4 at 14, 10 at 16, 8 at 18, 14 at 20: drained at 34, felt until 36.
    assert touched(one_by_one, rule) == list(range(9, 37))


@given(SPANS)
def test_a_request_is_excluded_exactly_if_some_stall_reaches_it(spans: list[Span]) -> None:
    """Apart from what adds up: the mask is the plain definition, request by request."""
    rule = StallRule(gap_us=500, before_us=2_000, after_us=3_000)
    expected = [
        any(
            start - 2 * MS <= instant <= end + 3 * MS
            for start, end in spans
            if end - start > MS // 2
        )
        for instant in INTENDED.tolist()
    ]
    assert excluded(INTENDED, spans, rule).tolist() == expected


@given(SPANS)
def test_the_backlog_is_that_of_a_fluid_queue(spans: list[Span]) -> None:
    """Stepped through in time: it grows while any core is stalled and drains when none is."""
    rule = StallRule(gap_us=0, before_us=0, after_us=0, recovery=2.0)
    end = max((stop for _, stop in spans), default=0)
    backlog_ns, idle_ns, step = 0.0, 0, 200_000
    # Stalls shorter than a step slip through, and each leaves at most twice its length.
    rough_ns = 4 * step * (len(spans) + 1)
    instants = range(-100 * MS, 400 * MS, step)
    found = excluded(np.array(instants), spans, rule)
    for place, instant in enumerate(instants):
        stalled = any(start <= instant < stop for start, stop in spans if stop > start)
        backlog_ns = backlog_ns + 2 * step if stalled else max(0.0, backlog_ns - step)
        if backlog_ns > rough_ns:
            assert found[place], "what waits in the queue is excluded"
        idle_ns = 0 if backlog_ns else idle_ns + step
        if instant > end + rough_ns and idle_ns > rough_ns:
            assert not found[place], "what comes after it has drained is not"


@given(SPANS, SPANS)
def test_more_stalls_never_exclude_less(some: list[Span], more: list[Span]) -> None:
    """Nobody can bring a request back by reporting another stall."""
    few, many = excluded(INTENDED, some, StallRule()), excluded(INTENDED, some + more, StallRule())
    assert (many | ~few).all()


def test_the_rule_cannot_see_a_latency() -> None:
    """The rule sees only intended instants, spans and its own options, so it favours no arm."""
    assert list(inspect.signature(excluded).parameters) == ["intended_ns", "spans", "rule"]


@given(st.lists(st.floats(1.0, 1e6), min_size=50, max_size=50))
def test_what_is_excluded_is_the_same_whatever_was_answered(latencies_us: list[float]) -> None:
    """In a whole measurement too: two windows that differ in latency keep the same requests."""
    spans: tuple[Span, ...] = ((300 * MS, 330 * MS),)
    slow = measure(raw_window(latencies_us, generator_spans=spans), stalls.SPANS, GATES)
    fast = measure(raw_window([1.0] * 50, generator_spans=spans), stalls.SPANS, GATES)
    assert slow.excluded_share == fast.excluded_share > 0
    assert slow.stall_free.count == fast.stall_free.count
