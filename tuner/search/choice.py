"""The choice among drawn configurations, in tuner's own search and in ``TunerSampler``.

Both draw many more configurations than they propose, near the best ones and at random, and a
surrogate of all figures so far chooses from them (``tuner.stats.surrogate``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tuner.stats.paired import FloatArray

FIRST = 8
"""Trials before a model chooses: one block."""
POOL = 20
"""Draws for each proposal, among which the surrogate chooses."""
NEAR = 0.5
"""Share that varies one of the best ``CENTRES``, each parameter with probability ``CHANGED``:
where the best ones differ by less than the noise of a look, TPE repeats itself."""
CENTRES = 3
CHANGED = 0.25
_MOST_MODELLED = 200
"""Most trials that the surrogate is fitted to, half the best and half the latest; its cost is
cubic."""
_LOOK_SEES = 2.0
"""Standard deviations of a look that count as a visible difference."""


def modelled(figures: Sequence[float]) -> list[int]:
    """Return the places of the best and of the latest trials, at most ``_MOST_MODELLED``.

    Args:
        figures: figure of each trial, smaller is better; NaN if infeasible.
    """
    if len(figures) < _MOST_MODELLED:
        return list(range(len(figures)))
    latest = len(figures) - _MOST_MODELLED // 2
    known = [place for place in range(latest) if np.isfinite(figures[place])]
    best = sorted(known, key=lambda place: figures[place])[: _MOST_MODELLED // 2]
    return [*best, *range(latest, len(figures))]


def with_infeasible(figures: Sequence[float], noise: float) -> FloatArray:
    """Return the figures; an infeasible one counts as visibly worse than the worst feasible.

    Args:
        figures: figure of each trial; NaN if infeasible.
        noise: standard deviation of a single look, in the figures' unit.
    """
    worst = float(np.nanmax(figures, initial=0.0))
    return np.nan_to_num(figures, nan=worst + _LOOK_SEES * noise)


def best_by_draws(
    measured: FloatArray,
    values: FloatArray,
    variances: FloatArray,
    across: FloatArray,
    among: FloatArray,
    *,
    count: int,
    rng: np.random.Generator,
    guessed: bool = False,
) -> list[int]:
    """Return the places of the best drawn configurations, each by one draw from the posterior.

    Args:
        measured: distances of the measured configurations to each other, by parameter.
        values: their figures, shape (measured,).
        variances: of the noise of each figure, shape (measured,).
        across: distances of the drawn configurations to the measured ones.
        among: distances of the drawn configurations to each other.
        count: number of places.
        rng: source of the draws.
        guessed: whether the variances are a guess.
    """
    # It needs SciPy's optimizers, whose import would delay every command's first word.
    from tuner.stats.surrogate import fit

    fitted = fit(measured, values, variances, guessed=guessed)
    places: list[int] = []
    for draw in fitted.draws(across, among, count, rng):
        places.append(next(int(place) for place in np.argsort(draw) if place not in places))
    return places
