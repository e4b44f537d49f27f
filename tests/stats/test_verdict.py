"""Tests of the verdict: its rule, case by case, and its sentences."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.stats.margin import DEFAULT_BAND, Margin
from tuner.stats.paired import PairedEstimate
from tuner.stats.verdict import Verdict, VerdictKind, decide, judge
from tuner.stats.words import signed_percent

BETTER, WORSE = VerdictKind.BETTER, VerdictKind.WORSE
EQUIVALENT, INCONCLUSIVE = VerdictKind.EQUIVALENT, VerdictKind.INCONCLUSIVE


def verdict(
    interval95: tuple[float, float],
    interval90: tuple[float, float] | None = None,
    *,
    margin: Margin = DEFAULT_BAND,
    larger_is_better: bool = False,
    n: int = 12,
) -> Verdict:
    """Return a verdict on given intervals; the 90 % interval is the 95 % one unless given."""
    low, high = interval95
    ratio = math.sqrt(low * high) if math.isfinite(high) else 1.0
    return decide(
        PairedEstimate(n, ratio, low, high, 0.95, 0.031, "given"),
        interval90 or interval95,
        margin=margin,
        minimum_detectable_effect=0.06,
        objective="throughput" if larger_is_better else "p99",
        larger_is_better=larger_is_better,
    )


@pytest.mark.parametrize(
    ("interval95", "interval90", "kind"),
    [
        ((0.80, 1 / 1.031), None, BETTER),
        ((0.80, 0.98), None, INCONCLUSIVE),  # beyond 1, not beyond the margin
        ((1.031, 1.20), None, WORSE),
        ((1.02, 1.20), None, INCONCLUSIVE),
        ((0.98, 1.02), None, EQUIVALENT),
        ((0.96, 1.02), (0.975, 1.01), EQUIVALENT),  # equivalence asks the 90 % interval
        ((0.96, 1.02), (0.965, 1.01), INCONCLUSIVE),
        ((0.975, 0.99), None, EQUIVALENT),
        ((0.90, 1.10), None, INCONCLUSIVE),
        ((0.80, 1 / 1.03), None, INCONCLUSIVE),  # exactly on the margin is not beyond it
        ((0.0, math.inf), None, INCONCLUSIVE),
    ],
)
def test_rule(
    interval95: tuple[float, float],
    interval90: tuple[float, float] | None,
    kind: VerdictKind,
) -> None:
    """Better and worse need the 95 % interval beyond the margin, equivalent the 90 % inside it."""
    assert verdict(interval95, interval90).kind is kind


@pytest.mark.parametrize(
    ("interval", "kind"),
    [((1.10, 1.30), BETTER), ((0.70, 0.90), WORSE), ((0.99, 1.01), EQUIVALENT)],
)
def test_larger_is_better(interval: tuple[float, float], kind: VerdictKind) -> None:
    """For throughput the direction turns round, and nothing else."""
    assert verdict(interval, larger_is_better=True).kind is kind


@given(st.floats(0.3, 3), st.floats(1, 2), st.booleans())
def test_direction_only_exchanges_better_and_worse(low: float, width: float, larger: bool) -> None:
    """Turning the direction round exchanges better and worse and leaves the rest alone."""
    opposite = {BETTER: WORSE, WORSE: BETTER}
    first = verdict((low, low * width), larger_is_better=larger).kind
    second = verdict((low, low * width), larger_is_better=not larger).kind
    assert second is opposite.get(first, first)


@given(st.lists(st.floats(-0.4, 0.4), min_size=6, max_size=20), st.floats(0.001, 0.3))
def test_exchanging_the_arms_exchanges_better_and_worse(d: list[float], share: float) -> None:
    """A candidate that is *better* is exactly as far from the baseline as one that is *worse*."""
    opposite = {BETTER: WORSE, WORSE: BETTER}
    kinds = [
        judge(row, margin=Margin(share), minimum_detectable_effect=0.1).kind
        for row in (d, [-x for x in d])
    ]
    assert kinds[1] is opposite.get(kinds[0], kinds[0])


def test_judge_puts_it_together() -> None:
    """A verdict has its 95 % and 90 % intervals, its margin and the planned effect."""
    d = np.log([0.88, 0.90, 0.86, 0.91, 0.89, 0.87, 0.92, 0.885])
    result = judge(d, margin=DEFAULT_BAND, minimum_detectable_effect=0.07)
    assert result.kind is BETTER
    assert result.estimate.confidence == 0.95
    assert result.estimate.low <= result.interval90[0] < result.interval90[1] <= 0.92
    assert (result.margin, result.minimum_detectable_effect) == (DEFAULT_BAND, 0.07)


def test_sentence_of_a_claim() -> None:
    """A claim states size, direction, ratio, interval, n, p and margin."""
    d = np.log([0.88, 0.90, 0.86, 0.91, 0.89, 0.87, 0.92, 0.885])
    assert judge(d, margin=DEFAULT_BAND, minimum_detectable_effect=0.07).sentence == (
        "Better: p99 is 11.0 % lower than the baseline's (ratio 0.890, 95 % interval 0.870 to "
        "0.910, n = 8 blocks, exact p = 0.0078). The whole interval lies below the margin of "
        "±3.0 %."
    )


def test_sentence_of_a_throughput_gain() -> None:
    """More requests per second are "higher", and better."""
    sentence = verdict((1.10, 1.30), larger_is_better=True).sentence
    assert sentence.startswith("Better: throughput is 19.6 % higher than the baseline's")
    assert sentence.endswith("The whole interval lies above the margin of ±3.0 %.")


@pytest.mark.parametrize("interval", [(0.975, 0.99), (0.94, 0.99), (1.01, 1.2)])
def test_detectable_but_not_beyond_the_margin_is_said(interval: tuple[float, float]) -> None:
    """A detectable difference that is not shown to exceed the margin is named as such."""
    result = verdict(interval)
    assert result.detectable_below_margin
    words = {
        EQUIVALENT: "; the difference is detectable but below the margin.",
        INCONCLUSIVE: "The difference is detectable, but whether it exceeds the margin",
    }
    assert words[result.kind] in result.sentence


def test_inconclusive_says_what_could_have_been_seen() -> None:
    """An open verdict names the effects that the study could see and claim, in its direction."""
    assert verdict((0.90, 1.10)).sentence.endswith(
        "the study was planned to see a reduction of 6.0 %, and to claim one of 8.7 %, with 80 %"
        " probability."
    )
    assert verdict((0.90, 1.10), larger_is_better=True).sentence.endswith(
        "the study was planned to see an increase of 6.4 %, and to claim one of 9.6 %, with 80 %"
        " probability."
    )


def test_too_few_blocks_are_named() -> None:
    """Below six blocks the sentence asks for more blocks and shows no interval."""
    sentence = verdict((0.0, math.inf), n=5).sentence
    assert "no finite 95 % interval" in sentence
    assert sentence.endswith("5 blocks cannot give a 95 % interval: at least 6 are needed.")


def test_rule_insists_on_its_inputs() -> None:
    """Another confidence or an impossible margin is refused, with the value."""
    narrow = PairedEstimate(12, 1.0, 0.9, 1.1, 0.90, 1.0, "given")
    with pytest.raises(ValueError, match="95 % interval but got one of 90%"):
        decide(narrow, (0.9, 1.1), margin=DEFAULT_BAND, minimum_detectable_effect=0.1)
    with pytest.raises(ValueError, match="margin must be at least 0 and below 1 but got 3"):
        verdict((0.9, 1.1), margin=Margin(3))


def test_a_wide_margin_makes_nothing_equivalent() -> None:
    """A host on which identical arms differ by 30 % cannot show that two arms are equal."""
    differences = [0.01, -0.02, 0.015, -0.01, 0.02, -0.015, 0.005, -0.005]
    narrow = judge(differences, margin=Margin(0.05), minimum_detectable_effect=0.03)
    wide = judge(differences, margin=Margin(0.30), minimum_detectable_effect=0.25)
    assert (narrow.kind, wide.kind) == (VerdictKind.EQUIVALENT, VerdictKind.INCONCLUSIVE)


def test_what_rounds_to_nothing_has_no_minus() -> None:
    """A change of -0.0 % would be read as one."""
    assert signed_percent(-0.0001) == "+0.0 %"
    assert signed_percent(-0.03) == "-3.0 %"
