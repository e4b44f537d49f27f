"""The exact test, estimate and interval against literals, oracles and their own symmetries."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tuner.stats.paired import (
    attained_level,
    estimate,
    log_ratios,
    minimum_blocks,
    signed_rank_p,
)

# Hamilton depression scale before and after tranquilizer: Hollander and Wolfe, table 3.1.
HAMILTON_BEFORE = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
HAMILTON_AFTER = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]

# Differences in whole thousandths, with distinct magnitudes and no zero: no ties.
untied = st.lists(
    st.tuples(st.integers(1, 2_000), st.booleans()),
    min_size=6,
    max_size=14,
    unique_by=lambda x: x[0],
).map(lambda pairs: [(1 if up else -1) * size / 1_000 for size, up in pairs])
# Few possible magnitudes: ties and zeros abound.
tied = st.lists(st.integers(-3, 3), min_size=1, max_size=9).map(lambda d: [x / 10 for x in d])


def walsh_averages(d: list[float]) -> list[float]:
    """Return the plain definition, sorted."""
    return sorted((a + b) / 2 for a, b in itertools.combinations_with_replacement(d, 2))


def all_sign_flips_p(d: list[float]) -> float:
    """Return Two-sided p by brute force over all 2^n sign flips of the Walsh statistic."""

    def statistic(values: list[float]) -> int:
        return sum(
            (a + b > 1e-9) - (a + b < -1e-9)
            for a, b in itertools.combinations_with_replacement(values, 2)
        )

    observed = abs(statistic(d))
    flips = list(itertools.product((1, -1), repeat=len(d)))
    extreme = sum(
        abs(statistic([s * x for s, x in zip(signs, d, strict=True)])) >= observed
        for signs in flips
    )
    return extreme / len(flips)


def test_six_blocks_reach_from_minimum_to_maximum() -> None:
    """With n = 6 the 95 % interval is the range of the data, and p is 2/64."""
    d = [0.05, 0.21, 0.13, 0.02, 0.30, 0.08]
    result = estimate(d)
    assert result.low == math.exp(0.02)
    assert result.high == math.exp(0.30)
    assert result.p_value == 2 / 64


def test_five_blocks_give_no_finite_interval_and_say_so() -> None:
    """With n = 5 the 95 % interval is infinite, in words too; the ratio and p still stand."""
    result = estimate([0.05, 0.21, 0.13, 0.02, 0.30])
    assert (result.low, result.high) == (0.0, math.inf)
    assert not result.is_finite
    assert not result.excludes_no_change
    assert "5 blocks cannot give a 95 % interval (it needs 6)" in result.method
    assert result.p_value == 2 / 32
    assert result.ratio == pytest.approx(math.exp(0.13))


def test_five_blocks_are_enough_for_90_percent() -> None:
    """The equivalence interval is finite from n = 5 on."""
    result = estimate([0.05, 0.21, 0.13, 0.02, 0.30], 0.90)
    assert (result.low, result.high) == (math.exp(0.02), math.exp(0.30))


def test_ten_blocks_use_walsh_ranks_9_and_47() -> None:
    """With n = 10 the 95 % interval ends at the 9th and the 47th of the 55 Walsh averages."""
    d = [0.11, -0.04, 0.32, 0.08, 0.27, -0.13, 0.19, 0.05, 0.41, 0.02]
    walsh = walsh_averages(d)
    result = estimate(d)
    assert result.low == pytest.approx(math.exp(walsh[9 - 1]), rel=1e-14)
    assert result.high == pytest.approx(math.exp(walsh[47 - 1]), rel=1e-14)


def test_published_example() -> None:
    """Hollander and Wolfe's example: p, pseudomedian and interval as in the book and in R."""
    d = np.subtract(HAMILTON_AFTER, HAMILTON_BEFORE)
    result = estimate(d)
    assert result.p_value == pytest.approx(0.0390625)
    assert math.log(result.ratio) == pytest.approx(-0.46)
    assert math.log(result.low) == pytest.approx(-0.786)
    assert math.log(result.high) == pytest.approx(-0.010)


@pytest.mark.parametrize(
    ("n", "level"),
    [(5, 0.0), (6, 2 / 64), (7, 6 / 128), (8, 10 / 256), (10, 50 / 1024), (12, 174 / 4096)],
)
def test_attained_level_is_that_of_the_tables(n: int, level: float) -> None:
    """The exact levels nearest below 5 % are those of published tables."""
    assert attained_level(n, 0.05) == level


@pytest.mark.parametrize(("confidence", "blocks"), [(0.90, 5), (0.95, 6), (0.99, 8), (0.9375, 5)])
def test_minimum_blocks(confidence: float, blocks: int) -> None:
    """The smallest n is where the estimate turns finite, also exactly on the boundary."""
    assert minimum_blocks(confidence) == blocks
    assert estimate(np.arange(1, blocks + 1) / 10, confidence).is_finite
    assert not estimate(np.arange(1, blocks) / 10, confidence).is_finite


@given(untied)
def test_p_equals_scipy_without_ties(d: list[float]) -> None:
    """Without ties, p is scipy's exact one."""
    oracle = stats.wilcoxon(d, method="exact").pvalue
    assert signed_rank_p(d) == pytest.approx(oracle, rel=1e-12)


