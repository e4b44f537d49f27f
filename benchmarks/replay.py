"""A recorded table as a world to search in: what any configuration would have measured, and when.

A configuration that is not in the table is taken for the nearest one that is, the same for every
searcher. A measured value is the configuration's true one (below) plus three kinds of noise, drawn
from the residuals of the table itself: of the minute (shared by all that is measured side by
side), of the fresh start, and of the window.

The truth of a row is its mean shrunk towards that of its neighbours, by as much as the noise of a
mean deserves (empirical Bayes; Efron and Morris 1975): the best of 400 noisy means would otherwise
be the luckiest row, which no search can know.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from benchmarks.table import Row, Table, Window
from tuner.configuration import Configuration, Value
from tuner.space import Parameter, Space

FloatArray = NDArray[np.float64]

DEPLOY_S = 1.5
"""One deployment with its first instance; the same for every searcher."""
EACH_S = 0.05
"""Every further instance of it."""
_NEIGHBOURS = 8


@dataclass(frozen=True)
class World:
    """A table, ready to be replayed."""

    table: Table
    space: Space

    @cached_property
    def truth(self) -> FloatArray:
        """True ln p99 of every row relative to the baseline's, shape (rows,)."""
        means = self._means
        distances = np.array([self._distances(point) for point in self._points])
        np.fill_diagonal(distances, np.inf)
        nearest = np.argsort(distances, axis=1)[:, :_NEIGHBOURS]
        around = means[nearest].mean(axis=1)
        spread = float(np.var(means - around))
        counts = np.array([len(row.windows) for row in self.table.rows])
        noise = float(np.var(self._deployment_residuals)) / np.maximum(1, counts / 2)
        weight = np.clip(1 - noise / spread, 0.0, 1.0) if spread else np.zeros(len(means))
        shrunk = around + weight * (means - around)
        shrunk[0] = means[0]
        return np.asarray(shrunk - shrunk[0])

    @cached_property
    def best(self) -> float:
        """The smallest truth."""
        return float(self.truth.min())

    def row(self, configuration: Configuration) -> int:
        """The row that stands for a configuration: the nearest."""
        return int(np.argmin(self._distances(self._point(configuration.values))))

    def is_near_best(self, row: int, within: float = 0.05) -> bool:
        """Whether a row's true p99 is at most so much above the best one's."""
        return bool(self.truth[row] <= self.best + math.log1p(within))

    # --- noise ------------------------------------------------------------------------------------

    @cached_property
    def _means(self) -> FloatArray:
        """Mean over a row's windows of ln p99, the deployments' own effects taken out."""
        return np.array(
            [
                np.mean([w.ln_p99_us - self._minutes[w.deployment] for w in row.windows])
                for row in self.table.rows
            ]
        )

    @cached_property
    def _minutes(self) -> dict[int, float]:
        """Effect of each deployment, from the rows that it holds, by their own means."""
        rough = {
            id(row): float(np.median([w.ln_p99_us for w in row.windows])) for row in self.table.rows
        }
        found: dict[int, list[float]] = {}
        for row in self.table.rows:
            for window in row.windows:
                found.setdefault(window.deployment, []).append(window.ln_p99_us - rough[id(row)])
        return {deployment: float(np.median(values)) for deployment, values in found.items()}

    @cached_property
    def minute_residuals(self) -> FloatArray:
        """What all instances of a deployment share."""
        values = np.array(list(self._minutes.values()))
        return np.asarray(values - values.mean())

    @cached_property
    def _deployment_residuals(self) -> FloatArray:
        """Of every row and deployment: its mean less the row's and the minute's."""
        found = []
        for place, row in enumerate(self.table.rows):
            for windows in by_deployment(row):
                values = [w.ln_p99_us - self._minutes[w.deployment] for w in windows]
                found.append(float(np.mean(values)) - self._means[place])
        return np.array(found)

    @cached_property
    def window_residuals(self) -> FloatArray:
        """Of every window: its value less its deployment's mean, with n - 1 made good."""
        found: list[float] = []
        for row in self.table.rows:
            for windows in by_deployment(row):
                values = np.array([w.ln_p99_us for w in windows])
                if len(values) > 1:
                    scale = math.sqrt(len(values) / (len(values) - 1))
                    found.extend((values - values.mean()) * scale)
        return np.array(found)

    @cached_property
    def start_residuals(self) -> FloatArray:
        """Of every fresh start: deployment residuals without what their windows add to them."""
        total = float(np.var(self._deployment_residuals))
        of_windows = float(np.var(self.window_residuals)) / 2
        # A row's own mean took part of the residual away: three deployments leave two thirds.
        true = max(0.0, total * 1.5 - of_windows)
        return np.asarray(self._deployment_residuals * math.sqrt(true / total if total else 0.0))

    # --- distances --------------------------------------------------------------------------------

    @cached_property
    def _points(self) -> list[list[float | str | None]]:
        return [self._point(row.values) for row in self.table.rows]

    def _point(self, values: Mapping[str, Value]) -> list[float | str | None]:
        return [_coordinate(p, values.get(p.name)) for p in self.space.searched()]

    def _distances(self, point: Sequence[float | str | None]) -> FloatArray:
        return np.array(
            [sum(_apart(a, b) for a, b in zip(point, other, strict=True)) for other in self._points]
        )


def by_deployment(row: Row) -> list[list[Window]]:
    """A row's windows, deployment by deployment."""
    found: dict[int, list[Window]] = {}
    for window in row.windows:
        found.setdefault(window.deployment, []).append(window)
    return list(found.values())


def _coordinate(parameter: Parameter, value: Value | None) -> float | str | None:
    """Where a value stands in its parameter's range, 0 to 1; its name if it is none of it."""
    if value is None:
        return None
    if parameter.kind in {"boolean", "choice"} or value in parameter.special:
        return str(value)
    ends = (parameter.low, parameter.high, float(value))
    low, high, here = map(math.log, ends) if parameter.log else ends
    return (here - low) / (high - low) if high > low else 0.0


def _apart(first: float | str | None, second: float | str | None) -> float:
    """Distance of two coordinates: 1 where they are not of the same kind."""
    if isinstance(first, float) and isinstance(second, float):
        return abs(first - second)
    return float(first != second)
