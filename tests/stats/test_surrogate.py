"""Tests of the surrogate: near configurations inform most, and only by what matters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from tests import seeds
from tuner.stats.paired import FloatArray
from tuner.stats.surrogate import Surrogate, fit

NOISE = 0.1
PARAMETERS = 4


def apart(some: FloatArray, others: FloatArray) -> FloatArray:
    """Distances by parameter."""
    return np.abs(some[:, None] - others[None, :])


def truth(points: FloatArray) -> FloatArray:
    """Return a choice that decides much, a range that decides some, and two that decide nothing."""
    return np.asarray(-0.8 * (points[:, 0] > 0.5) + 0.4 * points[:, 1])


def points(rng: np.random.Generator, count: int) -> FloatArray:
    """Configurations; the first parameter has two values."""
    found = rng.uniform(0, 1, (count, PARAMETERS))
    found[:, 0] = np.round(found[:, 0])
    return found


def fitted(rng: np.random.Generator, count: int) -> tuple[Surrogate, FloatArray]:
    """Return the model of `count` noisy looks, and the configurations."""
    measured = points(rng, count)
    looks = truth(measured) + rng.normal(0, NOISE, count)
    return fit(apart(measured, measured), looks, np.full(count, NOISE**2)), measured


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1))
def test_what_was_not_measured_is_known_better_than_a_single_look_would_show(seed: int) -> None:
    """Fifty looks at others say more of a configuration than one at itself."""
    rng = seeds.rng(seed)
    surrogate, measured = fitted(rng, 50)
    new = points(rng, 60)
    mean, _ = surrogate.posterior(apart(new, measured), apart(new, new))
    assert np.sqrt(np.mean((mean - truth(new)) ** 2)) < NOISE


def test_what_changes_nothing_separates_nothing() -> None:
    """A parameter's weight is learnt."""
    surrogate, _ = fitted(seeds.rng(1), 80)
    assert surrogate.weights[0] > 3 * max(surrogate.weights[2:])


def test_its_doubts_are_as_large_as_its_errors() -> None:
    """Values lie within two standard deviations about as often as a normal distribution has it."""
    rng = seeds.rng(2)
    inside = []
    for _ in range(10):
        surrogate, measured = fitted(rng, 30)
        new = points(rng, 40)
        mean, covariance = surrogate.posterior(apart(new, measured), apart(new, new))
        inside.append(np.abs(mean - truth(new)) < 2 * np.sqrt(np.diag(covariance)))
    assert np.mean(inside) > 0.85


def test_draws_have_the_posteriors_mean_and_spread() -> None:
    """Together too: neighbours go up and down together."""
    rng = seeds.rng(3)
    surrogate, measured = fitted(rng, 20)
    new = points(rng, 5)
    across, among = apart(new, measured), apart(new, new)
    mean, covariance = surrogate.posterior(across, among)
    draws = surrogate.draws(across, among, 20_000, rng)
    assert draws.mean(axis=0) == pytest.approx(mean, abs=0.02)
    assert np.cov(draws.T) == pytest.approx(covariance, abs=0.1 * covariance.max())


def test_what_nobody_has_looked_at_may_be_the_best_and_what_never_helped_is_not() -> None:
    """One draw's best lies often in a branch without a look, and seldom in one seen to be bad."""
    rng = seeds.rng(4)
    new = points(rng, 40)
    new[:, 0] = np.arange(40) % 2

    def chosen_ones(measured: FloatArray) -> float:
        # The branch 1 is the bad one here.
        looks = -truth(measured) + rng.normal(0, NOISE, len(measured))
        surrogate = fit(apart(measured, measured), looks, np.full(len(measured), NOISE**2))
        draws = surrogate.draws(apart(new, measured), apart(new, new), 1_000, rng)
        return float(np.mean(new[draws.argmin(axis=1), 0]))

    both = points(rng, 24)
    without = both.copy()
    without[:, 0] = 0.0
    assert chosen_ones(without) > 0.2
    assert chosen_ones(both) < 0.05


def test_shapes_must_fit() -> None:
    """The message says what is wanted and what was given."""
    with pytest.raises(ValueError, match=r"\(n, n, p\), \(n,\) and \(n,\) but are \(2, 2, 1\)"):
        fit(np.zeros((2, 2, 1)), [1.0], [1.0])


@pytest.mark.parametrize("step", [60.0, 1e3, -1e3, 1e6])
def test_a_step_of_the_optimizer_may_be_of_any_length(
    step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One search in two hundred ended where exponentials overflow."""
    minimize = optimize.minimize

    def after_a_leap(loss: Any, start: FloatArray, **options: Any) -> Any:
        value, gradient = loss(start + step)
        assert value >= 1e10
        assert np.isfinite(gradient).all()
        return minimize(loss, start, **options)

    monkeypatch.setattr(optimize, "minimize", after_a_leap)
    surrogate, _ = fitted(seeds.rng(1), 20)
    assert np.isfinite(surrogate.weights).all()
