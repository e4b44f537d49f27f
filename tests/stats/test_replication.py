"""Tests of a replication: its conclusion and its error rate."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from tests import seeds
from tests.seeds import simulate
from tests.stats.conftest import Tolerance
from tuner.stats.paired import FloatArray, estimate
from tuner.stats.power import blocks_needed
from tuner.stats.replication import Interval, ReplicationKind, replication
from tuner.testing.simulate import Noise

FIRST = Interval(0.80, 0.75, 0.86)
REPLICATED, NOT_REPLICATED, INCONCLUSIVE, CONTRADICTS = ReplicationKind
SIGMA = 0.1


def interval(differences: FloatArray) -> Interval:
    """Return what a confirmation of these blocks reports."""
    found = estimate(differences)
    return Interval(found.ratio, found.low, found.high)


def outcomes(seed: int, studies: int, first: float, again: float) -> Counter[ReplicationKind]:
    """Count the outcomes for true ratios, of originals that show an effect of 10 % if it is there.

    Both studies are planned for 80 % power, and only originals that show an effect are repeated.
    """
    rng = seeds.rng(seed)
    n = blocks_needed(SIGMA, effect=0.10)
    found: Counter[ReplicationKind] = Counter()
    while found.total() < studies:
        original = interval(rng.normal(math.log(first), SIGMA, n))
        if original.direction:
            second = interval(rng.normal(math.log(again), SIGMA, n))
            found[replication(original, second).kind] += 1
    return found


@pytest.mark.parametrize(
    ("again", "kind", "head", "why"),
    [
        (Interval(0.82, 0.78, 0.87), REPLICATED, "Replicated: ", "the two are compatible"),
        (Interval(0.60, 0.56, 0.65), REPLICATED, "Replicated: ", "it is larger"),
        (
            Interval(0.95, 0.91, 0.99),
            NOT_REPLICATED,
            "Not replicated: ",
            "again, but it is smaller",
        ),
        (Interval(1.00, 0.98, 1.02), NOT_REPLICATED, "Not replicated: ", "and not shown again"),
        (Interval(0.90, 0.75, 1.08), INCONCLUSIVE, "Replication inconclusive: ", "not shown again"),
        (Interval(0.70, 0.0, math.inf), INCONCLUSIVE, "Replication inconclusive: ", "no limit"),
        (Interval(1.10, 1.03, 1.20), CONTRADICTS, "Contradicts the original: ", "opposite"),
    ],
)
def test_the_outcome_follows_from_two_tests(
    again: Interval, kind: ReplicationKind, head: str, why: str
) -> None:
    """The outcome follows from the replication's effect and the difference; both are stated."""
    found = replication(FIRST, again)
    assert found.kind is kind
    assert found.agrees is (kind is REPLICATED)
    assert found.sentence.startswith(head)
    assert why in found.sentence


@pytest.mark.parametrize("again", [0.6, 0.8, 0.9, 1.0, 1.1])
def test_swapped_arms_give_the_same_outcome(again: float) -> None:
    """No direction is preferred: a figure that is to be larger is treated alike."""
    second = Interval(again, 0.95 * again, 1.05 * again)
    one = replication(FIRST, second)
    other = replication(*(Interval(1 / i.ratio, 1 / i.high, 1 / i.low) for i in (FIRST, second)))
    assert other.kind is one.kind
    assert other.difference.ratio == pytest.approx(1 / one.difference.ratio)
    assert other.difference.low == pytest.approx(1 / one.difference.high)


def test_an_original_without_an_effect_cannot_be_replicated() -> None:
    """Even if the replication shows one."""
    found = replication(Interval(0.95, 0.85, 1.06), Interval(0.80, 0.75, 0.86))
    assert found.kind is INCONCLUSIVE
    assert "the original shows no effect" in found.sentence


@pytest.mark.parametrize(
    "original",
    [FIRST, Interval(0.97, 0.95, 0.99), Interval(1.6, 1.1, 2.5)],
    ids=["large", "small", "wide"],
)
def test_without_an_effect_a_replication_is_rarely_successful(
    original: Interval, studies: int, tolerance: Tolerance
) -> None:
    """Identical arms replicate, or contradict, any original in at most 2.5 % of studies each."""
    noise = Noise(drift_per_window=0.01)
    d = simulate(80, studies=studies, blocks=12, ratios=(1.0, 1.0), noise=noise).differences()
    kinds = Counter(replication(original, interval(row)).kind for row in d)
    assert kinds[REPLICATED] <= tolerance.most(0.025)
    assert kinds[CONTRADICTS] <= tolerance.most(0.025)


def test_two_studies_without_an_effect_agree_by_the_usual_criterion(
    studies: int, tolerance: Tolerance
) -> None:
    """Same sign and overlapping intervals: half of them; by the two tests: almost none."""
    d = simulate(81, studies=2 * studies, blocks=12, ratios=(1.0, 1.0)).differences()
    found = [interval(row) for row in d]
    pairs = list(zip(found[::2], found[1::2], strict=True))
    usual = sum(
        (a.ratio < 1) == (b.ratio < 1) and a.low <= b.high and b.low <= a.high for a, b in pairs
    )
    assert usual >= tolerance.least(0.45)
    replicated = sum(replication(a, b).agrees for a, b in pairs)
    assert replicated <= tolerance.most(0.05 * 0.025)


def test_a_true_effect_is_replicated_with_the_planned_power(
    studies: int, tolerance: Tolerance
) -> None:
    """Planned for 80 %; the test of the difference costs less than 3 points."""
    kinds = outcomes(82, studies, 0.9, 0.9)
    assert kinds[REPLICATED] >= tolerance.least(0.77)
    assert kinds[NOT_REPLICATED] <= tolerance.most(0.025)
    assert kinds[CONTRADICTS] <= tolerance.most(0.001)


def test_an_effect_that_is_absent_elsewhere_is_not_replicated(
    studies: int, tolerance: Tolerance
) -> None:
    """A gain of 20 % on one host and none on the other: the difference is shown."""
    assert outcomes(83, studies, 0.8, 1.0)[NOT_REPLICATED] >= tolerance.least(0.9)


@pytest.mark.parametrize("blocks", [(6, 6), (12, 12), (6, 30), (30, 30)])
@pytest.mark.parametrize("sigmas", [(0.1, 0.1), (0.05, 0.2)])
def test_equal_effects_are_compatible(
    blocks: tuple[int, int], sigmas: tuple[float, float], studies: int, tolerance: Tolerance
) -> None:
    """The interval of the difference contains a ratio of 1 in about 95 % of studies or more."""
    rng = seeds.rng(84 + blocks[1])
    missed = 0
    for _ in range(studies):
        original, again = (
            interval(rng.normal(np.log(0.8), sigma, n))
            for n, sigma in zip(blocks, sigmas, strict=True)
        )
        missed += replication(original, again).difference.direction != 0
    assert missed <= tolerance.most(0.06)
