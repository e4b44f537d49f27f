"""Noise of a single figure, from what was measured several times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

_NORMAL = 1.4826
"""Standard deviation of a normal distribution whose median absolute deviation is 1."""


def repeat_noise(groups: Iterable[Sequence[float] | npt.NDArray[np.float64]], least: int) -> float:
    """Return the standard deviation of one figure, from groups of figures of the same thing each.

    From the median absolute deviation from the groups' means, which a disturbed figure does not
    move, with the degree of freedom that each mean takes made good. Groups of one say nothing.
    0 if there are fewer than ``least`` deviations.
    """
    deviations = [
        np.abs(np.asarray(group) - np.mean(group)) * np.sqrt(len(group) / (len(group) - 1))
        for group in groups
        if len(group) > 1
    ]
    if sum(map(len, deviations)) < least:
        return 0.0
    return _NORMAL * float(np.median(np.concatenate(deviations)))
