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


def fit(values: npt.ArrayLike, *, sigma: float, correlation: float) -> AdditiveFit:
    """Fit configurations and blocks to the figures of a search.

    Args:
        values: ln figures, shape (configurations, blocks), NaN where not measured; row 0 is the
            baseline's, which every block has.
        sigma: noise of one instance in a block, ln units: sigma_d / sqrt(2) of the A/A blocks.
            Blocks of the search are shorter; where the looks at one configuration differ by more,
            that is the noise.
        correlation: of instances of one block, from the A/A blocks. Above 0.5 the block's level is
            free, and the baseline is a control; at or below it the level is held to the
            baseline's over all blocks as far as the correlation says, and the baseline of the block
            is little more than a sentinel.

    Raises:
        ValueError: there is no block, a block lacks its baseline, or `sigma` is not positive.
    """
    y = np.asarray(values, dtype=np.float64)
    if y.ndim != 2 or y.size == 0 or not np.isfinite(y[0]).all():
        raise ValueError(
            "values must have shape (configurations, blocks) with the baseline in every block "
            f"but got shape {y.shape}"
        )
    if not sigma > 0:
        raise ValueError(f"sigma must be positive but got {sigma}")
    there = np.isfinite(y)
    y = np.where(there, y, 0.0)
    centre = float(np.median(y[0]))
    level = y[0] - centre
    # An arm without measurements does not count; the baseline's own effect is free.
    candidates = there.any(axis=1) & (np.arange(len(y)) > 0)
    spread, middle = _candidates(y, there, level, candidates, sigma)
    # Start where most arms of a block agree: the likelihood of t has several maxima, and the one at
    # the baseline's own figure is wrong if the baseline was disturbed.
    rough = np.where(there, y - np.where(np.arange(len(y)) > 0, middle, centre)[:, None], np.nan)
    level = np.nanmedian(rough, axis=0)
    looks = [(y - level)[row][there[row]] for row in np.flatnonzero(candidates)]
    sigma = max(sigma, repeat_noise(looks, _LEAST_DEVIATIONS))
    level_hold = _hold(sigma, correlation)
    weight = there.astype(np.float64)
    # Start with the measured means, not the expected ones: a configuration far from the rest has
    # two maxima, "its look was disturbed" and "it differs", and the second is the right one.
    effects = np.where(there, y - level, 0.0).sum(axis=1) / np.maximum(1, there.sum(axis=1))
    for _ in range(_ITERATIONS):
        cells = weight / sigma**2
        strange = ((effects - middle) / spread) ** 2
        hold = np.where(np.arange(len(y)) > 0, _t_weight(strange) / spread**2, 1e-9)[:, None]
        prior = np.where(np.arange(len(y)) > 0, middle, centre)[:, None]
        known = cells.sum(axis=1, keepdims=True) + hold
        pull = (cells * (y - level)).sum(axis=1, keepdims=True) + hold * prior
        effects = (pull / known)[:, 0]
        if candidates.any():
            middle = float(np.median(effects[candidates]))
        # The level that each arm implies for its block: its figure less its expectation from its
        # *other* blocks and the common spread.
        other = np.maximum(known - cells, 1e-12)
        expected = (pull - cells * (y - level)) / other
        doubt = sigma**2 + 1 / other
        says = y - expected
        trust = there * _t_weight((says - level) ** 2 / doubt) / doubt
        level = (trust * says).sum(axis=0) / (trust.sum(axis=0) + level_hold)
        weight = there * _t_weight(((y - effects[:, None] - level) / sigma) ** 2)
    return AdditiveFit(
        effects=effects - effects[0],
        levels=level + effects[0],
        baseline_errors=(y[0] - effects[0] - level) / sigma,
    )


def _t_weight(squares: FloatArray) -> FloatArray:
    return np.asarray((_FREEDOM + 1) / (_FREEDOM + squares))


def _hold(sigma: float, correlation: float) -> float:
    """Return the weight that ties a block's level to the others: 1 / its variance."""
    if correlation > PAIRING_CORRELATION:
        return 0.0
    share = max(correlation, 0.05)
    return (1 - share) / (share * sigma**2)


def _candidates(
    y: FloatArray,
    there: npt.NDArray[np.bool_],
    level: FloatArray,
    candidates: npt.NDArray[np.bool_],
    sigma: float,
) -> tuple[float, float]:
    """Return spread and middle of the configurations, from their first rough means."""
    if not candidates.any():
        return sigma, 0.0
    sums = np.where(there, y - level, 0.0).sum(axis=1)[candidates]
    means = sums / there.sum(axis=1)[candidates]
    middle = float(np.median(means))
    width = 1.4826 * float(np.median(np.abs(means - middle)))
    # The rough means hold the noise too; configurations never spread less than that.
    return math.sqrt(max(width**2 - sigma**2, sigma**2)), middle
