"""Arrivals of a log: how bursty it is, and rates that follow it."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.errors import DefinitionError
from tuner.reading.log_arrivals import Arrivals, dispersion
from tuner.workload.log_arrival import burstiness, drawn, fitted


def arrivals(rates: list[float], seed: int = 1) -> Arrivals:
    """Return a log with independent arrivals at these rates, a second each."""
    made = Arrivals()
    for second, count in enumerate(np.random.default_rng(seed).poisson(rates)):
        for _ in range(count):
            made.add(1_760_000_000 + second)
    return made


def test_independent_arrivals_have_a_dispersion_of_one() -> None:
    """And bursts have more."""
    assert dispersion(arrivals([50.0] * 500).per_second) == pytest.approx(1, abs=0.25)
    assert dispersion(arrivals([10.0, 10.0, 10.0, 170.0] * 100).per_second) > 20


def test_requests_out_of_order_have_their_seconds() -> None:
    """Logs of several days may be given in any order."""
    made = Arrivals()
    for second in (100_000, 100_003, 90_000, 100_000):
        made.add(second + 0.5)
    counts = made.per_second
    assert (len(counts), counts[0], counts[-1], counts[10_000]) == (10_004, 1, 1, 2)
    assert made.peak_per_s == 2


def test_a_fitted_profile_follows_the_rates_and_not_the_chance() -> None:
    """Drawn from it, the counts have the log's bursts; with one rate they have none."""
    log = arrivals(([20.0] * 20 + [200.0] * 10) * 8)
    profile = fitted(log)
    stretch = log.busiest(60)
    assert dispersion(stretch) > 50
    assert dispersion(np.array(drawn(stretch, profile), np.uint32)) == pytest.approx(
        dispersion(stretch), rel=0.3
    )
    assert dispersion(np.array(drawn(stretch, None), np.uint32)) < 2


def test_steady_arrivals_at_a_low_rate_are_fitted_by_long_pieces() -> None:
    """Pieces have some 25 requests, so that their rates differ by chance only a little."""
    steps = fitted(arrivals([5.0] * 600)).steps
    assert {step.share for step in steps} == {5}
    rates = [step.start for step in steps]
    assert max(rates) < 3.5 * min(rates)


def test_too_few_requests_are_not_fitted() -> None:
    """The message names the option to leave out."""
    with pytest.raises(DefinitionError, match="leave out --arrival fitted"):
        fitted(arrivals([1.0] * 5))
    assert burstiness(arrivals([1.0] * 5)) == "Arrivals: too few requests to see bursts."
