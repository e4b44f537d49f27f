"""Several arms in common blocks, on the simulated lab."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import pytest

from tests.phases.rig import HAND, QUIET, STOCK, rig
from tuner.errors import HostError
from tuner.judge.comparison import Comparison, Judged
from tuner.judge.contest import (
    arms_figures,
    block_cost_s,
    complete,
    family,
    least_blocks,
    pairs,
    plan_contest,
)
from tuner.judge.support import LEAST_STARTS
from tuner.phases.block import Arm
from tuner.phases.contest import (
    ContestLoad,
    measure_capacities,
    probe_contest,
    quick_calibration,
    run_contest,
)
from tuner.record.contenders import Contender
from tuner.record.model import Record
from tuner.space.configuration import Value
from tuner.stats.margin import DEFAULT_BAND
from tuner.testing.lab import Effect, Faults
from tuner.testing.simulate import SimulatedStalls

GAIN = 0.25
ARMS = (Arm("one-stock", STOCK), Arm("one-hand", HAND))
TEAM = (Contender("one-stock", "one", "stock", "a"), Contender("one-hand", "one", "hand", "b"))


def hand_is_faster(values: Mapping[str, Value]) -> Effect:
    """``hand`` takes 22 % of the latency away, and half of the CPU time."""
    hand = values == HAND.values
    return Effect(ln_latency=-GAIN * hand, capacity_per_s=4_000.0, cpu_us=50.0 if hand else 100.0)


@cache
def met() -> Record:
    """Return one contest that other tests look at."""
    made = rig(truth=hand_is_faster)
    plan = plan_contest(60.0, 2, 2_000.0, claims=4, mode="open", ladder=False)
    run_contest(made.bench(), ARMS, plan, ContestLoad(2_000.0))
    return made.record()


def judged(record: Record) -> tuple[Judged, ...]:
    """Return the claims of a contest of the two."""
    found = Comparison("contest", 30, family(TEAM, "open", DEFAULT_BAND), needs_all=False)
    return found.judged(found.counted(record.blocks))


def test_a_true_difference_is_claimed_and_its_size_is_right() -> None:
    """p99 and CPU are better, with intervals that hold the truth; memory is equal."""
    found = {row.objective.name: row for row in judged(met())}
    assert {f: str(r.verdict.kind) for f, r in found.items()} == {
        "p50": "better",
        "p99": "better",
        "cpu": "better",
        "memory": "equivalent",
    }
    assert found["p99"].verdict.estimate.low < math.exp(-GAIN) < found["p99"].verdict.estimate.high
    assert found["p99"].adjusted_p <= 0.05


def test_no_difference_is_no_claim() -> None:
    """Over ten contests of equal arms nothing is called better or worse by latency."""
    claims = []
    for seed in range(10):
        made = rig(seed=seed, truth=lambda _: Effect(capacity_per_s=4_000.0), noise=QUIET)
        plan = plan_contest(20.0, 2, 2_000.0, claims=4, mode="open", ladder=False)
        run_contest(made.bench(), ARMS, plan, ContestLoad(2_000.0))
        rows = [row for row in judged(made.record()) if row.objective.quantile]
        claims += [row for row in rows if str(row.verdict.kind) in {"better", "worse"}]
    assert claims == []


def test_every_arm_has_its_figures() -> None:
    """Every figure is there; none failed; the rate was served."""
    blocks = complete(met().blocks)
    (found,) = arms_figures(blocks, ["one-hand"])
    assert found.blocks == len(blocks)
    assert found.latency_us["p50"] < found.latency_us["p99"] <= found.latency_us["max"]
    assert (found.error_share, found.missed, found.refused) == (0.0, 0, "")
    assert math.isclose(found.answered_per_s, 2_000, rel_tol=0.05)


def test_an_arm_that_cannot_serve_the_rate_counts_as_it_is() -> None:
    """An arm that cannot serve the rate completes its blocks and has its high latency."""

    def stock_is_weak(values: Mapping[str, Value]) -> Effect:
        return Effect(capacity_per_s=4_000.0 if values == HAND.values else 1_000.0)

    made = rig(truth=stock_is_weak)
    plan = plan_contest(20.0, 2, 2_000.0, claims=1, mode="open", ladder=False)
    run_contest(made.bench(), ARMS, plan, ContestLoad(2_000.0))
    blocks = complete(made.record().blocks)
    assert len(blocks) == plan.blocks
    weak, strong = arms_figures(blocks, [arm.label for arm in ARMS])
    assert weak.latency_us["p99"] > 100 * strong.latency_us["p99"]


def test_a_contest_that_ended_early_may_be_resumed_in_a_better_hour() -> None:
    """Half of its time goes into invalid blocks, which do not count for the next run."""
    made = rig(truth=hand_is_faster, faults=Faults(starved=range(10_000)))
    plan = plan_contest(20.0, 2, 2_000.0, claims=1, mode="open", ladder=False)
    assert not run_contest(made.bench(), ARMS, plan, ContestLoad(2_000.0))
    blocks = made.record().blocks
    assert {block.state for block in blocks} == {"invalid"}
    spent_s = sum(block.ended_unix_s - block.started_unix_s for block in blocks)
    planned_s = plan.cost_s(len(ARMS))
    assert 0.5 * planned_s <= spent_s < 0.5 * planned_s + 2 * planned_s / plan.blocks
    made.host.faults = Faults()
    assert run_contest(made.bench(), ARMS, plan, ContestLoad(2_000.0))
    assert len(complete(made.record().blocks)) == plan.blocks


def test_a_contest_bears_a_host_that_got_worse() -> None:
    """Windows with a tenth of the planned samples count; the plan would not change any more."""
    made = rig(truth=hand_is_faster, stalls=SimulatedStalls(per_s=200.0, mean_us=8_000.0))
    plan = plan_contest(200.0, 2, 2_000.0, claims=1, mode="open", ladder=False)
    assert run_contest(made.bench(), ARMS, plan, ContestLoad(2_000.0, level=4))
    blocks = made.record().blocks
    assert [block.state for block in blocks] == ["complete"] * plan.blocks
    least = min(window.effective or 0.0 for block in blocks for window in block.windows)
    assert 0.1 * plan.samples_needed < least < 0.25 * plan.samples_needed


def test_an_arm_that_is_refused_does_not_stop_the_others() -> None:
    """A refused arm keeps the server's message, and the other arms have their capacities."""
    words = "unknown directive"
    faults = Faults(refuse=lambda values: words if values == STOCK.values else "")
    made = rig(truth=hand_is_faster, faults=faults)
    found = measure_capacities(made.bench(), ARMS)
    assert found.refused == {"one-stock": words}
    assert set(found.per_s) == {"one-hand"}
    assert 3_500 < found.per_s["one-hand"] < 4_500


