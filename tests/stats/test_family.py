"""Verdicts on two figures of the same blocks."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests import seeds
from tests.stats.conftest import Tolerance
from tuner.stats.family import jointly
from tuner.stats.margin import DEFAULT_BAND, Margin
from tuner.stats.verdict import Verdict, VerdictKind, judge


def verdicts(*differences: list[float], margin: Margin = DEFAULT_BAND) -> list[Verdict]:
    """Return each by itself."""
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
    gain.append(-0.23)
    same.append(0.004)
    (first, p), _ = jointly(verdicts(gain, same), [gain, same])
    assert (first.kind, p) == (VerdictKind.BETTER, 2 * 2 / 2**7), "seven are enough"


@given(st.integers(0, 2**32 - 1), st.floats(-0.2, 0.2))
def test_p_is_at_most_the_level_exactly_where_there_is_a_claim(seed: int, shift: float) -> None:
    """The p that Holm adjusts and the interval that the verdict rests on say the same."""
    d = (shift + 0.08 * seeds.rng(seed).standard_normal(10)).tolist()
    (alone,) = verdicts(d)
    ((_, p),) = jointly([alone], [d])
    assert (p <= 0.05) == (alone.kind in {VerdictKind.BETTER, VerdictKind.WORSE})


def test_false_claims_of_either_figure_are_as_rare_as_of_one() -> None:
    """Both true ratios on the margin, 600 studies of ten blocks: at most 5 % and their noise."""
    random = seeds.rng(3)
    false = 0
    for _ in range(600):
        both = np.log(0.97) + 0.05 * random.standard_normal((2, 10))
        found = jointly(verdicts(*both.tolist()), list(both))
        false += any(v.kind is VerdictKind.BETTER for v, _ in found)
    assert false <= Tolerance(600).most(0.05)
