"""Noise of a single figure, from repeated measurements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

_NORMAL = 1.4826
"""Standard deviation of a normal distribution whose median absolute deviation is 1."""


def repeat_noise(groups: Iterable[Sequence[float] | npt.NDArray[np.float64]], least: int) -> float:
    """Return the standard deviation of one figure, from groups of repeated figures.

    It comes from the median absolute deviation from the groups' means, which a disturbed figure
    does not move, corrected for the degree of freedom of each mean. Groups of one do not count.
    Return 0 with fewer than ``least`` deviations.
    """
    deviations = [
        np.abs(np.asarray(group) - np.mean(group)) * np.sqrt(len(group) / (len(group) - 1))
        for group in groups
        if len(group) > 1
    ]
    if sum(map(len, deviations)) < least:
        return 0.0
    return _NORMAL * float(np.median(np.concatenate(deviations)))