def test_where_no_arm_is_accepted_there_is_nothing_to_compare() -> None:
    """The server's words say why."""
    made = rig(truth=hand_is_faster, faults=Faults(refuse=lambda _: "no such module"))
    with pytest.raises(HostError, match="no such module"):
        measure_capacities(made.bench(), ARMS)


def stock_fills_its_core(values: Mapping[str, Value]) -> Effect:
    """``stock`` is the weaker one, and needs more CPU time in an open loop."""
    if values == HAND.values:
        return Effect(capacity_per_s=8_000.0, cpu_us=122.0)
    return Effect(capacity_per_s=4_000.0, cpu_us=245.0, open_loop_cpu=1.18)


def test_the_cores_of_the_weakest_arm_decide_the_rate() -> None:
    """They are busy for 70 %; the record has the share."""
    made = rig(truth=stock_fills_its_core)
    bench = made.bench()
    load = probe_contest(bench, ARMS, measure_capacities(bench, ARMS), None, "wanted")
    assert load.rate_per_s == pytest.approx(2_400, rel=0.05)
    assert load.busy_share == pytest.approx(0.7, abs=0.03)
    assert "of what the weakest arm can do here; its core is " in load.source
    assert load.slice_ms > 0


def test_a_wanted_rate_that_every_arm_serves_is_kept() -> None:
    """Published and wanted rates stay as they are, in slices if the cores have idle moments."""
    made = rig(truth=stock_fills_its_core)
    bench = made.bench()
    seen = measure_capacities(bench, ARMS)
    load = probe_contest(bench, ARMS, seen, 1_000.0, "published")
    assert load.rate_per_s == 1_000
    assert load.source.startswith("as published, 2")
    assert load.slice_ms > 0


def test_busy_cores_of_the_weakest_arm_keep_windows_of_their_own() -> None:
    """Its busy cycles hardly ever end, so no request of a slice would count."""

    def busier(values: Mapping[str, Value]) -> Effect:
        return replace(stock_fills_its_core(values), open_loop_cpu=1.4)

    made = rig(truth=busier)
    bench = made.bench()
    load = probe_contest(bench, ARMS, measure_capacities(bench, ARMS), 2_700.0, "wanted")
    assert load.rate_per_s == 2_700
    assert load.busy_share is not None
    assert load.busy_share > 0.8
    assert (load.slice_ms, load.level) == (0.0, None)


def test_a_search_without_a_claim_needs_two_blocks_of_noise() -> None:
    """The common blocks judge, so nothing more is spent on the noise."""
    made = rig(truth=hand_is_faster)
    quick_calibration(made.bench(), made.spec)
    record = made.record()
    assert len([b for b in record.blocks if b.phase == "aa"]) == 2
    assert record.calibration is not None
    assert math.isclose(record.calibration.rate_per_s, 2_800, rel_tol=0.15)


