"""A claim about the typical block is not made against what all requests and all starts say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.measurement.windows import GATES, block, raw_window
from tuner.goals.objective import Objective
from tuner.judge.comparison import Comparison, Family, RatioClaim
from tuner.judge.confirmation import tally
from tuner.judge.scoring import window_id
from tuner.judge.support import LEAST_STARTS, Support
from tuner.judge.whole import Arms, contradiction, whole_arms
from tuner.measurement.measuring import measure
from tuner.measurement.window import Measurement
from tuner.record.contenders import Evidence
from tuner.record.model import Block
from tuner.stats.margin import DEFAULT_BAND
from tuner.stats.sequential import Stakes
from tuner.stats.verdict import Verdict, VerdictKind

P99 = Objective("p99")
BLOCKS, ROUNDS = 12, 8


def window(arm: str, round_: int, level_us: float) -> Measurement:
    """Return a window whose latencies are spread evenly up to a p99 of ``level_us``."""
    latencies = [level_us * place / 198 for place in range(1, 201)]
    name = window_id(round_, arm)
    raw = raw_window(latencies, window_id=name, instance=arm, server_cpu_s=level_us / 1e6)
    return measure(raw, None, GATES)


def arms(
    gain: float = 0.9,
    windows: Mapping[tuple[int, int], float] = {},
    starts: Mapping[int, float] = {},
) -> list[Arms]:
    """Return blocks of a candidate at ``gain`` times the baseline.

    Args:
        gain: ratio of the candidate's figure.
        windows: factor of single windows of the candidate, by block and round.
        starts: factor of whole starts of the candidate, by block.
    """
    noise = [1.0 + 0.01 * math.sin(7 * place) for place in range(BLOCKS)]
    return [
        (
            [window("baseline", r, 1000 * noise[b]) for r in range(ROUNDS)],
            [
                window("b", r, 1000 * gain * windows.get((b, r), 1.0) * starts.get(b, 1.0))
                for r in range(ROUNDS)
            ],
        )
        for b in range(BLOCKS)
    ]


def verdict(
    pairs: list[Arms], evidence: Evidence, objective: Objective = P99, *, mutual: bool = False
) -> Verdict:
    """Return the verdict on the candidate."""
    blocks: list[Block] = [
        block([*pair[0], *pair[1]], number=number, phase="confirm")
        for number, pair in enumerate(pairs)
    ]
    claims = Family((RatioClaim("b", "baseline", objective),), "simultaneous")
    comparison = Comparison("confirm", BLOCKS, claims, support=Support(evidence, mutual=mutual))
    (judged,) = comparison.judged(comparison.counted(blocks))
    return judged.verdict


def test_an_honest_gain_is_better_by_either_rule() -> None:
    """All requests and the worst starts agree with the typical block."""
    pairs = arms()
    assert verdict(pairs, "typical") == verdict(pairs, "whole")
    assert verdict(pairs, "whole").kind is VerdictKind.BETTER


def test_a_few_very_slow_windows_take_the_claim_away() -> None:
    """No block's typical window shows them; the p99 of all requests does."""
    pairs = arms(windows={(place, 3): 20.0 for place in (1, 4, 6, 9, 11)})
    assert verdict(pairs, "typical").kind is VerdictKind.BETTER
    found = verdict(pairs, "whole")
    assert found.kind is VerdictKind.INCONCLUSIVE
    assert found.estimate == verdict(pairs, "typical").estimate
    words = "Inconclusive: p99 of all requests together is 14.7 times the baseline's (1.01 ms → "
    assert found.sentence.startswith(words)
    assert "The typical block alone would say: better: p99 is 10" in found.sentence


def test_a_few_bad_starts_take_the_claim_away() -> None:
    """Two starts of twelve are a third slower, which the p99 of all requests hardly shows."""
    pairs = arms(0.8, starts={2: 1.35, 7: 1.35})
    whole = whole_arms(P99, pairs)
    assert whole.pooled[1] / whole.pooled[0] < 1.03
    assert whole.worst == 2
    assert whole.worst_starts[1] / whole.worst_starts[0] == pytest.approx(1.07, abs=0.01)
    assert verdict(pairs, "typical").kind is VerdictKind.BETTER
    assert verdict(pairs, "whole").kind is VerdictKind.INCONCLUSIVE


def test_a_sequential_confirmation_goes_on_while_whole_arms_contradict() -> None:
    """Without the slow windows it ends before the last block; with them it does not."""

    def blocks_used(pairs: list[Arms]) -> int:
        blocks = [
            block([*pair[0], *pair[1]], number=number, phase="confirm")
            for number, pair in enumerate(pairs)
        ]
        claims = Family((RatioClaim("b", "baseline", P99),), "simultaneous", Stakes(0.01))
        comparison = Comparison("confirm", BLOCKS, claims, support=Support("whole"))
        return tally(comparison.counted(blocks), comparison).blocks

    assert blocks_used(arms(0.7)) < BLOCKS
    slow = {(place, r): 20.0 for place in range(0, BLOCKS, 3) for r in (3, 5)}
    assert blocks_used(arms(0.7, windows=slow)) == BLOCKS


