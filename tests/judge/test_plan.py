"""The plan of a study's time, which is printed before the study starts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.goals.goals import Goals
from tuner.judge.plan import STALL_ALLOWANCE, BlockPlan, Budget, Overhead, plan_blocks

PERCENTILES = ("p50", "p75", "p99", "p99.9")
RATES = st.floats(10, 1e6)
TIMES = st.floats(30, 86_400)


def test_the_cost_of_a_block_is_its_deployment_its_windows_and_its_warm_ups() -> None:
    """Fresh instances warm up longer; between windows lies a short gap."""
    overhead = Overhead(deploy_s=3.0, gap_s=0.05)
    plan = BlockPlan(5, window_s=1.0, first_warmup_s=0.5, warmup_s=0.1, overhead=overhead)
    assert plan.measured_s(2) == 10.0
    assert plan.cost_s(2) == pytest.approx(3.0 + 10 * 1.05 + 2 * 0.5 + 8 * 0.1)


def test_at_a_high_rate_windows_are_short_and_hold_what_p99_needs() -> None:
    """20,000/s in a ten-minute study: 10,000 samples and an allowance for stalls.

    A window with a quarter of them counts, and in the confirmation with a tenth, since hosts get
    better and worse.
    """
    plan = plan_blocks(Goals.of("p99"), 20_000, 600)
    assert (plan.samples_needed, plan.samples_enough) == (2_500, 1_000)
    assert plan.search.window_s == pytest.approx(0.5)
    assert plan.look_samples == 625, "a look of the search claims nothing"
    assert (plan.search.rounds, plan.candidates) == (4, 8)
    assert plan.confirm.window_s == pytest.approx(0.8)
    assert plan.confirm.rounds == 11, "nine seconds of each arm, in many short windows"


def test_at_a_low_rate_windows_hold_fewer_samples_and_the_plan_says_how_many() -> None:
    """A window takes at most a hundredth of the study; the gate is lowered to what fits."""
    plan = plan_blocks(Goals.of("p99"), 500, 600)
    assert plan.confirm.window_s == 9.0
    assert plan.samples_needed == int(500 * 9 / STALL_ALLOWANCE) // 4


@given(st.sampled_from(PERCENTILES), RATES, TIMES)
def test_every_kind_of_window_can_hold_the_samples_that_the_gate_demands(
    name: str, rate_per_s: float, time_s: float
) -> None:
    """A gate that no window can pass would repeat blocks for ever."""
    plan = plan_blocks(Goals.of(name), rate_per_s, time_s)
    for block in (plan.aa, plan.confirm, plan.load_points):
        assert rate_per_s * block.window_s * 1.0001 >= plan.samples_needed * STALL_ALLOWANCE
    look_s = plan.search.window_s
    assert rate_per_s * look_s * 1.0001 >= plan.look_samples * STALL_ALLOWANCE


@given(st.sampled_from((*PERCENTILES, "throughput", "cpu", "memory")), RATES, TIMES)
def test_noise_is_measured_along_the_very_path_of_the_confirmation(
    name: str, rate_per_s: float, time_s: float
) -> None:
    """σ_d plans the confirmation, so its blocks have the same windows and rounds."""
    plan = plan_blocks(Goals.of(name), rate_per_s, time_s)
    assert plan.aa == plan.confirm
    assert plan.search.rounds >= 4, "a candidate can be dropped after four rounds at the earliest"


@given(RATES, TIMES)
def test_a_confirmation_has_at_least_the_blocks_of_a_finite_interval(
    rate_per_s: float, time_s: float
) -> None:
    """Six, however short the time."""
    plan = plan_blocks(Goals.of("p99"), rate_per_s, time_s)
    assert Budget(time_s).confirm_blocks(plan) >= 6


@given(RATES, TIMES)
def test_the_blocks_that_fit_do_fit(rate_per_s: float, time_s: float) -> None:
    """More than six never cost more than the confirmation's share."""
    plan = plan_blocks(Goals.of("p99"), rate_per_s, time_s)
    blocks = Budget(time_s).confirm_blocks(plan)
    cost_s = blocks * plan.confirm.cost_s(2) + 2 * plan.load_points.cost_s(2)
    assert blocks == 6 or cost_s <= Budget(time_s).confirm_s(plan)


@given(RATES, TIMES)
def test_without_a_search_its_time_goes_to_the_confirmation(
    rate_per_s: float, time_s: float
) -> None:
    """Never fewer blocks than with a search, and no more than fit next to calibration."""
    plan = plan_blocks(Goals.of("p99"), rate_per_s, time_s)
    alone, shared = Budget(time_s, search=False), Budget(time_s)
    blocks = alone.confirm_blocks(plan)
    assert blocks >= shared.confirm_blocks(plan)
    whole_s = plan.calibration_s + blocks * plan.confirm.cost_s(2) + plan.points_s
    assert blocks == shared.confirm_blocks(plan) or whole_s <= time_s


