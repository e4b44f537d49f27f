"""Scores from all arms at once: exact without noise, robust to a baseline that was disturbed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from tuner.stats import additive
from tuner.stats.additive import AdditiveFit
from tuner.stats.paired import FloatArray

SIGMA = 0.05
CANDIDATES = 5
Score = Callable[[FloatArray], FloatArray]


def fit(table: npt.ArrayLike, *, sigma: float, correlation: float) -> AdditiveFit:
    """Fit a table of configurations and blocks, with NaN where nothing was measured."""
    y = np.asarray(table, np.float64)
    rows, columns = np.nonzero(np.isfinite(y))
    return additive.fit(
        rows,
        columns,
        y[rows, columns],
        configurations=len(y),
        sigma=sigma,
        correlation=correlation,
    )


def by_control(y: FloatArray) -> FloatArray:
    """Return mean over blocks of the ratio to the baseline of the same block."""
    return np.asarray(np.nanmean(y - y[0], axis=1))


def by_raw(y: FloatArray) -> FloatArray:
    """Return mean over blocks of the raw figure."""
    return np.asarray(np.nanmean(y, axis=1))


def by_fit(correlation: float) -> Score:
    """Return the estimate from all arms."""
    return lambda y: fit(y, sigma=SIGMA, correlation=correlation).effects


def regret(score: Score, seed: int, *, host_sd: float, disturbed: float, blocks: int = 12) -> float:
    """Return a search's regret: the chosen configuration's loss against the best one tried.

    Each block holds the baseline, the best so far twice at most, and new ones; the last quarter
    goes to the best three. A disturbance hits one start in `disturbed` of all, t with 3 degrees of
    freedom and scale 0.3.
    """
    rng = np.random.default_rng(seed)
    truth = np.append(0.0, rng.normal(0.05, 0.15, blocks * CANDIDATES))
    y = np.full((truth.size, blocks), np.nan)
    found, looks, tried, host = np.full(truth.size, np.inf), np.zeros(truth.size), 1, 0.0
    for block in range(blocks):
        host = 0.8 * host + rng.normal(0, host_sd * 0.6)
        best = [int(i) for i in np.argsort(found) if i and 0 < looks[i] < 5]
        if block >= 0.75 * blocks:
            arms = best[:3]
        else:
            arms = best[:2] if tried > 3 else []
            fresh = CANDIDATES - len(arms)
            arms += range(tried, tried + fresh)
            tried += fresh
        for arm in (0, *arms):
            burst = (rng.random() < disturbed) * 0.3 * rng.standard_t(3)
            y[arm, block] = truth[arm] + host + rng.normal(0, SIGMA) + burst
            looks[arm] += 1
        found[:tried] = score(y[:tried, : block + 1])
    rung = np.searchsorted([1, 3, 5], looks[1:tried], side="right")
    chosen = 1 + int(np.lexsort((found[1:tried], -rung))[0])
    return float(truth[chosen] - truth[1:tried].min())


def regrets(score: Score, searches: int, host_sd: float, disturbed: float) -> FloatArray:
    """Regret of many searches on hosts of their own.

    The seeds are fixed: the means of 40 searches differ by more than the claims' bounds.
    """
    return np.array(
        [regret(score, seed, host_sd=host_sd, disturbed=disturbed) for seed in range(searches)]
    )


@pytest.mark.parametrize(("host_sd", "correlation"), [(0.15, 0.9), (0.05, 0.5), (0.0, 0.0)])
def test_selection_is_better_where_starts_are_disturbed(
    host_sd: float, correlation: float, studies: int
) -> None:
    """One start in twenty disturbed: the chosen one is nearer to the best than by either ratio.

    On a drifting, a usual and a steady host.
    """
    searches = max(30, studies // 5)
    ours = regrets(by_fit(correlation), searches, host_sd, 0.05).mean()
    assert ours < 0.7 * regrets(by_control, searches, host_sd, 0.05).mean()
    assert ours < 0.7 * regrets(by_raw, searches, host_sd, 0.05).mean()


@pytest.mark.parametrize(("host_sd", "correlation"), [(0.15, 0.9), (0.0, 0.0)])
def test_selection_is_as_good_where_nothing_is_disturbed(
    host_sd: float, correlation: float, studies: int
) -> None:
    """Without disturbances it is no worse than the better of the two plain scores."""
    searches = max(30, studies // 5)
    ours = regrets(by_fit(correlation), searches, host_sd, 0.0).mean()
    plain = by_control if correlation > 0.5 else by_raw
    assert ours <= regrets(plain, searches, host_sd, 0.0).mean() + 0.002


def test_without_noise_the_truth_is_seen() -> None:
    """Effects and levels of an exact table with holes come out as they went in, hardly shrunk."""
    truth, levels = np.array([0.0, -0.3, 0.2, 0.5, -0.1]), np.array([4.0, 4.5, 3.8])
    y = truth[:, None] + levels
    y[1, 0] = y[2, 1] = y[3, 1:] = np.nan
    found = fit(y, sigma=0.001, correlation=0.9)
    assert found.effects == pytest.approx(truth, abs=1e-3)
    assert found.levels == pytest.approx(levels, abs=1e-3)
    assert found.disturbed == ()


def test_a_disturbed_baseline_does_not_flatter_its_block() -> None:
    """One start of the baseline 46 % slower: all of its block look a third faster, by the ratio.

    The fit finds the block and does not prefer its new candidates to those of other blocks.
    """
    rng = np.random.default_rng(3)
    y = np.full((21, 5), np.nan)
    y[0] = 4.0 + rng.normal(0, 0.02, 5)
    for block in range(5):
        y[1 + 4 * block : 5 + 4 * block, block] = 4.0 + rng.normal(0, 0.05, 4)
    y[0, 2] += 0.38
    flattered = slice(9, 13)
    assert by_control(y)[flattered].max() < -0.2
    found = fit(y, sigma=0.02, correlation=0.9)
    assert found.disturbed == (2,)
    assert abs(found.effects[flattered].mean()) < 0.08
    assert found.levels[2] == pytest.approx(4.0, abs=0.08)


def test_one_lucky_look_does_not_beat_five_good_ones() -> None:
    """A configuration seen once is shrunk towards the others, one seen five times hardly."""
    rng = np.random.default_rng(5)
    y = np.full((8, 6), np.nan)
    y[0] = rng.normal(0, SIGMA, 6)
    y[1] = rng.normal(-0.10, SIGMA / 5, 6)
    y[2, 5] = -0.12
    for arm in range(3, 8):
        y[arm, arm - 3] = rng.normal(0.0, SIGMA)
    assert by_raw(y)[2] < by_raw(y)[1]
    effects = fit(y, sigma=SIGMA, correlation=0.0).effects
    assert effects[1] < effects[2]


def test_the_unit_does_not_matter() -> None:
    """Microseconds or milliseconds: the effects are the same, the levels move along."""
    rng = np.random.default_rng(6)
    y = rng.normal(0, 0.1, (5, 4))
    one, other = (fit(y + c, sigma=SIGMA, correlation=0.3) for c in (0.0, np.log(1_000)))
    assert other.effects == pytest.approx(one.effects, abs=1e-9)
    assert other.levels == pytest.approx(one.levels + np.log(1_000), abs=1e-9)


def test_what_cannot_be_fitted_is_refused() -> None:
    """A block without its baseline, or noise that is none."""
    with pytest.raises(ValueError, match="every block must have one look at the baseline"):
        fit([[np.nan, 1.0], [1.0, 1.0]], sigma=SIGMA, correlation=0.5)
    with pytest.raises(ValueError, match="sigma must be positive but got 0"):
        fit([[1.0]], sigma=0, correlation=0.5)


def test_a_configuration_far_from_the_rest_keeps_its_figure() -> None:
    """In many searches a few settings together make the whole difference: one look in twenty."""
    rng = np.random.default_rng(7)
    values = np.full((21, 4), np.nan)
    values[0] = rng.normal(0.0, 0.05, 4)
    for row in range(1, 21):
        values[row, row % 4] = rng.normal(0.0, 0.1)
    values[13, 1] = -1.1
    found = fit(values, sigma=0.05, correlation=0.0)
    assert found.effects[13] == pytest.approx(-1.1, abs=0.15)
    assert not found.disturbed
