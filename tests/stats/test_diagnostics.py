"""Each diagnostic is silent on healthy studies and speaks where its fault was injected."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests import seeds
from tests.seeds import simulate, simulate_requests
from tests.stats.conftest import Tolerance
from tuner.stats.diagnostics import (
    ALARM_LEVEL,
    baseline_drift,
    bootstrap,
    invalid_windows,
    lag_one,
    leave_one_out,
    order_effect,
    slope_over_time,
    stall_shares,
    unequal_stalls_p,
    variance_shares,
)
from tuner.stats.margin import DEFAULT_BAND, Margin
from tuner.stats.paired import FloatArray, estimate
from tuner.testing import simulate as simulation
from tuner.testing.simulate import Noise, SimulatedStalls


def test_healthy_studies_are_rarely_warned(studies: int, tolerance: Tolerance) -> None:
    """Every diagnostic keeps its alarm level on studies with a real effect and no fault."""
    windows = simulate(41, studies=studies, blocks=10, ratios=(1.0, 0.9), rounds=2)
    alarms = {"order-effect": 0, "lag-1": 0, "slope": 0}
    for values, places, d in zip(
        windows.ln_value, windows.position, windows.differences(), strict=True
    ):
        for finding in (order_effect(values, places), lag_one(d), slope_over_time(d)):
            alarms[finding.code] += finding.raised
    assert all(count <= tolerance.most(ALARM_LEVEL) for count in alarms.values()), alarms


def test_the_other_warnings_keep_their_level_too(studies: int, tolerance: Tolerance) -> None:
    """Warnings are raised at their level, 1 % or 5 % on validity, in the borderline case.

    The starts' share of the variance is exactly the one from which on more windows gain nothing.
    The baseline is steady; stalls and invalid windows hit both arms alike.
    """
    rng = seeds.rng(44)
    blocks, rounds = 12, 4
    alarms = {"variance-shares": 0, "baseline-drift": 0, "stall-shares": 0, "invalid-windows": 0}
    for _ in range(studies):
        starts = rng.normal(0, math.sqrt(9 / rounds), (blocks, 1))
        shares = rng.gamma(2.0, 0.02, (2, blocks))
        for finding in (
            variance_shares(starts + rng.normal(0, 1, (blocks, rounds))),
            baseline_drift(rng.normal(4.0, 0.05, 20)),
            stall_shares(shares[0], shares[1]),
            invalid_windows(rng.binomial(200, 0.05), rng.binomial(200, 0.05), 200),
        ):
            alarms[finding.code] += finding.raised
    levels = {"stall-shares": 0.05, "invalid-windows": 0.05}
    for code, count in alarms.items():
        assert count <= tolerance.most(levels.get(code, ALARM_LEVEL)), code


def test_carry_over_raises_the_order_warning() -> None:
    """A window that slows its successors by 5 % is found, with its size and a remedy.

    Starts that differ ten times as much do not hide it.
    """
    noise = Noise(ar_sd=0.02, restart_sd=0.5, burst_probability=0.0, order_step=0.05)
    windows = simulation.simulate(
        42, studies=1, blocks=12, ratios=(1.0, 0.9), rounds=4, noise=noise
    )
    finding = order_effect(windows.ln_value[0], windows.position[0])
    assert finding.raised
    assert finding.figure == pytest.approx(0.05, abs=0.015)
    assert "lengthen the warm-up" in finding.message


def test_order_effect_of_single_rounds() -> None:
    """With one round per block the effect is seen too, past the difference between the arms."""
    noise = Noise(ar_sd=0.01, restart_sd=0.01, burst_probability=0.0, order_step=0.05)
    windows = simulation.simulate(43, studies=1, blocks=14, ratios=(1.0, 0.5), noise=noise)
    finding = order_effect(windows.ln_value[0], windows.position[0])
    assert finding.raised
    assert finding.figure == pytest.approx(0.05, abs=0.02)


def test_lasting_disturbance_raises_lag_one() -> None:
    """Differences that wander slowly are correlated; shuffled, the same ones are not."""
    wave = np.sin(np.arange(24) / 4) * 0.1
    assert lag_one(wave).raised
    assert lag_one(wave).figure > 0.8
    assert not lag_one(np.random.default_rng(1).permutation(wave)).raised


def test_drifting_effect_raises_slope() -> None:
    """An effect that fades by 1 % per block is found with its slope; a constant one is not."""
    rng = np.random.default_rng(2)
    noise = rng.normal(0, 0.02, 16)
    finding = slope_over_time(-0.2 + 0.01 * np.arange(16) + noise)
    assert finding.raised
    assert finding.figure == pytest.approx(0.01, abs=0.003)
    assert "+1." in finding.message
    assert not slope_over_time(-0.2 + noise).raised


def test_starts_that_settle_differently_are_reported() -> None:
    """Differences between starts advise more blocks; noise between windows does not."""
    rng = np.random.default_rng(3)
    starts, windows = rng.normal(0, 0.1, (16, 1)), rng.normal(0, 0.1, (16, 4))
    dominated = variance_shares(starts + 0.1 * windows)
    assert dominated.raised
    assert dominated.figure > 0.95
    assert "more blocks" in dominated.message
    even = variance_shares(starts + windows)
    assert not even.raised
    assert 0.3 < even.figure < 0.8
    noisy = variance_shares(0.1 * starts + windows)
    assert not noisy.raised
    assert noisy.figure < 0.3


def test_a_claim_that_hangs_on_one_block() -> None:
    """A barely significant result is fragile, a clear one is not, and no effect claims nothing."""
    barely = [0.03, 0.02, -0.04, -0.02, 0.01, -0.2, -0.15, -0.1, -0.12, -0.08]
    finding = leave_one_out(barely)
    assert finding.raised
    assert "depends on one block" in finding.message
    clear = [-0.2, -0.15, -0.1, -0.12, -0.08, -0.17, -0.14, -0.13]
    assert not leave_one_out(clear).raised
    assert not leave_one_out(barely, margin=DEFAULT_BAND).raised  # nothing is claimed beyond 3 %
    assert not leave_one_out([0.1, -0.1, 0.02, -0.03, 0.05, -0.06, 0.01]).raised


def test_a_claim_of_several_finalists_is_looked_at_by_its_own_interval() -> None:
    """A claim of three finalists is checked with its own, wider interval."""
    of_three = 1 - 0.05 / 3
    fragile = [0.01, -0.2, -0.15, -0.1, -0.12, -0.08, -0.17, -0.14]
    assert estimate(fragile, of_three).excludes_no_change
    assert leave_one_out(fragile, confidence=of_three).raised
    assert not leave_one_out(fragile).raised
    barely = [0.03, 0.02, -0.04, -0.02, 0.01, -0.2, -0.15, -0.1, -0.12, -0.08]
    assert leave_one_out(barely).raised
    assert not leave_one_out(barely, confidence=of_three).raised  # nothing is claimed


def test_leave_one_out_figure_by_hand() -> None:
    """The figure is the largest shift of the pseudomedian, here of three blocks."""
    # Walsh averages of 0, 0.1, 0.5 have median 0.175; without 0.5 it is 0.05, without 0 it is 0.3.
    finding = leave_one_out([0.0, 0.1, 0.5])
    assert finding.figure == pytest.approx(0.125)
    assert not finding.raised


def test_unequal_stalls_are_reported() -> None:
    """A rule that always cuts more from one arm is noticed; equal shares with noise are not."""
    rng = np.random.default_rng(4)
    baseline = rng.uniform(0.02, 0.06, 12)
    assert not stall_shares(baseline + rng.normal(0, 0.005, 12), baseline).raised
    finding = stall_shares(baseline + 0.02, baseline)
    assert finding.raised
    assert finding.figure == pytest.approx(0.02)
    assert "do not share a core" in finding.message


def requests_of(
    seed: int, studies: int, stalls: tuple[SimulatedStalls, SimulatedStalls], blocks: int = 1
) -> tuple[FloatArray, FloatArray]:
    """Stall-free ln p99 and excluded shares of two equal arms, (studies, blocks, 12 rounds, 2)."""
    noise = Noise(ar_sd=0.02, restart_sd=0.02, burst_probability=0.0)
    level = simulate(
        seed, studies=studies, blocks=blocks, ratios=(1.0, 1.0), rounds=12, noise=noise
    ).ln_value
    tails, shares = [], []
    for arm, kind in enumerate(stalls):
        made = simulate_requests(seed + 1 + arm, level[..., arm], requests=3_000, stalls=kind)
        free = np.where(made.stalled, np.nan, made.latency_us)
        tails.append(np.log(np.nanquantile(free, 0.99, axis=-1)))
        shares.append(made.stalled.mean(axis=-1))
    return np.stack(tails, axis=-1), np.stack(shares, axis=-1)


def test_stalls_of_the_host_leave_ratio_and_blocks_alone(
    studies: int, tolerance: Tolerance
) -> None:
    """Stalls of the host leave the ratio at 1 and invalidate blocks at the test's level, 1 %."""
    invalid, centre = 0, []
    for batch in range(studies // 50):
        tails, shares = requests_of(700 + 10 * batch, 50, (SimulatedStalls(), SimulatedStalls()))
        invalid += sum(unequal_stalls_p(block) <= 0.01 for block in shares[:, 0])
        centre.append((tails[..., 1] - tails[..., 0]).mean(axis=(1, 2)))
    d = np.concatenate(centre)
    assert d.mean() == pytest.approx(0.0, abs=seeds.SIGMAS * d.std() / math.sqrt(d.size))
    assert invalid <= tolerance.most(0.01)


def test_stalls_of_one_arm_make_its_blocks_invalid(studies: int, tolerance: Tolerance) -> None:
    """An arm that stalls four times as often makes most blocks invalid."""
    found = 0
    for batch in range(studies // 50):
        _, shares = requests_of(
            800 + 10 * batch, 50, (SimulatedStalls(), SimulatedStalls(per_s=16.0))
        )
        found += sum(unequal_stalls_p(block) <= 0.01 for block in shares[:, 0])
    assert found >= tolerance.least(0.80)


def test_unequal_stalls_by_hand() -> None:
    """Eight rounds of one sign: 2 of 2^8 orders are as extreme; four rounds cannot reach 1 %.

    With three arms the orders are drawn.
    """
    rounds = np.arange(1, 9) / 100
    assert unequal_stalls_p(np.column_stack([rounds + 0.02, rounds])) == 2 / 2**8
    assert unequal_stalls_p([[0.05, 0.01]] * 4) == 2 / 2**4
    assert unequal_stalls_p([[0.05, 0.01, 0.01]] * 8) < 0.01
    assert unequal_stalls_p([[0.03, 0.03]] * 8) == 1.0


def test_bootstrap_agrees_on_clear_cases_and_reports_close_calls() -> None:
    """About as wide as the exact interval; silent below 20 blocks; raised where they differ."""
    rng = np.random.default_rng(9)
    clear = rng.normal(-0.1, 0.05, 24)
    finding = bootstrap(clear, margin=DEFAULT_BAND)
    assert not finding.raised
    assert finding.figure == pytest.approx(1.0, abs=0.25)
    assert "BCa" in finding.message
    assert math.isnan(bootstrap(clear[:19]).figure)
    # The margin between the upper ends of both intervals: the one claims, the other does not.
    exact = estimate(clear).high
    width = float(finding.message.rsplit(" ", 1)[1])
    assert exact != pytest.approx(width, abs=1e-4)
    assert bootstrap(clear, margin=Margin(2 / (exact + width) - 1)).raised
    wider = bootstrap(clear, confidence=1 - 0.05 / 3)
    assert float(wider.message.rsplit(" ", 1)[1]) > width
    assert wider.figure == pytest.approx(1.0, abs=0.25)


def test_a_drifting_or_disturbed_baseline_is_reported() -> None:
    """The sentinel of the search: its slope by block, and blocks that other arms contradict."""
    steady = np.random.default_rng(10).normal(4.0, 0.05, 20)
    assert not baseline_drift(steady).raised
    drifting = baseline_drift(steady + 0.02 * np.arange(20))
    assert drifting.raised
    assert drifting.figure == pytest.approx(0.02, abs=0.006)
    long = np.random.default_rng(5).normal(4.0, 0.05, 3_000)
    assert not baseline_drift(long).raised
    found = baseline_drift(long + 1e-4 * np.arange(3_000))
    assert found.raised
    assert found.figure == pytest.approx(1e-4, rel=0.1), "per block, not per run of blocks"
    assert "1 block say that the baseline was disturbed" in baseline_drift(steady, 1).message
    assert baseline_drift(steady, 1).raised


@pytest.mark.parametrize(
    ("candidate", "baseline", "raised"),
    [(0, 0, False), (2, 3, False), (0, 6, True), (12, 12, True), (9, 9, False)],
)
def test_invalid_windows(candidate: int, baseline: int, raised: bool) -> None:
    """More than a tenth invalid, or one arm failing alone, is a warning."""
    assert invalid_windows(candidate, baseline, windows_per_arm=100).raised is raised


@pytest.mark.parametrize(
    ("failed", "named"), [(0, "the host or the generator"), (20, "in 20 of them the server")]
)
def test_invalid_windows_name_who_failed(failed: int, named: str) -> None:
    """Advice about the host's load would lead astray where answers were wrong."""
    said = invalid_windows(12, 12, windows_per_arm=100, failed=failed).message
    assert f"12% in all: {named}" in said


def test_same_record_same_findings() -> None:
    """Permutation tests are seeded: a report made again says the same."""
    d = np.random.default_rng(5).normal(0, 0.1, 15)
    assert lag_one(d) == lag_one(d)
    assert slope_over_time(d) == slope_over_time(d)


def test_too_little_data_is_silent() -> None:
    """Too little data gives no figure and no warning."""
    for finding in (
        lag_one([0.1, 0.2, 0.3]),
        slope_over_time([0.1] * 10),
        variance_shares([[0.1, 0.2]]),
        leave_one_out([0.1]),
        order_effect([[[0.1, 0.2]]], [[[0, 1]]]),
    ):
        assert math.isnan(finding.figure)
        assert not finding.raised
        assert "not enough data" in finding.message


def test_shapes_are_checked() -> None:
    """Arrays of the wrong shape are refused with the shape that was given."""
    with pytest.raises(ValueError, match=r"\(blocks, rounds, arms\).*got shape \(2,\)"):
        order_effect([0.1, 0.2], [0, 1])
    with pytest.raises(ValueError, match="one share per block but got 2 and 1"):
        stall_shares([0.1, 0.2], [0.1])
    with pytest.raises(ValueError, match="between 0 and 10 but got 11 and 0"):
        invalid_windows(11, 0, 10)