def test_a_comparison_of_ten_minutes_has_more_blocks_than_a_search_leaves() -> None:
    """At a usual rate, half as many again at least."""
    plan = plan_blocks(Goals.of("p99"), 10_000.0, 600.0)
    blocks = [Budget(600.0, search=search).confirm_blocks(plan) for search in (True, False)]
    assert blocks[1] >= 1.5 * blocks[0]


@given(RATES, TIMES, st.floats(0, 1_000), st.integers(6, 40))
def test_the_search_gets_what_is_left_and_at_least_one_block(
    rate_per_s: float, time_s: float, spent_s: float, blocks: int
) -> None:
    """The search gets the time that calibration and confirmation leave, at least one block."""
    plan = plan_blocks(Goals.of("p99"), rate_per_s, time_s)
    search_s = Budget(time_s).search_s(spent_s, plan, blocks)
    reserved_s = blocks * plan.confirm.cost_s(2) + 2 * plan.load_points.cost_s(2)
    one_block_s = plan.search.cost_s(plan.candidates + 1)
    assert search_s >= one_block_s
    assert search_s == one_block_s or spent_s + search_s + reserved_s <= time_s * (1 + 1e-9)


def test_most_of_a_block_is_measuring() -> None:
    """At the planned cost, at least 75 % of a search block and 85 % of a confirmation block."""
    plan = plan_blocks(Goals.of("p99"), 5_000, 600)
    search, confirm = plan.search, plan.confirm
    assert search.measured_s(6) / search.cost_s(6) >= 0.75
    assert confirm.measured_s(2) / confirm.cost_s(2) >= 0.85


DEAR = st.builds(Overhead, st.floats(0.5, 4.5), st.floats(0.01, 0.05))


@given(st.sampled_from(PERCENTILES), st.floats(200, 1e6), st.floats(600, 86_400))
def test_over_ssh_ten_minutes_are_enough_for_most_of_them_to_be_measuring(
    name: str, rate_per_s: float, time_s: float
) -> None:
    """At what a deployment and a gap cost there, with a fiftieth for what is between blocks."""
    plan = plan_blocks(Goals.of(name), rate_per_s, time_s, overhead=Overhead(2.0, 0.03))
    assert plan.search.share(plan.candidates + 1) >= 0.77
    assert plan.search_of(3).share(4) >= 0.77
    assert plan.confirm.share(2) >= 0.77


@given(st.sampled_from(PERCENTILES), st.floats(100, 1e6), st.floats(900, 86_400), DEAR)
def test_where_a_deployment_is_dear_blocks_are_longer(
    name: str, rate_per_s: float, time_s: float, overhead: Overhead
) -> None:
    """Search and confirmation measure three quarters of their time from a quarter of an hour on."""
    plan = plan_blocks(Goals.of(name), rate_per_s, time_s, overhead=overhead)
    assert plan.search.share(plan.candidates + 1) >= 0.75
    assert plan.confirm.share(2) >= 0.75


@given(st.sampled_from(PERCENTILES), st.floats(100, 1e6), st.floats(600, 86_400), st.integers(1, 8))
def test_a_block_of_few_candidates_measures_them_longer_for_the_same_deployment(
    name: str, rate_per_s: float, time_s: float, candidates: int
) -> None:
    """As the last blocks of a search are; it takes no more time than a full one."""
    plan = plan_blocks(Goals.of(name), rate_per_s, time_s, overhead=Overhead(2.0, 0.03))
    full_s, short = plan.search.cost_s(plan.candidates + 1), plan.search_of(candidates)
    assert short.share(candidates + 1) >= 0.75
    assert short.cost_s(candidates + 1) <= full_s * (1 + 1e-9)
    assert short.measured_s(1) >= plan.search.measured_s(1) * (1 - 1e-9)
    assert plan.search_of(plan.candidates) == plan.search


@given(RATES, TIMES, DEAR)
def test_a_longer_block_measures_no_less_of_any_arm(
    rate_per_s: float, time_s: float, overhead: Overhead
) -> None:
    """And takes no more of the study than leaves room for the blocks of a claim."""
    plan = plan_blocks(Goals.of("p99"), rate_per_s, time_s, overhead=overhead).confirm
    cheap = plan_blocks(Goals.of("p99"), rate_per_s, time_s, overhead=Overhead(0, 0)).confirm
    assert plan.measured_s(1) >= cheap.measured_s(1) * (1 - 1e-9)
    longer = plan.measured_s(1) > cheap.measured_s(1) * (1 + 1e-9)
    assert not longer or plan.cost_s(2) <= time_s / 16


def test_throughput_needs_no_tail() -> None:
    """Closed loops are short, however low the rate."""
    plan = plan_blocks(Goals.of("throughput"), 0.1, 600)
    assert plan.search.window_s <= 1.0
    assert plan.samples_needed == 1_000