def test_enough_blocks_for_the_last_claim_of_the_family() -> None:
    """2 / 2^n is within the level that Holm leaves to the first of these claims."""
    assert least_blocks(1) == 6
    for claims in (4, 16, 36):
        blocks = least_blocks(claims)
        assert 2 * 0.5**blocks * claims <= 0.05 < 2 * 0.5 ** (blocks - 1) * claims


@pytest.mark.parametrize("time_s", [10.0, 60.0, 600.0, 3_600.0])
@pytest.mark.parametrize("ladder", [False, True])
def test_the_plan_fits_the_time_or_is_the_least_that_says_anything(
    time_s: float, ladder: bool
) -> None:
    """More time is more blocks and longer windows, never less than the claims need."""
    plan = plan_contest(time_s, 6, 2_000.0, claims=36, mode="open", ladder=ladder)
    least = plan_contest(1.0, 6, 2_000.0, claims=36, mode="open", ladder=ladder)
    assert plan.blocks >= least_blocks(36)
    assert plan.cost_s(6) <= max(1.2 * time_s, least.cost_s(6))
    assert (plan.ladder is not None) == ladder
    assert not ladder or (plan.passes >= 3 and plan.rungs >= 6)


def test_a_comparison_with_time_has_the_starts_that_a_gain_needs() -> None:
    """17 blocks, with fewer rounds rather than fewer blocks; without the time there are fewer."""
    for time_s in (120.0, 600.0):
        plan = plan_contest(time_s, 2, 20_000.0, claims=4, mode="open", ladder=False)
        assert plan.blocks >= LEAST_STARTS
        assert plan.cost_s(2) <= time_s
    brief = plan_contest(40.0, 2, 20_000.0, claims=4, mode="open", ladder=False)
    assert least_blocks(4) <= brief.blocks < LEAST_STARTS


def test_more_time_is_more_starts_rather_than_longer_blocks() -> None:
    """Blocks are as short as they can be without losing a fifth of the measuring time."""
    plan = plan_contest(1_800.0, 5, 500.0, claims=24, mode="open", ladder=False)
    assert plan.blocks >= 2 * LEAST_STARTS
    measured_s = plan.blocks * plan.block.measured_s(5)
    longer = replace(plan.block, rounds=4)
    assert measured_s > 0.8 * 1_800.0 * longer.measured_s(5) / block_cost_s(longer, 5)
    assert plan.cost_s(5) <= 1_800.0


def test_a_ladder_leaves_the_blocks_what_it_does_not_need() -> None:
    """Rates and passes of a ladder are limited."""
    time_s = 5_000.0
    plan = plan_contest(time_s, 15, 12_000.0, claims=180, mode="open", ladder=True)
    assert plan.ladder is not None
    assert plan.rungs * plan.passes * block_cost_s(plan.ladder, 15) < 0.6 * time_s
    assert 0.9 * time_s < plan.cost_s(15) <= time_s


def test_windows_of_a_closed_loop_are_as_long_as_the_slowest_arm_needs() -> None:
    """1,000 answers where the time holds them, and all requests in flight answered before."""
    fast, slow = (
        plan_contest(600.0, 2, per_s, claims=3, mode="closed", ladder=False, in_flight=1_000)
        for per_s in (20_000.0, 800.0)
    )
    assert (fast.block.window_s, fast.block.warmup_s, fast.samples_needed) == (0.5, 0.1, 1_000)
    assert (slow.block.window_s, slow.block.warmup_s, slow.samples_needed) == (1.25, 1.25, 1_000)
    assert slow.block.first_warmup_s == 1.25
    brief = plan_contest(20.0, 2, 100.0, claims=3, mode="closed", ladder=False, in_flight=1_000)
    assert brief.block.window_s == brief.block.warmup_s == 2.0
    assert brief.samples_needed == 200


def test_a_window_of_a_closed_loop_is_as_long_as_what_surrounds_it() -> None:
    """As long as its warm-up, and as the time until its last request is answered."""
    time_s = 2_000.0
    plan = plan_contest(time_s, 4, 3_000.0, claims=12, mode="closed", ladder=False, in_flight=2_500)
    assert plan.block.window_s == plan.block.warmup_s == pytest.approx(2_500 / 3_000)
    assert plan.block.overhead.gap_s > 2_500 / 3_000
    assert plan.block.share(4) > 0.25
    assert plan.cost_s(4) <= time_s


def test_like_is_compared_with_like() -> None:
    """Within a server all, across servers those of one kind; two arms always."""
    both = [Contender(f"{s}-{k}", s, k, "") for s in "ab" for k in ("stock", "tuned")]
    assert set(pairs(both)) == {
        ("a-stock", "a-tuned"),
        ("b-stock", "b-tuned"),
        ("a-stock", "b-stock"),
        ("a-tuned", "b-tuned"),
    }
    assert pairs([replace(both[0], kind="x.yaml"), both[3]]) == (("a-stock", "b-tuned"),)
