"""Holm's adjustment, against published figures and by simulation."""

from __future__ import annotations

import pytest

from tests import seeds
from tests.stats.conftest import Tolerance
from tuner.stats.holm import holm


def test_a_worked_example() -> None:
    """R's p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") gives these."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))


def test_one_question_needs_no_adjustment() -> None:
    """Nor does none."""
    assert holm([0.03]) == (0.03,)
    assert holm([]) == ()


def test_adjusted_values_keep_the_order_and_stay_probabilities() -> None:
    """A smaller p never becomes the larger one, and none exceeds 1."""
    adjusted = holm([0.5, 0.9, 0.001, 0.5])
    assert max(adjusted) == 1.0
    assert adjusted[2] == min(adjusted)


def test_any_false_claim_is_as_rare_as_promised() -> None:
    """Ten true hypotheses, 2,000 times: at least one is rejected in at most 5 % and its noise."""
    rng = seeds.rng(1)
    false = sum(min(holm(list(rng.random(10)))) <= 0.05 for _ in range(2_000))
    assert false <= Tolerance(2_000).most(0.05)


@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan")])
def test_what_is_no_probability_is_refused(wrong: float) -> None:
    """The message quotes it."""
    with pytest.raises(ValueError, match=str(wrong)):
        holm([0.5, wrong])