@given(tied)
def test_p_equals_full_enumeration_with_ties(d: list[float]) -> None:
    """With ties and zeros, p is the one of all 2^n sign flips."""
    assert signed_rank_p(d) == pytest.approx(all_sign_flips_p(d), rel=1e-12)


@pytest.mark.parametrize("n", [60, 300])
def test_many_blocks_agree_with_the_normal_approximation(n: int) -> None:
    """At large n, exact p and interval meet the asymptotic ones, with ties as without."""
    d = np.random.default_rng(n).normal(0.02, 0.2, n)
    oracle = stats.wilcoxon(d, method="approx", correction=True).pvalue
    assert estimate(d).p_value == pytest.approx(oracle, abs=0.004)
    coarse = np.round(d, 1)
    oracle = stats.wilcoxon(coarse, zero_method="pratt", method="approx").pvalue
    assert estimate(coarse).p_value == pytest.approx(oracle, abs=0.01)
    half_width = math.log(estimate(d).high / estimate(d).low) / 2
    assert half_width == pytest.approx(1.96 * 0.2 / math.sqrt(0.955 * n), rel=0.2)


@given(untied)
def test_interval_and_test_agree(d: list[float]) -> None:
    """Without ties, the 95 % interval leaves out a ratio of 1 exactly when p is at most 5 %."""
    result = estimate(d)
    assert result.excludes_no_change == (result.p_value <= 0.05)


@given(untied)
def test_swapped_arms_give_the_reciprocal(d: list[float]) -> None:
    """Exchanging candidate and baseline inverts ratio and interval and keeps p."""
    there, back = estimate(d), estimate([-x for x in d])
    assert back.ratio == pytest.approx(1 / there.ratio, rel=1e-12)
    assert back.low == pytest.approx(1 / there.high, rel=1e-12)
    assert back.high == pytest.approx(1 / there.low, rel=1e-12)
    assert back.p_value == there.p_value


@given(untied, st.floats(-2, 2))
def test_a_known_factor_shifts_the_estimate(d: list[float], shift: float) -> None:
    """A candidate slower by a factor has its ratio and interval multiplied by that factor."""
    plain, shifted = estimate(d), estimate([x + shift for x in d])
    factor = math.exp(shift)
    assert shifted.ratio == pytest.approx(plain.ratio * factor, rel=1e-9)
    assert shifted.low == pytest.approx(plain.low * factor, rel=1e-9)
    assert shifted.high == pytest.approx(plain.high * factor, rel=1e-9)


@given(untied, st.randoms(use_true_random=False))
def test_order_of_blocks_does_not_matter(d: list[float], random: object) -> None:
    """The estimate is a function of the set of differences."""
    shuffled = list(d)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert estimate(shuffled) == estimate(d)


@given(st.one_of(untied, tied))
def test_narrow_interval_lies_inside_the_wide_one(d: list[float]) -> None:
    """0 <= low95 <= low90 <= ratio <= high90 <= high95, and p lies in (0, 1]."""
    wide, narrow = estimate(d, 0.95), estimate(d, 0.90)
    assert 0 <= wide.low <= narrow.low <= narrow.ratio <= narrow.high <= wide.high
    assert 0 < wide.p_value <= 1


def test_units_do_not_matter() -> None:
    """Milliseconds and microseconds give the same estimate."""
    rng = np.random.default_rng(3)
    candidate, baseline = rng.lognormal(0, 0.1, 12), rng.lognormal(0.1, 0.1, 12)
    in_ms = estimate(log_ratios(candidate, baseline))
    in_us = estimate(log_ratios(candidate * 1_000, baseline * 1_000))
    assert in_us.ratio == pytest.approx(in_ms.ratio, rel=1e-12)
    assert in_us.low == pytest.approx(in_ms.low, rel=1e-12)
    assert in_us.high == pytest.approx(in_ms.high, rel=1e-12)
    assert in_us.p_value == in_ms.p_value


def test_ties_survive_the_logarithm() -> None:
    """Equal ratios of different figures are a tie, although their logarithms differ as floats."""
    d = log_ratios([110, 220, 330, 121, 99, 440], [100, 200, 300, 110, 90, 400])
    assert np.unique(d).size > 1
    result = estimate(d)
    assert "sign-flip permutation" in result.method
    assert result.p_value == 2 / 64


def test_nothing_but_zeros_is_no_evidence() -> None:
    """Identical figures in every block: ratio 1, p = 1."""
    result = estimate([0.0] * 8)
    assert (result.ratio, result.low, result.high, result.p_value) == (1.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize("bad", [[], [math.nan], [0.1, math.inf], [[0.1, 0.2]]])
def test_unusable_differences_are_refused(bad: list[float]) -> None:
    """Empty, non-finite or two-dimensional differences raise instead of giving a figure."""
    with pytest.raises(ValueError, match="differences must be"):
        estimate(bad)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95])
def test_confidence_is_a_share(confidence: float) -> None:
    """A confidence that is not between 0 and 1 is refused, with the value."""
    with pytest.raises(ValueError, match=f"between 0 and 1 but got {confidence}"):
        estimate([0.1] * 6, confidence)


def test_figures_must_be_positive_and_paired() -> None:
    """A ratio of latencies needs two positive figures per block."""
    with pytest.raises(ValueError, match=r"candidate must hold positive, finite figures but got 0"):
        log_ratios([1.0, 0.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="equal length"):
        log_ratios([1.0, 2.0], [1.0])
