"""Figures of several arms on one scale: their quotients follow the ratios of the pairs."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence

from tuner.goals.metric import Metric, difference_ln, typical_ln
from tuner.judge.scoring import counted_windows
from tuner.record.model import Block
from tuner.stats.paired import pseudomedians


def common_scale(
    blocks: Sequence[Block], labels: Sequence[str], metric: Metric
) -> Mapping[str, float]:
    """Return a figure of each arm; an arm without one is left out.

    The ratio of a pair is the pseudomedian over blocks of its differences, and such ratios of three
    arms need not multiply. Their means by arm do (Lehmann, Robust estimation in analysis of
    variance, Annals of Mathematical Statistics 34, 1963); the mean over the arms of their own
    levels gives the scale. The quotient of two arms alone is exactly the ratio of the pair.

    Args:
        blocks: the blocks that count.
        labels: the arms.
        metric: the figure.
    """
    windows = {label: [counted_windows(block, label) for block in blocks] for label in labels}
    levels = {}
    for label, found in windows.items():
        known = [v for v in (typical_ln(w, metric.value) for w in found) if math.isfinite(v)]
        if known:
            levels[label] = float(pseudomedians(known))
    differences: dict[tuple[str, str], float] = {}
    for one, other in itertools.combinations(levels, 2):
        pairs = zip(windows[one], windows[other], strict=True)
        found_ln = [difference_ln(own, against, metric.value) for own, against in pairs]
        finite = [d for d in found_ln if math.isfinite(d)]
        if not finite:
            # Without common blocks there is no ratio to agree with.
            return {label: math.exp(level) for label, level in levels.items()}
        differences[one, other] = float(pseudomedians(finite))
        differences[other, one] = -differences[one, other]
    if not levels:
        return {}
    centre = statistics.fmean(levels.values())
    return {
        one: math.exp(centre + statistics.fmean(differences.get((one, o), 0.0) for o in levels))
        for one in levels
    }
