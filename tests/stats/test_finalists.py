"""Several finalists in the same blocks: Holm's p, simultaneous intervals, the one that is named."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.seeds import simulate
from tests.stats.conftest import Tolerance
from tuner.stats.finalists import best_of
from tuner.stats.holm import holm
from tuner.stats.margin import DEFAULT_BAND
from tuner.stats.paired import FloatArray, estimate, signed_rank_p
from tuner.stats.verdict import Verdict, VerdictKind, judge


def judged(d: FloatArray, *, larger_is_better: bool = False) -> list[Verdict]:
    """Verdicts on the finalists of a study; d has shape (blocks, finalists)."""
    family = d.shape[1]
    return [
        judge(
            column,
            margin=DEFAULT_BAND,
            minimum_detectable_effect=0.1,
            larger_is_better=larger_is_better,
            family=family,
        )
        for column in d.T
    ]


def finalists(seed: int, studies: int, blocks: int, ratios: tuple[float, ...]) -> FloatArray:
    """Differences of finalists from the baseline that they share: (studies, blocks, finalists)."""
    means = simulate(seed, studies=studies, blocks=blocks, ratios=(1.0, *ratios)).arm_means()
    return np.asarray(means[:, :, 1:] - means[:, :, :1])


def test_holm_by_hand() -> None:
    """0.01, 0.03, 0.04 become 0.03, 0.06 and, never below the one before, 0.06."""
    assert holm([0.04, 0.01, 0.03]) == pytest.approx((0.06, 0.03, 0.06))
    assert holm([0.9, 0.8]) == (1.0, 1.0)
    assert holm([0.2]) == (0.2,)
    with pytest.raises(ValueError, match="between 0 and 1 but got"):
        holm([1.2])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_lies_between_the_raw_p_and_bonferronis(p: list[float]) -> None:
    """And keeps the order."""
    adjusted = holm(p)
    assert all(a <= b <= min(1, len(p) * a) + 1e-12 for a, b in zip(p, adjusted, strict=True))
    order = np.argsort(p, kind="stable")
    assert np.all(np.diff(np.array(adjusted)[order]) >= 0)


def test_equal_finalists_are_called_different_at_the_level(studies: int) -> None:
    """At most 5 % of studies reject any of three finalists that equal the baseline.

    Unadjusted, the best of the three would be called different far more often.
    """
    studies *= 2
    d = finalists(81, studies, 12, (1.0, 1.0, 1.0))
    raw = [[signed_rank_p(column) for column in study.T] for study in d]
    adjusted = sum(min(holm(p)) <= 0.05 for p in raw)
    assert adjusted <= Tolerance(studies).most(0.05)
    # 5.7 % of studies are rejected unadjusted only: none of 400 but by a chance of 1e-10.
    assert sum(min(p) <= 0.05 for p in raw) > adjusted


def test_intervals_hold_at_once_and_for_the_chosen_one(studies: int, tolerance: Tolerance) -> None:
    """All three true ratios lie in their intervals in 95 % of studies, so the named one's does."""
    truth = (0.9, 0.95, 0.95)
    d = finalists(82, studies, 14, truth)
    all_held = chosen_held = 0
    for study in d:
        verdicts = judged(study)
        held = [
            v.estimate.low <= ratio <= v.estimate.high
            for v, ratio in zip(verdicts, truth, strict=True)
        ]
        all_held += all(held)
        chosen_held += held[best_of(verdicts)]
    assert all_held >= tolerance.least(0.95)
    assert chosen_held >= tolerance.least(0.95)


def test_false_claims_of_the_named_one_are_rare(studies: int, tolerance: Tolerance) -> None:
    """Three finalists exactly on the margin: the named one is called better in at most 2.5 %."""
    d = finalists(83, studies, 12, (0.97, 0.97, 0.97))
    better = 0
    for study in d:
        verdicts = judged(study)
        better += verdicts[best_of(verdicts)].kind is VerdictKind.BETTER
    assert better <= tolerance.most(0.025)


def test_the_best_of_those_that_are_better_is_named() -> None:
    """A smaller ratio with a wider interval is not preferred to one that is shown."""
    rng = np.random.default_rng(4)
    shown = rng.normal(-0.2, 0.01, 12)
    vague = rng.normal(-0.4, 0.01, 12) + np.repeat([0.0, 0.5], [8, 4])
    equal = rng.normal(0.0, 0.005, 12)
    verdicts = judged(np.column_stack([equal, vague, shown]))
    assert [v.kind for v in verdicts] == [
        VerdictKind.EQUIVALENT,
        VerdictKind.INCONCLUSIVE,
        VerdictKind.BETTER,
    ]
    assert best_of(verdicts) == 2
    assert best_of(verdicts[:2]) == 1  # none is better: the best estimate


def test_larger_is_better_turns_the_choice_round() -> None:
    """For throughput the largest ratio among the better ones."""
    rng = np.random.default_rng(5)
    verdicts = judged(
        np.column_stack([rng.normal(0.2, 0.01, 12), rng.normal(0.4, 0.01, 12)]),
        larger_is_better=True,
    )
    assert best_of(verdicts, larger_is_better=True) == 1
    with pytest.raises(ValueError, match="no finalist"):
        best_of([])


def test_one_finalist_is_the_plain_case() -> None:
    """A family of one has the 95 % interval and the plain p; three have one of 98.3 %."""
    d = np.random.default_rng(6).normal(-0.1, 0.05, (12, 3))
    alone = judged(d[:, :1])[0]
    assert alone.estimate == estimate(d[:, 0])
    together = judged(d)[0]
    assert together.estimate.low < alone.estimate.low
    assert "simultaneous 95 % interval of 3 finalists" in together.sentence


def test_a_finalist_beyond_a_constraint_is_named_only_if_all_are() -> None:
    """However much faster it is: the study asked for what keeps to the limits."""
    rng = np.random.default_rng(5)
    noise = rng.normal(0.0, 0.01, (12, 3))
    verdicts = judged(noise + np.log([0.6, 0.8, 1.0]))
    assert best_of(verdicts, beyond=(True, False, False)) == 1
    assert best_of(verdicts, beyond=(True, True, False)) == 2
    assert best_of(verdicts, beyond=(True, True, True)) == 0
