"""Isotonic regression: the non-decreasing function nearest to noisy points.

Pooling adjacent violators (Barlow, Bartholomew, Bremner and Brunk, Statistical Inference under
Order Restrictions, 1972), as SciPy has it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Pool:
    """Neighbouring points that share one fitted value."""

    x: tuple[float, ...]
    """The distinct positions, rising."""
    mean_x: float
    """Mean position of all points."""
    y: float
    """Fitted value: the mean of all points."""


def isotonic(points: Iterable[tuple[float, float]]) -> list[Pool]:
    """Return the fit to (x, y) points as pools with rising x and y.

    Points at the same x are one point with their weight, in any order.
    """
    # Half of the time that a command needs to start would go into importing it.
    from scipy.optimize import isotonic_regression

    at: dict[float, list[float]] = {}
    for x, y in points:
        at.setdefault(x, []).append(y)
    if not at:
        return []
    xs = sorted(at)
    weights = [len(at[x]) for x in xs]
    fit = isotonic_regression([math.fsum(at[x]) / len(at[x]) for x in xs], weights=weights)
    return [
        Pool(
            x=tuple(xs[begin:end]),
            mean_x=sum(x * len(at[x]) for x in xs[begin:end]) / sum(weights[begin:end]),
            y=float(fit.x[begin]),
        )
        for begin, end in pairwise(fit.blocks.tolist())
    ]
