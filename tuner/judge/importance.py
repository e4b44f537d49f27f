"""The importance of parameters, where the trials of the search differ by more than noise.

PED-ANOVA (Watanabe et al., IJCAI 2023) divides the variation of the trials among the parameters,
also if all of it is noise. Therefore an F test compares the trials with repeated looks at the same
trial. Trials of one block share the noise of its baseline, which makes the test conservative.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean

from tuner.record.model import Record
from tuner.stats.power import LEVEL


def shown_importance(record: Record) -> Mapping[str, float]:
    """Return the importance of each parameter; empty if the trials may differ by noise alone."""
    return record.importance if trials_p(record) <= LEVEL else {}


def trials_p(record: Record) -> float:
    """Return the p-value of differences between the trials; 1 without repeated looks at any."""
    from scipy.special import fdtrc

    looks = [
        [loss for loss in trial.losses.values() if math.isfinite(loss)] for trial in record.trials
    ]
    looks = [losses for losses in looks if losses]
    count = sum(map(len, looks))
    between_df, within_df = len(looks) - 1, count - len(looks)
    if between_df < 1 or within_df < 1:
        return 1.0
    centre = fmean(loss for losses in looks for loss in losses)
    between = sum(len(losses) * (fmean(losses) - centre) ** 2 for losses in looks)
    within = sum((loss - fmean(losses)) ** 2 for losses in looks for loss in losses)
    if within <= 0:
        return 1.0 if between <= 0 else 0.0
    ratio = (between / between_df) / (within / within_df)
    return float(fdtrc(between_df, within_df, ratio))
