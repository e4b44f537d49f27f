"""The figures of many cores, made of the raw ones of the Rust program."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import many_cores
from benchmarks.finding import Finding

CASES = {"alone": 10.0, "two": 40.0, "sixteen": 50.0, "apart": 10.0}
PACED = {"late_p50_ns": 80, "late_p99_ns": 400, "lost": 0.25}
CLAIMS: dict[str, Any] = {
    "claim_ns": CASES,
    "books_ns": {**CASES, "two": 210.0},
    "transfer_ns": 50.0,
    "paced": [PACED, PACED, PACED],
}


def values(findings: list[Finding]) -> dict[str, float]:
    """Return the value of each question."""
    return {one.question: one.value for one in findings}


def test_the_bound_of_a_claim_is_a_line_that_all_sixteen_cores_take() -> None:
    """The bound is a claim alone, and the line handed on sixteen times."""
    assert many_cores.bound_ns(CLAIMS) == pytest.approx(10 + 16 * 50)
    found = values(many_cores.claims([CLAIMS]))
    # At 1,000,000/s each of sixteen threads has 16 µs for a request.
    share = found["claim: bound for 16 cores / a request's 16 µs"]
    assert share == pytest.approx(810 / 16_000)
    assert found["claim: two cores / alone"] == pytest.approx(4.0)
    # A million times a second, sixteen times 50 ns.
    assert many_cores.line_share(CLAIMS) == pytest.approx(0.8)


def test_a_ticker_among_many_has_its_part_of_what_they_take() -> None:
    """The share of a core is divided by the tickers on it."""
    one = {
        "share_of_one": 0.01,
        "share_of_many": 0.16,
        "tickers_on_core": 32,
        "start_one_ms": 1.0,
        "start_many_ms": 20.0,
        "reader_of_one_share": 0.001,
        "reader_of_many_share": 0.01,
    }
    found = values(many_cores.tickers([one]))
    assert found["ticker: share of one among 64 on these cores"] == pytest.approx(0.005)
    assert found["tickers of another host: reader of 64 / of one"] == pytest.approx(10)
    assert many_cores.tickers([{**one, "share_of_one": None}]) == []


def test_the_gap_is_all_work_between_two_windows() -> None:
    """The times by request add up, at a million requests for each second of the window."""
    steps = {"schedule_ns": 20.0, "record_ns": 10.0, "samples_ns": 10.0, "figures_ns": 60.0}
    window = {**steps, "requests": 1_000_000}
    one = {"alone": [window, window], "slices": window, "peak_bytes": 200_000_000}
    found = values(many_cores.gaps([one]))
    assert found["gap / window at 1,000,000/s, alone"] == pytest.approx(0.1)
    assert found["gap by request: window of 2 s / of 1 s"] == pytest.approx(1.0)
    assert found["memory: peak by request"] == pytest.approx(200)
