"""The simulator has the properties that its parameters name."""

from __future__ import annotations

import numpy as np
import pytest

from tests.seeds import SIGMAS, simulate, simulate_requests
from tuner.testing.simulate import Noise, SimulatedStalls

SILENT = Noise(ar_sd=0.0, restart_sd=0.0, burst_probability=0.0)


def test_without_noise_the_truth_is_seen() -> None:
    """Silent windows are exactly the level times the ratio."""
    windows = simulate(
        1, studies=2, blocks=3, ratios=(1.0, 0.7), rounds=2, noise=SILENT, level_us=80.0
    )
    assert np.exp(windows.ln_value[..., 0]) == pytest.approx(np.full((2, 3, 2), 80.0))
    assert np.exp(windows.ln_value[..., 1]) == pytest.approx(np.full((2, 3, 2), 56.0))
    assert np.exp(windows.differences()) == pytest.approx(np.full((2, 3), 0.7))


def test_same_seed_same_studies() -> None:
    """A seed fixes everything; another seed gives other studies."""
    first, again, other = (simulate(s, studies=3, blocks=4, ratios=(1.0, 1.0)) for s in (5, 5, 6))
    assert np.array_equal(first.ln_value, again.ln_value)
    assert not np.array_equal(first.ln_value, other.ln_value)


def test_every_round_is_a_random_permutation() -> None:
    """Each arm is measured once per round, and each first about equally often."""
    position = simulate(2, studies=1, blocks=500, ratios=(1.0,) * 4, rounds=2).position
    assert (np.sort(position, axis=-1) == np.arange(4)).all()
    first = np.bincount(np.argmin(position, axis=-1).ravel(), minlength=4)
    assert first / 1_000 == pytest.approx(
        np.full(4, 0.25), abs=SIGMAS * np.sqrt(0.25 * 0.75 / 1_000)
    )


def test_drift_follows_the_order_of_measurement() -> None:
    """Sorted by time, windows climb by the drift, whichever arm they belong to."""
    noise = Noise(0.01, ar_sd=0.0, restart_sd=0.0, burst_probability=0.0)
    windows = simulate(3, studies=1, blocks=5, ratios=(1.0, 1.0, 1.0), rounds=2, noise=noise)
    in_time = np.take_along_axis(windows.ln_value, np.argsort(windows.position, axis=-1), axis=-1)
    assert np.diff(in_time.ravel()) == pytest.approx(np.full(29, 0.01))


def test_one_after_another_measures_arms_in_sequence() -> None:
    """The naive schedule takes all windows of one arm before the next: AAAABBBB."""
    noise = Noise(0.01, ar_sd=0.0, restart_sd=0.0, burst_probability=0.0)
    windows = simulate(
        4, studies=1, blocks=4, ratios=(1.0, 1.0), noise=noise, schedule="one-after-another"
    )
    steps = (windows.ln_value - np.log(100.0)) / 0.01
    assert steps[0, :, 0, 0] == pytest.approx(np.arange(4))
    assert steps[0, :, 0, 1] == pytest.approx(np.arange(4, 8))


def test_host_level_is_autocorrelated_and_stationary() -> None:
    """Consecutive windows correlate by phi, with the stated spread from the first window on."""
    noise = Noise(ar_phi=0.8, ar_sd=0.05, restart_sd=0.0, burst_probability=0.0)
    level = simulate(5, studies=20_000, blocks=10, ratios=(1.0,), noise=noise).ln_value[:, :, 0, 0]
    assert level.std(axis=0) == pytest.approx(np.full(10, 0.05), rel=0.03)
    assert np.corrcoef(level[:, 3], level[:, 4])[0, 1] == pytest.approx(0.8, abs=0.02)


def test_a_start_is_shared_by_its_rounds() -> None:
    """Rounds of one start have one level; starts differ by the stated spread."""
    noise = Noise(ar_sd=0.0, restart_sd=0.05, burst_probability=0.0)
    windows = simulate(6, studies=50, blocks=20, ratios=(1.0, 1.0), rounds=3, noise=noise)
    assert np.ptp(windows.ln_value, axis=2) == pytest.approx(np.zeros((50, 20, 2)))
    # The relative error of a standard deviation of n normal values is 1 / sqrt(2 n).
    assert windows.arm_means().std() == pytest.approx(0.05, rel=SIGMAS / np.sqrt(2 * 2_000))


def test_bursts_hit_their_share_of_windows() -> None:
    """A twentieth of the windows is disturbed, with tails heavier than normal."""
    noise = Noise(ar_sd=0.0, restart_sd=0.0, burst_probability=0.05, burst_scale=0.1)
    values = simulate(7, studies=100, blocks=200, ratios=(1.0,), noise=noise).ln_value
    excess = values[np.abs(values - np.log(100.0)) > 1e-12] - np.log(100.0)
    assert excess.size / values.size == pytest.approx(
        0.05, abs=SIGMAS * np.sqrt(0.05 * 0.95 / values.size)
    )
    assert np.mean(np.abs(excess) > 0.3) == pytest.approx(
        0.0577, abs=SIGMAS * np.sqrt(0.0577 / excess.size)
    )  # t3 beyond 3


def test_stalls_make_the_raw_tail_and_the_rule_removes_them() -> None:
    """Stalls blow up the raw p99; without the requests they hit, it is as if none had been.

    The mark of a stalled request does not look at its latency, so the rest is unbiased.
    """
    levels = np.full(40, np.log(40.0))
    calm = simulate_requests(8, levels, requests=10_000)
    stalled = simulate_requests(8, levels, requests=10_000, stalls=SimulatedStalls())
    raw = np.log(np.quantile(stalled.latency_us, 0.99, axis=1))
    free = np.log(
        [np.quantile(x[~s], 0.99) for x, s in zip(stalled.latency_us, stalled.stalled, strict=True)]
    )
    undisturbed = np.log(np.quantile(calm.latency_us, 0.99, axis=1))
    assert 0.01 < stalled.stalled.mean() < 0.05
    assert raw.std() > 10 * free.std()
    assert free.mean() == pytest.approx(undisturbed.mean(), abs=0.02)
    assert not calm.stalled.any()