def swapped(pairs: list[Arms]) -> list[Arms]:
    """Return the pairs with the slow windows in the baseline."""
    return [
        ([replace(w, instance="baseline") for w in own], [replace(w, instance="b") for w in base])
        for base, own in pairs
    ]


def test_between_servers_worse_is_a_gain_of_the_other_one() -> None:
    """A few very slow windows of the faster server take its gain away, from either side."""
    pairs = arms(windows={(place, 3): 20.0 for place in (1, 4, 6, 9, 11)})
    assert verdict(swapped(pairs), "typical").kind is VerdictKind.WORSE
    assert verdict(swapped(pairs), "whole").kind is VerdictKind.WORSE, "a study of earlier versions"
    rules: list[tuple[Evidence, bool]] = [("whole", True), ("starts", False), ("starts", True)]
    for evidence, mutual in rules:
        found = verdict(swapped(pairs), evidence, mutual=mutual)
        assert found.kind is VerdictKind.INCONCLUSIVE
        assert "p99 of all requests together is 93.2 % lower than" in found.sentence


def test_a_gain_between_servers_needs_enough_starts_on_either_side() -> None:
    """12 starts support no gain, whichever server has it; a loss in a study needs none."""
    for pairs in (arms(0.8), arms(1.2)):
        found = verdict(pairs, "starts", mutual=True)
        assert found.kind is VerdictKind.INCONCLUSIVE
        words = f"12 starts of each arm are too few to rule out bad ones: {LEAST_STARTS} are needed"
        assert words in found.sentence
    assert verdict(arms(1.2), "starts").kind is VerdictKind.WORSE


def test_worse_equivalent_and_inconclusive_verdicts_stay() -> None:
    """In studies of earlier versions only *better* needs the whole arms."""
    slow = {(place, 3): 20.0 for place in (1, 4, 6, 9, 11)}
    for gain in (1.2, 1.0, 0.97):
        pairs = arms(gain, windows=slow)
        assert verdict(pairs, "whole") == verdict(pairs, "typical")


def test_every_figure_has_a_whole_of_its_own_kind() -> None:
    """CPU time by requests, memory by windows, throughput by time; a capacity has starts only."""
    pairs = arms(0.5)
    for name, ratio in (("p50", 0.5), ("cpu", 0.5), ("memory", 1.0), ("throughput", 1.0)):
        baseline, candidate = whole_arms(Objective(name), pairs).pooled
        assert candidate / baseline == pytest.approx(ratio, rel=0.02)
    assert whole_arms(Objective("cpu"), pairs).pooled[0] == pytest.approx(5.0, rel=0.02)
    assert math.isnan(whole_arms(Objective.capacity("p99<5ms"), pairs).pooled[0])


def test_where_more_is_better_less_is_the_contradiction() -> None:
    """The direction follows the objective."""
    whole = replace(whole_arms(P99, arms()), pooled=(100.0, 90.0), worst_starts=(1.0, 1.0))
    assert contradiction(P99, whole, DEFAULT_BAND) == ""
    assert "10.0 % lower" in contradiction(Objective("throughput"), whole, DEFAULT_BAND)


def test_an_excess_within_the_margin_does_not_contradict() -> None:
    """Beyond it does."""
    whole = replace(whole_arms(P99, arms()), worst_starts=(1.0, 1.0))
    assert contradiction(P99, replace(whole, pooled=(1000.0, 1029.0)), DEFAULT_BAND) == ""
    assert contradiction(P99, replace(whole, pooled=(1000.0, 1031.0)), DEFAULT_BAND) != ""


def test_raw_latencies_that_are_shown_to_be_worse_contradict() -> None:
    """Stall-free figures say better, and all requests with those that stalls touched say worse."""
    pairs: list[Arms] = [
        (base, [replace(w, raw=replace(w.raw, p99_us=1.5 * w.raw.p99_us)) for w in own])
        for base, own in arms()
    ]
    assert verdict(pairs, "typical").kind is VerdictKind.BETTER
    found = verdict(pairs, "whole")
    assert found.kind is VerdictKind.INCONCLUSIVE
    assert found.sentence.startswith("Inconclusive: p99 with the requests that stalls touched is ")


def test_starts_that_are_too_few_hide_much() -> None:
    """6 starts miss a kind of start that comes in 39 % with a probability of 5 %, 32 in 9 %."""
    assert whole_arms(P99, arms()[:6]).most_hidden_share == pytest.approx(0.393, abs=0.001)
    assert replace(whole_arms(P99, arms()), starts=32).most_hidden_share == pytest.approx(
        0.089, abs=0.001
    )
