"""Tuned against further baselines, in the blocks of the verdict: error rates by simulation."""

from __future__ import annotations

import numpy as np

from tests.seeds import simulate
from tests.stats.conftest import Tolerance
from tuner.stats.holm import holm
from tuner.stats.margin import DEFAULT_BAND
from tuner.stats.paired import FloatArray, signed_rank_p
from tuner.stats.verdict import VerdictKind, judge


def against(seed: int, studies: int, blocks: int, ratios: tuple[float, ...]) -> FloatArray:
    """Return ln(tuned / other) of each further baseline, from arms in the same blocks.

    Args:
        seed: of the simulation.
        studies: how many.
        blocks: of each.
        ratios: of the baseline, the tuned arm, then the further baselines.

    Returns:
        Shape (studies, blocks, further baselines).
    """
    means = simulate(seed, studies=studies, blocks=blocks, ratios=ratios).arm_means()
    return np.asarray(means[:, :, 1:2] - means[:, :, 2:])


def test_equal_baselines_are_called_different_at_the_level(studies: int) -> None:
    """Three baselines as good as the tuned one: any rejection in at most 5 % of studies.

    All contrasts share the tuned arm, so they are dependent; Holm's procedure does not mind.
    """
    studies *= 2
    d = against(91, studies, 12, (1.2, 1.0, 1.0, 1.0, 1.0))
    raw = [[signed_rank_p(column) for column in study.T] for study in d]
    adjusted = sum(min(holm(p)) <= 0.05 for p in raw)
    assert adjusted <= Tolerance(studies).most(0.05)
    # 5.7 % of studies are rejected unadjusted only: none of 400 but by a chance of 1e-10.
    assert sum(min(p) <= 0.05 for p in raw) > adjusted


def test_intervals_against_all_baselines_hold_at_once(studies: int, tolerance: Tolerance) -> None:
    """In 95 % of studies; and one exactly at the margin is called better in at most 2.5 %."""
    ratios = (1.2, 0.97, 1.0, 1.1, 0.97)
    truth = [0.97 / other for other in ratios[2:]]
    held = better = 0
    for study in against(92, studies, 14, ratios):
        verdicts = [
            judge(column, margin=DEFAULT_BAND, minimum_detectable_effect=0.1, family=3)
            for column in study.T
        ]
        held += all(
            v.estimate.low <= ratio <= v.estimate.high
            for v, ratio in zip(verdicts, truth, strict=True)
        )
        better += verdicts[0].kind is VerdictKind.BETTER
    assert held >= tolerance.least(0.95)
    assert better <= tolerance.most(0.025)
