"""Verdicts on several figures of the same blocks, with the claims that hold jointly.

Every verdict of *better* or *worse* is a rejection of "the ratio is not beyond the margin". Its p
is that of the signed-rank test of the differences shifted by the margin, which is at most 5 %
exactly if the 95 % interval lies beyond it. Holm's procedure over these p keeps the chance of any
false claim at 5 %. Equivalence is another question (the null hypothesis is a difference), of which
each answer is wrong in at most 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tuner.stats.holm import holm
from tuner.stats.paired import estimate
from tuner.stats.power import LEVEL
from tuner.stats.verdict import Verdict, VerdictKind

_CLAIMS = {VerdictKind.BETTER, VerdictKind.WORSE}


def jointly(
    verdicts: Sequence[Verdict], differences: Sequence[npt.ArrayLike]
) -> tuple[tuple[Verdict, float], ...]:
    """Return each verdict with its adjusted p; a claim whose p exceeds 5 % becomes inconclusive.

    Args:
        verdicts: one for each figure, as of a single one.
        differences: for each figure, the d of the blocks that its verdict rests on.
    """
    raw = [_beyond_margin(v, np.asarray(d)) for v, d in zip(verdicts, differences, strict=True)]
    return tuple(
        (_withdrawn(verdict, p) if verdict.kind in _CLAIMS and p > LEVEL else verdict, p)
        for verdict, p in zip(verdicts, holm(raw), strict=True)
    )


def _beyond_margin(verdict: Verdict, differences: npt.NDArray[np.float64]) -> float:
    ratio = verdict.estimate.ratio
    edge = verdict.margin.edge_ln(ratio)
    if abs(math.log(ratio)) <= abs(edge):
        return 1.0
    return estimate(differences - edge).p_value


def _withdrawn(verdict: Verdict, p: float) -> Verdict:
    figures = verdict.sentence.partition(": ")[2].partition(". ")[0]
    return replace(
        verdict,
        kind=VerdictKind.INCONCLUSIVE,
        sentence=(
            f"Inconclusive: {figures}. Alone it would be {verdict.kind}, but of two figures it is"
            f" not shown (adjusted p = {p:.2g})."
        ),
    )
