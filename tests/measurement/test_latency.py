"""Quantiles are order statistics; histograms are HdrHistogram's, bit for bit where it matters."""

from __future__ import annotations

import base64
import math
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.measurement.latency import decode, encode, merge, summarise

HOUR_NS = 3_600_000_000_000
SAMPLES = st.lists(st.integers(0, HOUR_NS), min_size=1, max_size=300)

# One window of tuner-loadgen 0.1.0: its samples, and what it wrote as their histogram.
LOADGEN_NS = [
    *(90420, 70930, 144409, 49139, 183738, 87514, 92024, 81649),
    *(477341, 47156, 108497, 109057, 513682, 342060, 81853, 211895),
]
LOADGEN_HDR = (
    "HISTFAAAAF54nAFTAKz/HISTEwAAACsAAAAAAAAAAwAAAAAAAAABAAADRjC4oAA/8AAAAAAAAIFnAnkCpwkCywICAwKv"
    "AQJXAi8CgQQCDwL9BgLjBAK1AwL/CgKdCAKZAgLtEA4s"
)


@given(SAMPLES, st.sampled_from([("p50_us", 50, 100), ("p90_us", 90, 100), ("p99_us", 99, 100)]))
def test_a_quantile_is_the_smallest_value_that_enough_samples_do_not_exceed(
    values: list[int], quantile: tuple[str, int, int]
) -> None:
    """Hyndman and Fan's type 1: always a measured value, never one in between."""
    name, numerator, denominator = quantile
    found = getattr(summarise(np.array(values)), name) * 1e3
    reached = [
        v for v in sorted(values) if denominator * _rank(values, v) >= numerator * len(values)
    ]
    assert found == pytest.approx(min(reached), rel=1e-12)


def _rank(values: list[int], value: int) -> int:
    """Return how many values do not exceed this one."""
    return sum(other <= value for other in values)


@pytest.mark.parametrize(
    ("name", "expected_us"),
    [("p50", 500.0), ("p90", 900.0), ("p99", 990.0), ("p99.9", 999.0), ("max", 1000.0)],
)
def test_the_quantiles_of_a_thousand_equally_spaced_values(name: str, expected_us: float) -> None:
    """No off-by-one: the 990th of 1000 values is their p99."""
    latency = summarise(np.random.default_rng(1).permutation(np.arange(1, 1001)) * 1_000)
    assert latency.value_us(name) == expected_us
    assert latency.count == 1000
    assert latency.mean_us == 500.5


def test_an_empty_sample_has_no_figures() -> None:
    """Nothing is made up where nothing was measured."""
    latency = summarise(np.empty(0, np.int64))
    assert latency.count == 0
    assert all(math.isnan(latency.value_us(n)) for n in ("p50", "p90", "p99", "p99.9", "max"))
    assert decode(latency.hdr)[1].sum() == 0


@given(SAMPLES, st.sampled_from(["p75", "p95", "p99.5"]))
def test_any_other_percentile_is_read_from_the_histogram(values: list[int], name: str) -> None:
    """Any percentile is within 0.11 % of the exact one; without a histogram it is NaN."""
    exact = sorted(values)[max(0, math.ceil(float(name[1:]) / 100 * len(values) - 1e-9) - 1)]
    found = summarise(np.array(values)).value_us(name)
    assert found == pytest.approx(exact / 1e3, rel=1.1e-3, abs=1e-3)
    assert math.isnan(summarise(np.array(values), histogram=False).value_us(name))


def test_what_is_no_percentile_is_not_guessed() -> None:
    """A name that is none is an error of the programmer."""
    with pytest.raises(ValueError, match="ean"):
        summarise(np.array([1])).value_us("mean")


@given(SAMPLES)
def test_a_histogram_keeps_every_count_and_three_digits_of_every_value(values: list[int]) -> None:
    """A decoded value lies at most 0.1 % above its sample, never below it."""
    slots, counts = decode(encode(np.array(values)))
    assert counts.sum() == len(values)
    back = np.repeat(slots, counts)
    ordered = np.sort(np.array(values))
    assert (back >= ordered).all()
    assert (back - ordered <= np.maximum(ordered // 1000, 0)).all()
    assert (np.diff(slots) > 0).all()


@pytest.mark.parametrize("value", [0, 1, 2047])
def test_values_below_two_thousand_are_kept_exactly(value: int) -> None:
    """There the slots are one nanosecond wide."""
    slots, counts = decode(encode(np.array([value])))
    assert (slots.tolist(), counts.tolist()) == ([value], [1])


@pytest.mark.parametrize(
    ("value", "highest"),
    [(2048, 2049), (4095, 4095), (4096, 4099), (92_024, 92_031), (513_682, 513_791)],
)
def test_slots_end_where_the_reference_implementation_ends_them(value: int, highest: int) -> None:
    """HdrHistogram's highestEquivalentValue; the last two are tuner-loadgen's own figures."""
    assert decode(encode(np.array([value])))[0].tolist() == [highest]


def test_a_sample_beyond_an_hour_counts_as_an_hour() -> None:
    """The histogram's range ends there; a sample is never lost."""
    slots, counts = decode(encode(np.array([2 * HOUR_NS])))
    assert counts.tolist() == [1]
    assert slots[0] == pytest.approx(HOUR_NS, rel=1e-3)


def test_the_generator_and_the_record_write_the_same_histogram() -> None:
    """The same samples give the same counts in the same slots, byte for byte once unpacked."""
    ours, theirs = encode(np.array(LOADGEN_NS)), LOADGEN_HDR
    assert [a.tolist() for a in decode(ours)] == [a.tolist() for a in decode(theirs)]
    assert _payload(ours) == _payload(theirs)


def _payload(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text)[8:])


def test_every_hdr_tool_knows_the_form_by_its_beginning() -> None:
    """HISTFAAA: the cookie of the V2 compressed form in base64."""
    assert encode(np.array([1, 2, 3])).startswith("HISTFAAA")


@given(st.lists(SAMPLES, max_size=4))
def test_merging_histograms_is_counting_all_samples_together(groups: list[list[int]]) -> None:
    """Merged in any number, they are the histogram of everything."""
    merged = merge([encode(np.array(group)) for group in groups])
    everything = [value for group in groups for value in group]
    whole = decode(encode(np.array(everything, np.int64)))
    assert [a.tolist() for a in merged] == [a.tolist() for a in whole]


def _with_cookie(cookie: int) -> str:
    raw = bytearray(base64.b64decode(LOADGEN_HDR))
    raw[:4] = cookie.to_bytes(4, "big")
    return base64.b64encode(raw).decode()


@pytest.mark.parametrize(
    "text", ["HISTFAA", "no base64!", _with_cookie(0x1C849301), _with_cookie(0)]
)
def test_what_is_no_such_histogram_is_refused(text: str) -> None:
    """A cut text or another version is an error, never an empty distribution."""
    with pytest.raises(ValueError, match=r".+"):
        decode(text)
