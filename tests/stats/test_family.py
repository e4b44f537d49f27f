"""Verdicts on two figures of the same blocks."""

from __future__ import annotations

import numpy as np

from tuner.stats.family import jointly
from tuner.stats.verdict import Verdict, VerdictKind, judge


def verdicts(*differences: list[float], margin: float = 0.03) -> list[Verdict]:
    """Each by itself."""
    return [judge(d, margin=margin, minimum_detectable_effect=0.05) for d in differences]


def test_two_clear_claims_stand() -> None:
    """Each beyond its margin in every one of eight blocks."""
    gain = [-0.3 + n / 100 for n in range(8)]
    loss = [0.2 + n / 100 for n in range(8)]
    (first, p), (second, _) = jointly(verdicts(gain, loss), [gain, loss])
    assert (first.kind, second.kind) == (VerdictKind.BETTER, VerdictKind.WORSE)
    assert p == 2 * 2 / 2**8, "the smallest p of eight blocks, twice"


def test_six_blocks_are_too_few_for_two_claims() -> None:
    """Their smallest p is 3.1 %, of which the double is above 5 %; the sentence says so."""
    gain = [-0.3 + n / 100 for n in range(6)]
    same = [0.01 * (-1) ** n + n / 1e4 for n in range(6)]
    (first, p), (second, _) = jointly(verdicts(gain, same), [gain, same])
    assert first.kind is VerdictKind.INCONCLUSIVE
    assert "of two figures it is not shown (adjusted p = 0.062)" in first.sentence
    assert p > 0.05
    assert second.kind is VerdictKind.EQUIVALENT, "that is another question"


def test_false_claims_of_either_figure_are_as_rare_as_of_one() -> None:
    """Both true ratios on the margin, 600 studies of ten blocks: at most 5 % and their noise."""
    random = np.random.default_rng(3)
    false = 0
    for _ in range(600):
        both = np.log(0.97) + 0.05 * random.standard_normal((2, 10))
        found = jointly(verdicts(*both.tolist()), list(both))
        false += any(v.kind is VerdictKind.BETTER for v, _ in found)
    assert false / 600 <= 0.05 + 2.33 * (0.05 * 0.95 / 600) ** 0.5
