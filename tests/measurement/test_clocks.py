"""Stalls of another host's clock: laid over a window without losing any of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import InstrumentError
from tuner.measurement.clocks import (
    WANDER,
    ClockOffset,
    ClockReading,
    aligned,
    difference,
    error_since,
    narrowest,
)

MS = 1_000_000
SECOND = 1_000 * MS
WINDOW = (100 * SECOND, 101 * SECOND)


def test_one_answer_knows_the_difference_within_half_a_round_trip() -> None:
    """Their clock showed 7 s when ours was between 100.000 and 100.004 s."""
    reading = ClockReading(100 * SECOND, 7 * SECOND, 100 * SECOND + 4 * MS)
    found = difference([reading], (100 * SECOND, 100 * SECOND + 4 * MS), drift=0.0)
    assert found == ClockOffset(-93 * SECOND - 2 * MS, 2 * MS)


def test_several_answers_narrow_it_down() -> None:
    """One was quick on the way there, the other on the way back."""
    quick_there = ClockReading(WINDOW[0], WINDOW[0] + MS, WINDOW[0] + 20 * MS)
    quick_back = ClockReading(WINDOW[1], WINDOW[1] + 19 * MS, WINDOW[1] + 20 * MS)
    found = difference([quick_there, quick_back], WINDOW, drift=0.0)
    assert found == ClockOffset(0, MS)


def test_clocks_part_with_time() -> None:
    """An answer of ten seconds before the window's end is worth less than the round trip."""
    reading = ClockReading(91 * SECOND, 91 * SECOND, 91 * SECOND)
    assert difference([reading], WINDOW, drift=1e-4) == ClockOffset(0, MS)


OFFSETS = st.integers(-(10**15), 10**15)
DRIFTS = st.floats(-0.9e-3, 0.9e-3)
DELAYS = st.tuples(st.integers(0, 50 * MS), st.integers(0, 50 * MS))


@given(OFFSETS, DRIFTS, st.lists(st.tuples(st.integers(0, 5), DELAYS), min_size=1, max_size=6))
def test_the_bound_holds(
    ahead_ns: int, drift: float, asked: list[tuple[int, tuple[int, int]]]
) -> None:
    """The estimated offset errs by at most its bound at both ends, with any delay and drift."""

    def theirs(ours_ns: int) -> int:
        return ours_ns + ahead_ns + round((ours_ns - WINDOW[0]) * drift)

    readings = [
        ClockReading(at, theirs(at + there), at + there + back)
        for at, (there, back) in ((98 * SECOND + n * SECOND, delays) for n, delays in asked)
    ]
    found = difference(readings, WINDOW)
    for edge in WINDOW:
        assert abs(theirs(edge) - edge - found.ahead_ns) <= found.error_ns + 1


@given(OFFSETS, st.integers(-20 * MS, 20 * MS), st.integers(0, 900), st.integers(1, 30))
def test_no_request_that_a_stall_touched_is_kept(
    ahead_ns: int, wrong_ns: int, start_ms: int, length_ms: int
) -> None:
    """However wrong the difference is within its bound: the aligned span holds the true one."""
    true = (start_ms * MS, (start_ms + length_ms) * MS)
    reported = (true[0] + WINDOW[0] + ahead_ns, true[1] + WINDOW[0] + ahead_ns)
    (span,) = aligned([reported], ClockOffset(ahead_ns + wrong_ns, 20 * MS), WINDOW[0])
    assert span[0] <= true[0]
    assert true[1] <= span[1]


def test_what_is_within_the_ordinary_lateness_is_no_stall() -> None:
    """A ticker without real-time priority is kept waiting by the server's own work."""
    spans = [(0, 3 * MS), (10 * MS, 12 * MS)]
    assert aligned(spans, ClockOffset(0, 0), 0, resolution_ns=2 * MS) == ((0, 3 * MS),)


@pytest.mark.parametrize(
    ("readings", "words"),
    [
        ([], "never read"),
        ([ClockReading(5, 5, 4)], "before it was asked"),
        (
            [ClockReading(WINDOW[0], 0, WINDOW[0]), ClockReading(WINDOW[1], 0, WINDOW[1])],
            "a clock was set",
        ),
    ],
)
def test_readings_that_cannot_be_are_refused(readings: list[ClockReading], words: str) -> None:
    """A clock that was set would move stalls to where they were not."""
    with pytest.raises(InstrumentError, match=words):
        difference(readings, WINDOW)


def test_the_quickest_reading_counts() -> None:
    """Its error is the smallest."""
    slow, quick = ClockReading(0, 5 * MS, 9 * MS), ClockReading(9 * MS, 10 * MS, 11 * MS)
    assert narrowest([slow, quick]) == quick
    assert quick.offset == ClockOffset(0, MS)


@given(OFFSETS, st.tuples(DRIFTS, DRIFTS), st.tuples(DELAYS, DELAYS), st.floats(0, 1))
def test_the_first_offset_holds_through_a_window(
    ahead_ns: int,
    drifts: tuple[float, float],
    delays: tuple[tuple[int, int], tuple[int, int]],
    when: float,
) -> None:
    """The clock is as far from its first reading's offset as the bound says, at any moment.

    Its drift is any, and changes in the middle by as much as is allowed.
    """
    (there, back), (drift, turn) = delays, drifts
    second = drift + turn / 0.9e-3 * WANDER
    middle = (WINDOW[0] + WINDOW[1]) // 2

    def theirs(ours_ns: int) -> int:
        first, last = min(ours_ns, middle) - WINDOW[0], max(0, ours_ns - middle)
        return ours_ns + ahead_ns + round(first * drift + last * second)

    def read(at: int, ways: tuple[int, int]) -> ClockReading:
        return ClockReading(at, theirs(at + ways[0]), at + sum(ways))

    before, after = read(WINDOW[0] - sum(there), there), read(WINDOW[1], back)
    error_ns = error_since(before, after)
    at = round(WINDOW[0] + when * (WINDOW[1] - WINDOW[0]))
    assert abs(theirs(at) - at - before.offset.ahead_ns) <= error_ns + 2


def test_a_clock_that_was_set_is_noticed() -> None:
    """Two clocks do not drift so far apart in a second."""
    before = ClockReading(WINDOW[0], WINDOW[0], WINDOW[0] + MS)
    after = ClockReading(WINDOW[1], WINDOW[1] + 5 * MS, WINDOW[1] + MS)
    with pytest.raises(InstrumentError, match=r"moved by 5\.000 ms in 1\.0 s: it was set"):
        error_since(before, after)
