"""A Gaussian process that predicts figures of configurations from those of similar ones.

A look is noisy and a search has few of them, but each carries information about all configurations
with common settings. The model is that of Kriging (Rasmussen and
Williams, Gaussian Processes for Machine Learning, 2006):

    figure = f(configuration) + own + noise,   cov f(a), f(b) = s² exp(-sum of weight x distance)

with one weight for each parameter, so that a parameter that changes nothing separates nothing
(automatic relevance determination), and an own effect of each configuration for the remainder.
The kernel with plain distances is the Matérn one of order 1/2 in each parameter, which suits
settings that are choices as well as numbers. Weights, s² and the own effects' variance are the most
probable ones under wide priors; the noise of a look is known from repeated looks, up to a factor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import linalg, optimize

from tuner.stats.paired import FloatArray

_WEIGHT = (math.log(0.5), 1.5)
"""Mean and standard deviation of the prior of a weight's logarithm: the middle is a correlation of
exp(-0.5) between the ends of a parameter's range."""
_OWN_SD = 0.03
"""Standard deviation of own effects, ln units, within a factor of e^0.5."""
_NOISE_LOG_SD = 0.5
"""Uncertainty of the noise's variance: standard deviation of its logarithm."""
_GUESSED_NOISE_LOG_SD = 2.0
"""The same if the noise is a guess."""
_ITERATIONS = 40
_FAR = 20.0
"""Standard deviations of the prior from which no logarithm is tried: the optimizer's line search
takes steps of any length, and exponentials overflow."""


@dataclass(frozen=True, slots=True)
class Surrogate:
    """A fitted model; see ``fit``."""

    weights: FloatArray
    """Weight of each parameter, per unit of distance."""
    spread: float
    """Variance of f."""
    own: float
    """Variance of own effects."""
    middle: float
    _solved: FloatArray
    """Inverse covariance of the figures, times their deviations from the middle."""
    _factor: FloatArray
    """Lower Cholesky factor of that covariance."""

    def posterior(self, across: FloatArray, among: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and covariance of the values of unmeasured configurations.

        Args:
            across: their distances to the measured ones, shape (new, measured, parameters).
            among: their distances to each other, shape (new, new, parameters).
        """
        shared = self.spread * np.exp(-(across @ self.weights))
        mean = self.middle + shared @ self._solved
        explained = linalg.solve_triangular(self._factor, shared.T, lower=True)
        prior = self.spread * np.exp(-(among @ self.weights)) + self.own * np.eye(len(among))
        return mean, np.asarray(prior - explained.T @ explained)

    def draws(
        self, across: FloatArray, among: FloatArray, count: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw from the posterior of the values, shape (count, new)."""
        mean, covariance = self.posterior(across, among)
        # Rounding leaves eigenvalues just below 0.
        covariance = covariance + 1e-9 * self.spread * np.eye(len(mean))
        values, vectors = linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return np.asarray(mean + rng.standard_normal((count, len(mean))) @ root.T)


def fit(
    distances: FloatArray,
    values: npt.ArrayLike,
    variances: npt.ArrayLike,
    *,
    guessed: bool = False,
) -> Surrogate:
    """Fit the model to measured figures.

    Args:
        distances: of the configurations to each other, by parameter, 0 to 1, shape (n, n, p).
        values: their figures, ln units, shape (n,).
        variances: of the noise of each figure, shape (n,).
        guessed: whether the variances are a guess, which the figures may correct by a lot.

    Raises:
        ValueError: the shapes do not match, or there are no figures.
    """
    y, noise = np.asarray(values, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    if not len(y) or distances.shape[:2] != (len(y), len(y)) or noise.shape != y.shape:
        raise ValueError(
            f"shapes must be (n, n, p), (n,) and (n,) but are {distances.shape}, {y.shape} and"
            f" {noise.shape}"
        )
    parameters = distances.shape[2]
    middle = float(np.median(y))
    deviations = y - middle
    flat = np.ascontiguousarray(np.moveaxis(distances, 2, 0)).reshape(parameters, -1)
    start = np.array(
        [*[_WEIGHT[0]] * parameters, 2 * math.log(max(1e-3, y.std())), 2 * math.log(_OWN_SD), 0.0]
    )
    noise_log_sd = _GUESSED_NOISE_LOG_SD if guessed else _NOISE_LOG_SD
    widths = np.array([*[_WEIGHT[1]] * parameters, 1.0, 1.0, noise_log_sd])

    def covariance(logs: FloatArray) -> tuple[FloatArray, FloatArray]:
        weights, (spread, own, factor) = np.exp(logs[:parameters]), np.exp(logs[parameters:])
        shared = spread * np.exp(-(weights @ flat)).reshape(len(y), len(y))
        return shared, shared + np.diag(own + factor * noise)

    def loss(logs: FloatArray) -> tuple[float, FloatArray]:
        """Negative log posterior density of the logarithms, and its gradient."""
        off = (logs - start) / widths
        if np.abs(off).max() > _FAR:
            return 1e10, np.zeros_like(logs)
        shared, whole = covariance(logs)
        try:
            lower = linalg.cholesky(whole, lower=True)
        except linalg.LinAlgError:
            return 1e10, np.zeros_like(logs)
        solved = linalg.cho_solve((lower, True), deviations)
        slope = linalg.cho_solve((lower, True), np.eye(len(y))) - np.outer(solved, solved)
        by_pair = (slope * shared).ravel()
        own, factor = np.exp(logs[parameters + 1 :])
        gradient = 0.5 * np.array(
            [
                *(-(flat @ by_pair) * np.exp(logs[:parameters])),
                by_pair.sum(),
                np.trace(slope) * own,
                (np.diag(slope) * noise).sum() * factor,
            ]
        )
        density = 0.5 * deviations @ solved + np.log(np.diag(lower)).sum() + 0.5 * off @ off
        return float(density), gradient + off / widths

    found = optimize.minimize(
        loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _ITERATIONS}
    ).x
    lower = linalg.cholesky(covariance(found)[1], lower=True)
    spread, own, _ = np.exp(found[parameters:])
    return Surrogate(
        weights=np.exp(found[:parameters]),
        spread=float(spread),
        own=float(own),
        middle=middle,
        _solved=linalg.cho_solve((lower, True), deviations),
        _factor=lower,
    )
