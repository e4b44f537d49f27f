"""A recorded table as a world for searches: a figure for any configuration at any time.

A configuration outside the table has the figures of the nearest row, for every searcher. A measured
value is the configuration's true one (below) plus three kinds of noise, drawn from the residuals of
the table: of the minute (shared by all instances of a deployment), of the fresh start, and of the
window.

The truth of a row is its mean, shrunk towards the mean of its neighbours by the share of noise in
it (empirical Bayes; Efron and Morris 1975). Otherwise the best of 400 noisy means would be the
luckiest row, which no search can know.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.table import WINDOW, Row, Table, Window, load
from tuner.space.configuration import Configuration, Value
from tuner.space.space import Parameter, Space, load_space
from tuner.workload.workload import load_workload

FloatArray = NDArray[np.float64]

DEPLOY_S = 1.5
"""One deployment with its first instance; the same for every searcher."""
EACH_S = 0.05
"""Every further instance of it."""
_NUMBER = "a number"
"""Name of a number within its range, where names are compared; no choice has a space in it."""
_NEIGHBOURS = 8
_BAND = 40
"""Number of rows whose residuals form the noise of one row."""
_BURST = 0.3
"""Residual, ln units, above which a disturbance of the host and not a start is the cause."""


@dataclass(frozen=True)
class World:
    """A table, ready to be replayed."""

    table: Table
    space: Space
    noise: float = 1.0
    """Size of all noise, as a share of the table's."""

    @cached_property
    def truth(self) -> FloatArray:
        """True ln p99 of every row relative to the baseline's, shape (rows,)."""
        levels = self._levels
        distances = np.array([self._distances(row.values) for row in self.table.rows])
        np.fill_diagonal(distances, np.inf)
        nearest = np.argsort(distances, axis=1)[:, :_NEIGHBOURS]
        around = np.median(levels[nearest], axis=1)
        spread = _variance(levels - around)
        counts = np.array([len(row.windows) for row in self.table.rows])
        # A median's variance is about pi / 2 times that of a mean (for a normal distribution).
        noise = math.pi / 2 * _variance(np.concatenate(self._residuals)) / np.maximum(1, counts)
        weight = np.clip(1 - noise / spread, 0.0, 1.0) if spread else np.zeros(len(levels))
        shrunk = around + weight * (levels - around)
        shrunk[0] = levels[0]
        return np.asarray(shrunk - shrunk[0])

    @cached_property
    def best(self) -> float:
        """Smallest true value."""
        return float(self.truth.min())

    def row(self, configuration: Configuration) -> int:
        """Return the row that is nearest to a configuration."""
        return int(np.argmin(self._distances(configuration.values)))

    def is_near_best(self, row: int, within: float = 0.05) -> bool:
        """Return whether a row's true p99 exceeds the best one's by at most this share."""
        return bool(self.truth[row] <= self.best + math.log1p(within))

    # --- noise ------------------------------------------------------------------------------------

    def window_noise(self, rng: np.random.Generator, row: int, window_s: float) -> float:
        """Return noise of one window of any length, ln units, drawn from rows like this one.

        A longer window is the mean of several recorded ones; a shorter one is noisier by the
        square root of the ratio. (A burst affects the p99 of a long window more than that.)
        """
        count = max(1, round(window_s / WINDOW.window_s))
        shorter = max(1.0, WINDOW.window_s / window_s)
        drawn = rng.choice(self._like[row], count).mean() * math.sqrt(shorter)
        return float(self.noise * drawn)

    @cached_property
    def minute_residuals(self) -> FloatArray:
        """Noise that all instances of a deployment share."""
        values = np.array(list(self._minutes.values()))
        return np.asarray(self.noise * (values - values.mean()))

    @cached_property
    def start_sd(self) -> float:
        """Standard deviation of a fresh start, which the windows of one deployment share.

        Estimated from the covariance of pairs, clipped where bursts begin; 0 if it is negative.
        """
        products = []
        for place, row in enumerate(self.table.rows):
            for windows in by_deployment(row):
                values = self._adjusted(windows) - self._levels[place]
                if len(values) > 1:
                    clipped = np.clip(values, -_BURST, _BURST)
                    products.append(float(clipped[0] * clipped[1]))
        return self.noise * math.sqrt(max(0.0, float(np.mean(products)))) if products else 0.0

    @cached_property
    def window_sd(self) -> float:
        """Standard deviation of the baseline's windows, without bursts."""
        return self.noise * math.sqrt(_variance(self._like[0]))

    @cached_property
    def _levels(self) -> FloatArray:
        """Median ln p99 of each row's windows, less the effects of their deployments."""
        return np.array([np.median(self._adjusted(row.windows)) for row in self.table.rows])

    def _adjusted(self, windows: Sequence[Window]) -> FloatArray:
        """Return ln p99 of windows, less the effects of their deployments."""
        return np.array([w.ln_p99_us - self._minutes[w.deployment] for w in windows])

    @cached_property
    def _minutes(self) -> dict[int, float]:
        """Effect of each deployment, from its rows and their medians."""
        found: dict[int, list[float]] = {}
        for row in self.table.rows:
            level = float(np.median([w.ln_p99_us for w in row.windows]))
            for window in row.windows:
                found.setdefault(window.deployment, []).append(window.ln_p99_us - level)
        return {deployment: float(np.median(values)) for deployment, values in found.items()}

    @cached_property
    def _residuals(self) -> list[FloatArray]:
        """Windows of every row less the row's level, scaled up for n - 1 degrees of freedom."""
        found = []
        for place, row in enumerate(self.table.rows):
            values = self._adjusted(row.windows)
            scale = math.sqrt(len(values) / max(1, len(values) - 1))
            found.append((values - self._levels[place]) * scale)
        return found

    @cached_property
    def _like(self) -> list[FloatArray]:
        """Residuals of the rows whose level is nearest to each row's own.

        A server at its limit is noisier than others, so the noise depends on the level.
        """
        order = np.argsort(self._levels)
        found: list[FloatArray] = [np.empty(0)] * len(order)
        for place, row in enumerate(order):
            first = max(0, min(place - _BAND // 2, len(order) - _BAND))
            band = order[first : first + _BAND]
            found[row] = np.concatenate([self._residuals[other] for other in band])
        return found

    # --- distances --------------------------------------------------------------------------------

    @cached_property
    def _points(self) -> tuple[FloatArray, NDArray[np.object_]]:
        """Places and names from ``_point`` for every row; shapes (rows, parameters)."""
        shares, names = zip(*(self._point(row.values) for row in self.table.rows), strict=True)
        return np.array(shares), np.array(names, dtype=object)

    def _point(self, values: Mapping[str, Value]) -> tuple[list[float], list[str | None]]:
        """Return by parameter the place of its value in its range, and its name if it has none."""
        found = [_coordinate(p, values.get(p.name)) for p in self.space.searched()]
        shares = [share if isinstance(share, float) else 0.0 for share in found]
        names = [_NUMBER if isinstance(name, float) else name for name in found]
        return shares, names

    def _distances(self, values: Mapping[str, Value]) -> FloatArray:
        """Return distances to every row: over the parameters, of places, 1 where names differ."""
        shares, names = self._points
        share, name = self._point(values)
        alike = names == np.array(name, dtype=object)
        return np.asarray(np.where(alike, np.abs(shares - np.array(share)), 1.0).sum(axis=1))


def draw(rng: np.random.Generator, values: FloatArray) -> float:
    """Return one of the values."""
    return float(values[rng.integers(len(values))])


def world_of(path: Path) -> World:
    """Return the world of a recorded table."""
    table = load(path)
    connections = load_workload(table.workload).connections
    space = load_space(
        f"nginx/{table.workload}",
        server_cores=1,
        connections=connections,
        memory_bytes=8 << 30,
        server_version=(1, 22, 1),
        modules=(),
    )
    return World(table, space)


def by_deployment(row: Row) -> list[list[Window]]:
    """Return a row's windows, deployment by deployment."""
    found: dict[int, list[Window]] = {}
    for window in row.windows:
        found.setdefault(window.deployment, []).append(window)
    return list(found.values())


def _coordinate(parameter: Parameter, value: Value | None) -> float | str | None:
    """Return a value's place in its parameter's range, 0 to 1; its name if it is outside of it."""
    if value is None:
        return None
    if parameter.kind in {"boolean", "choice"} or value in parameter.special:
        return str(value)
    ends = (parameter.low, parameter.high, float(value))
    low, high, here = map(math.log, ends) if parameter.log else ends
    return (here - low) / (high - low) if high > low else 0.0


def _variance(values: FloatArray) -> float:
    """Return a variance that is robust to bursts, from the median absolute deviation."""
    return (1.4826 * float(np.median(np.abs(values - np.median(values))))) ** 2
