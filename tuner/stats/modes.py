"""A test for two kinds of starts among the differences of blocks."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tuner.stats.diagnostics import ALARM_LEVEL, Diagnostic
from tuner.stats.paired import FloatArray, checked
from tuner.stats.words import counted, p_in_words

_FEWEST = 6
_SMALLEST_GROUP = 2
"""A single block is an outlier and not a mode."""
_DRAWS = 4_999
_MOST_DRAWN = 2_000_000
_SEED = 20_061


def two_modes(differences: npt.ArrayLike) -> Diagnostic:
    """Test whether the starts of an arm settle on two levels.

    `differences` holds d of each block, shape (blocks,). The differences are split in two groups of
    two blocks or more, so that the sum of squares between the groups is largest in proportion to
    the one within them (Engelman and Hartigan, Percentage points of a test for clusters, Journal of
    the American Statistical Association 64, 1969). p comes from normal samples of the same size.
    The figure is the share of blocks in the smaller group.
    """
    d = np.sort(checked(differences))
    if d.size < _FEWEST or np.ptp(d) == 0:
        return Diagnostic("two-modes", math.nan, raised=False, message="modes: not enough data")
    ratios = _ratios(d[None, :])[0]
    null = _null(d.size)
    beyond = np.count_nonzero(null >= ratios.max() - 1e-12)
    p_value = (1 + int(beyond)) / (1 + null.size)
    lower = int(ratios.argmax()) + _SMALLEST_GROUP
    small, large = (d[:lower], d[lower:]) if 2 * lower <= d.size else (d[lower:], d[:lower])
    share = small.size / d.size
    if p_value > ALARM_LEVEL:
        message = f"the blocks show one kind of starts ({p_in_words(p_value)} of a single mode)"
        return Diagnostic("two-modes", share, raised=False, message=message)
    return Diagnostic(
        "two-modes",
        share,
        raised=True,
        message=(
            f"in {small.size} of {counted(d.size, 'block')} the ratio is about"
            f" {math.exp(float(np.median(small))):.3f}, in the others about"
            f" {math.exp(float(np.median(large))):.3f} ({p_in_words(p_value)} of a single mode):"
            " starts of an arm settle on two levels. The verdict is about the typical start; look"
            " for what differs between starts, such as how connections spread over workers"
        ),
    )


def _ratios(values: FloatArray) -> FloatArray:
    """Return sum of squares between the groups by the one within, for every split of sorted rows.

    ``values`` has shape (samples, n); the k-th column is the split after ``k + 2`` values.
    """
    n = values.shape[1]
    centred = values - values.mean(axis=1, keepdims=True)
    total = (centred**2).sum(axis=1, keepdims=True)
    sizes = np.arange(_SMALLEST_GROUP, n - _SMALLEST_GROUP + 1)
    # Means of the groups are s/k and -s/(n-k), where s is the sum of the first k values.
    sums = np.cumsum(centred, axis=1)[:, sizes - 1]
    between = sums**2 * n / (sizes * (n - sizes))
    within = np.maximum(total - between, 0.0)
    found = np.divide(between, within, out=np.full_like(between, np.inf), where=within > 0)
    return np.asarray(found)


@lru_cache(maxsize=16)
def _null(n: int) -> FloatArray:
    draws = max(199, min(_DRAWS, _MOST_DRAWN // n))
    sample = np.random.default_rng(_SEED).normal(size=(draws, n))
    return np.asarray(_ratios(np.sort(sample, axis=1)).max(axis=1))
