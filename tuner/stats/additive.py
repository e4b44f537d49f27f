"""Scores of the search from all arms at once: configuration + block, robust, shrunk.

In a block every candidate is compared with one start of the baseline. If that start was slow, all
candidates of the block look fast together, and the best of the search comes from the block with the
most unlucky baseline. The other arms correct this: those measured before have known figures, and
the new ones are unlikely to be all much faster than earlier proposals.
So the level of each block is estimated from all of its arms, in the two-way model

    y = configuration + block + noise

with the configurations drawn from a common spread (a mixed model: Searle, Casella and McCulloch,
Variance Components, 1992). Spread and noise are both Student's t with 3 degrees of freedom (Lange,
Little and Taylor, JASA 84, 1989): an arm that contradicts its other blocks by many standard
deviations loses its weight in them, whichever arm it is, and a configuration that stands far from
the rest says little of its block's level, but keeps its figure, since in many searches a few
settings together make the whole difference. The effects are shrunk towards the middle of the
search according to how often a configuration was measured, so that one lucky look does not beat
five good ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tuner.stats.noise import repeat_noise
from tuner.stats.paired import FloatArray
from tuner.stats.race import PAIRING_CORRELATION

DISTURBED = 4.0
"""Standard deviations between a baseline and its block's level from which the block is reported."""

_ITERATIONS = 25
_FREEDOM = 3.0
_LEAST_DEVIATIONS = 8


@dataclass(frozen=True, slots=True)
class AdditiveFit:
    """The joint fit of all blocks of a search."""

    effects: FloatArray
    """Effect of each configuration, ln units, shape (configurations,); row 0, the baseline, is
    0."""
    levels: FloatArray
    """Fitted figure of the baseline in each block, shape (blocks,)."""
    baseline_errors: FloatArray
    """Distance of the baseline from its level, standard deviations, shape (blocks,)."""

    @property
    def disturbed(self) -> tuple[int, ...]:
        """Indices of blocks whose baseline is contradicted by the other arms."""
        return tuple(int(i) for i in np.flatnonzero(np.abs(self.baseline_errors) > DISTURBED))


def fit(
    rows: npt.ArrayLike,
    columns: npt.ArrayLike,
    figures: npt.ArrayLike,
    *,
    configurations: int,
    sigma: float,
    correlation: float,
) -> AdditiveFit:
    """Fit configurations and blocks to the figures of a search.

    Time and memory grow with the number of looks, not with configurations times blocks.

    Args:
        rows: configuration of each look, shape (looks,); 0 is the baseline, which every block has.
        columns: block of each look, shape (looks,).
        figures: ln figure of each look, shape (looks,).
        configurations: their number with the baseline; some may have no look.
        sigma: noise of one instance in a block, ln units: sigma_d / sqrt(2) of the A/A blocks.
            Blocks of the search are shorter; where the looks at one configuration differ by more,
            that is the noise.
        correlation: of instances of one block, from the A/A blocks. Above 0.5 the block's level is
            free, and the baseline is a control; at or below it the level is held to the
            baseline's over all blocks as far as the correlation says, and the baseline of the block
            is little more than a sentinel.

    Raises:
        ValueError: there is no block, a block does not have one look at the baseline, a figure is
            not finite, or `sigma` is not positive.
    """
    row, column = np.asarray(rows, np.intp), np.asarray(columns, np.intp)
    y = np.asarray(figures, np.float64)
    own = row == 0
    blocks = int(column.max(initial=-1)) + 1
    if not blocks or not np.isfinite(y).all():
        raise ValueError(f"figures must be finite and at least one, but got {y}")
    if not np.array_equal(np.sort(column[own]), np.arange(blocks)):
        raise ValueError("every block must have one look at the baseline")
    if not sigma > 0:
        raise ValueError(f"sigma must be positive but got {sigma}")
    baseline = np.empty(blocks)
    baseline[column[own]] = y[own]
    looks = np.bincount(row, minlength=configurations)
    is_candidate = np.arange(configurations) > 0
    # An arm without measurements does not count; the baseline's own effect is free.
    candidates = is_candidate & (looks > 0)

    def by_row(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(row, values, configurations), np.float64)

    def by_column(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(column, values, blocks), np.float64)

    centre = float(np.median(baseline))
    means = by_row(y - (baseline - centre)[column]) / np.maximum(1, looks)
    spread, middle = _candidates(means[candidates], sigma)
    # Start where most arms of a block agree: the likelihood of t has several maxima, and the one at
    # the baseline's own figure is wrong if the baseline was disturbed.
    level = _medians(column, y - np.where(own, centre, middle))
    repeats = _groups(row[~own], (y - level[column])[~own])
    sigma = max(sigma, repeat_noise(repeats, _LEAST_DEVIATIONS))
    level_hold = _hold(sigma, correlation)
    weight = np.ones(len(y))
    # Start with the measured means, not the expected ones: a configuration far from the rest has
    # two maxima, "its look was disturbed" and "it differs", and the second is the right one.
    effects = by_row(y - level[column]) / np.maximum(1, looks)
    for _ in range(_ITERATIONS):
        cells = weight / sigma**2
        strange = ((effects - middle) / spread) ** 2
        hold = np.where(is_candidate, _t_weight(strange) / spread**2, 1e-9)
        known = by_row(cells) + hold
        pull = by_row(cells * (y - level[column])) + hold * np.where(is_candidate, middle, centre)
        effects = pull / known
        if candidates.any():
            middle = float(np.median(effects[candidates]))
        # The level that each arm implies for its block: its figure less its expectation from its
        # *other* blocks and the common spread.
        other = np.maximum(known[row] - cells, 1e-12)
        expected = (pull[row] - cells * (y - level[column])) / other
        doubt = sigma**2 + 1 / other
        says = y - expected
        trust = _t_weight((says - level[column]) ** 2 / doubt) / doubt
        level = by_column(trust * says) / (by_column(trust) + level_hold)
        weight = _t_weight(((y - effects[row] - level[column]) / sigma) ** 2)
    return AdditiveFit(
        effects=effects - effects[0],
        levels=level + effects[0],
        baseline_errors=(baseline - effects[0] - level) / sigma,
    )


def _groups(keys: npt.NDArray[np.intp], values: FloatArray) -> list[FloatArray]:
    """Return the values of each key."""
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order])) + 1
    return np.split(values[order], starts)


def _medians(keys: npt.NDArray[np.intp], values: FloatArray) -> FloatArray:
    """Return the median of each key's values; keys are 0, 1, ... without a gap."""
    ordered = values[np.lexsort((values, keys))]
    counts = np.bincount(keys)
    starts = np.cumsum(counts) - counts
    return np.asarray((ordered[starts + (counts - 1) // 2] + ordered[starts + counts // 2]) / 2)


def _t_weight(squares: FloatArray) -> FloatArray:
    return np.asarray((_FREEDOM + 1) / (_FREEDOM + squares))


def _hold(sigma: float, correlation: float) -> float:
    """Return the weight that ties a block's level to the others: 1 / its variance."""
    if correlation > PAIRING_CORRELATION:
        return 0.0
    share = max(correlation, 0.05)
    return (1 - share) / (share * sigma**2)


def _candidates(means: FloatArray, sigma: float) -> tuple[float, float]:
    """Return spread and middle of the configurations, from their first rough means."""
    if not len(means):
        return sigma, 0.0
    middle = float(np.median(means))
    width = 1.4826 * float(np.median(np.abs(means - middle)))
    # The rough means hold the noise too; configurations never spread less than that.
    return math.sqrt(max(width**2 - sigma**2, sigma**2)), middle
