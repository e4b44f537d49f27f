"""Figures of several arms agree with the ratios of their pairs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tests.measurement.windows import block, window
from tuner.goals.metric import Metric
from tuner.goals.objective import Objective
from tuner.judge.common_scale import common_scale
from tuner.judge.comparison import RatioClaim
from tuner.record.model import Block
from tuner.stats.paired import estimate

P99 = Metric("p99")


def blocks(labels: str, noise: float, lacking: str = "") -> list[Block]:
    """Return 12 blocks of three rounds; arm a is at 1 ms, and each next one is 20 % slower.

    Args:
        labels: one letter for each arm.
        noise: standard deviation of a window, ln units.
        lacking: arm that is only in every other block.
    """
    rng = np.random.default_rng(3)
    found = []
    for number in range(12):
        arms = [label for label in labels if label != lacking or number % 2]
        windows = [
            window(arm, round_, 1000 * 1.2 ** labels.index(arm) * math.exp(rng.normal(0, noise)))
            for round_, arm in itertools.product(range(3), arms)
        ]
        found.append(block(windows, number=number, phase="contest"))
    return found


def ratio(made: list[Block], one: str, other: str) -> float:
    """Return the ratio of a pair as the claim computes it."""
    claim = RatioClaim(one, other, Objective("p99"))
    differences = [claim.difference_ln(each) for each in made]
    return estimate([d for d in differences if math.isfinite(d)]).ratio


def test_the_quotient_of_two_arms_is_the_ratio_of_the_pair() -> None:
    """However noisy the host."""
    made = blocks("ab", noise=0.5)
    found = common_scale(made, "ab", P99)
    assert found["b"] / found["a"] == pytest.approx(ratio(made, "b", "a"), rel=1e-9)


def test_quotients_of_more_arms_are_near_the_ratios_of_the_pairs() -> None:
    """Ratios of three arms need not multiply, so one scale can only be close to all of them."""
    made = blocks("abcd", noise=0.3)
    found = common_scale(made, "abcd", P99)
    for one, other in itertools.combinations("abcd", 2):
        assert found[one] / found[other] == pytest.approx(ratio(made, one, other), rel=0.05)


def test_without_noise_each_arm_has_its_own_figure() -> None:
    """Also an arm that is missing in some blocks."""
    found = common_scale(blocks("abc", noise=0.0, lacking="b"), "abc", P99)
    assert found == pytest.approx({"a": 1000, "b": 1200, "c": 1440}, rel=1e-3)


def test_an_arm_without_windows_is_left_out() -> None:
    """The others keep their figures."""
    made = blocks("ab", noise=0.1)
    assert common_scale(made, ["a", "b", "x"], P99) == common_scale(made, ["a", "b"], P99)
    assert common_scale([], "ab", P99) == {}
