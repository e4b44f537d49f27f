"""Claims about arms in common blocks, and the adjustment between them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tuner.goals.objective import Objective
from tuner.judge.comparison import Adjustment, Comparison, Counted, Family, RatioClaim
from tuner.judge.confirmation import confirmation, tally_of
from tuner.stats.verdict import VerdictKind
from tuner.testing.sample_record import sample_record

P50, P99 = (RatioClaim("b", "a", Objective(name)) for name in ("p50", "p99"))


def gains(gain: float, blocks: int = 10) -> list[float]:
    """Return differences of arms of which one is this much faster, with a little noise."""
    noise = np.random.default_rng(1).normal(size=blocks)
    return [math.log(1 - gain) + 0.005 * float(one) for one in noise]


@pytest.mark.parametrize("gain", [0.2, 0.03, 0.0])
def test_a_single_claim_is_judged_alike_by_either_adjustment(gain: float) -> None:
    """There is nothing to adjust."""
    one, other = (Family((P99,), way).judged([gains(gain)]) for way in ADJUSTMENTS)
    assert one[0].verdict == other[0].verdict


ADJUSTMENTS: tuple[Adjustment, ...] = ("simultaneous", "stepwise")


def test_a_confirmation_is_the_family_with_one_claim() -> None:
    """The candidate against the baseline, in the objective, by the margin of the protocol."""
    record = sample_record("better")
    protocol = record.protocol
    assert protocol is not None
    found = confirmation(record, Objective("p99"))
    (claim,) = found.claims.claims
    assert (claim.arm, claim.against) == (protocol.candidate, "baseline")
    assert (claim.margin, found.blocks) == (protocol.band, protocol.blocks)
    assert found.further.claims == ()
    (judged,) = found.judged(found.counted(record.blocks))
    assert judged.verdict == tally_of(record, Objective("p99")).verdict
    assert judged.adjusted_p == judged.verdict.estimate.p_value


@pytest.mark.parametrize("adjustment", ADJUSTMENTS)
def test_more_claims_make_each_harder(adjustment: Adjustment) -> None:
    """Six blocks show one claim; of twenty they show none."""
    row = gains(0.2, blocks=6)
    alone = Family((P99,), adjustment).judged([row])
    of_many = Family((P99,) * 20, adjustment).judged([row] * 20)
    assert alone[0].verdict.kind is VerdictKind.BETTER
    assert {each.verdict.kind for each in of_many} == {VerdictKind.INCONCLUSIVE}


def test_a_claim_without_a_figure_is_left_out_and_takes_nothing_from_the_others() -> None:
    """Holm's rule is for the claims that are judged."""
    both = Family((P50, P99), "stepwise")
    (found,) = both.judged([(), gains(0.2)])
    assert found.claim == P99
    assert found == Family((P99,), "stepwise").judged([gains(0.2)])[0]


def test_a_block_without_a_figure_counts_for_the_other_claims() -> None:
    """If blocks may lack figures, each claim rests on the blocks that have its figure."""
    comparison = Comparison("contest", 12, Family((P50, P99), "stepwise"), needs_all=False)
    block = sample_record("better").blocks[0]
    counted = [
        Counted(block, (math.nan if place < 3 else gain, gain))
        for place, gain in enumerate(gains(0.2))
    ]
    assert [each.verdict.estimate.n for each in comparison.judged(counted)] == [7, 10]
