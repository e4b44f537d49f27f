"""Levels of the arms of one block, without the effects of rounds: the median polish.

The difference to the baseline within a round cancels what disturbed the round, and adds the noise
of the baseline's window. A server near its limit is noisier, and the baseline often is: then the
median of the differences comes from the round with the baseline in the middle, and a candidate's
other windows do not count. All arms of a round estimate its effect better. The model of a block is

    y = arm + round + noise

by alternating medians (Tukey, Exploratory Data Analysis, 1977, chapter 11), which a few disturbed
windows, or a few arms at their limit, do not move.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tuner.stats.paired import FloatArray

_ITERATIONS = 10
_SETTLED = 1e-6


def arm_levels(values: npt.ArrayLike) -> FloatArray:
    """Return the level of each arm, up to a common constant.

    Args:
        values: ln figures, shape (arms, rounds), NaN where not measured; every arm and every round
            has at least one.

    Returns:
        Shape (arms,), in the units of ``values``.
    """
    y = np.asarray(values, dtype=np.float64)
    arms = _medians(y)
    for _ in range(_ITERATIONS):
        rounds = _medians((y - arms[:, None]).T)
        better = _medians(y - rounds)
        settled = float(np.max(np.abs(better - arms))) < _SETTLED
        arms = better
        if settled:
            break
    return np.asarray(arms)


def _medians(rows: FloatArray) -> FloatArray:
    """Return the median of each row without NaN; ``np.nanmedian`` takes ten times as long."""
    ordered = np.sort(rows, axis=1)
    counts = np.count_nonzero(~np.isnan(rows), axis=1)
    first, second = (
        np.take_along_axis(ordered, place[:, None], axis=1)[:, 0]
        for place in ((counts - 1) // 2, counts // 2)
    )
    return np.asarray((first + second) / 2)
