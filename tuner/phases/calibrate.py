"""Before the search: the baseline's capacity, the load point, and the noise of identical arms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tuner.errors import HostError, InstrumentError
from tuner.goals.capacity import crossing, points
from tuner.goals.constraint import Constraint
from tuner.goals.objective import Objective
from tuner.judge.load_point import Capacity, StudyLoad, two_digits
from tuner.judge.plan import (
    CLOSED,
    FIXED,
    BlockPlan,
    Budget,
    Design,
    StudyPlan,
    for_slow_server,
)
from tuner.judge.scoring import BASELINE, counted_windows, differences
from tuner.phases.bench import Bench
from tuner.phases.block import Arm, BlockSpec, Witness, see_nothing
from tuner.phases.repeat import repeat_until_complete
from tuner.record.model import Block, Calibration
from tuner.space.configuration import Configuration
from tuner.stats.margin import NO_MARGIN, Margin
from tuner.stats.power import PooledSigma, blocks_within, minimum_detectable_effect, pooled_sigma
from tuner.stats.race import neighbour_correlation


def measure_capacity(bench: Bench, baseline: Configuration) -> Capacity:
    """Saturate the baseline in a closed loop, in a few short windows; in longer ones if it is slow.

    Raises:
        InstrumentError: a window has no answers.
    """
    found = _saturated(bench, baseline, CLOSED)
    longer = for_slow_server(CLOSED, found.per_s, bench.workload.requests_in_flight)
    return found if longer == CLOSED else _saturated(bench, baseline, longer)


def _saturated(bench: Bench, baseline: Configuration, plan: BlockPlan) -> Capacity:
    spec = BlockSpec(
        phase="capacity",
        index=0,
        arms=(Arm(BASELINE, baseline),),
        plan=replace(plan, exclusive=bench.exclusive),
        mode="closed",
        rate_per_s=0.0,
        needs_all=True,
    )
    bench.progress.phase("capacity of the baseline", spec.plan.cost_s(1))
    windows = repeat_until_complete(bench, spec).windows
    found = Capacity.of(windows, bench.store.record().cores)
    if found is None:
        raise InstrumentError("the baseline answers 0 requests/s, too few to measure")
    return found


def run_aa(
    bench: Bench,
    baseline: Configuration,
    rate_per_s: float,
    plan: StudyPlan,
    witness: Witness = see_nothing,
) -> list[Block]:
    """Measure blocks of identical instances, in the same way as candidates.

    ``witness`` sees each of their windows.

    Raises:
        InvalidBlockError: the baseline cannot hold this rate here.
    """
    labels = [BASELINE, *(f"twin{i}" for i in range(1, plan.aa_instances))]
    cost_s = plan.aa.cost_s(len(labels))
    bench.progress.phase("noise of identical instances (A/A)", plan.aa_blocks * cost_s)
    blocks = []
    for index in range(plan.aa_blocks):
        spec = BlockSpec(
            phase="aa",
            index=index,
            arms=tuple(Arm(label, baseline) for label in labels),
            plan=plan.aa,
            mode=bench.goals.mode,
            rate_per_s=rate_per_s,
            needs_all=True,
            seek=bench.goals.seek,
        )
        blocks.append(repeat_until_complete(bench, spec, witness=witness))
        bench.progress.step(
            f"A/A block {index + 1} of {plan.aa_blocks}", (plan.aa_blocks - index - 1) * cost_s
        )
    return blocks


def calibration(
    bench: Bench,
    blocks: Sequence[Block],
    capacity: Capacity,
    load: StudyLoad,
    *,
    cores: int,
    effect: float,
    budget: Budget,
    plan: StudyPlan,
    design: Design = FIXED,
) -> Calibration:
    """Return the noise, and what the planned blocks can see, from the A/A blocks.

    Args:
        bench: bench of the study.
        blocks: its A/A blocks.
        capacity: closed-loop capacity of the baseline.
        load: load point of the blocks.
        cores: number of the server's cores.
        effect: reduction to claim, as a share.
        budget: time of the study.
        plan: its plan.
        design: its design.
    """
    noises = [aa_differences(blocks, objective) for objective in bench.goals.objectives]
    sigmas = [pooled_sigma(differences) for differences in noises]
    sigma = sigmas[0]
    margin = bench.goals.margin
    count = planned_blocks(sigmas, effect, budget, plan, design, margin=margin)
    second = sigmas[1] if len(sigmas) > 1 else PooledSigma(0.0, sigma.degrees_of_freedom)
    warnings = []
    if capacity.generator_bound:
        warnings.append(
            "the generator was the bottleneck of the capacity measurement: the server can do more,"
            " so the load point is a smaller share of its capacity; give the generator more cores"
            " (--generator-cpus) or a host of its own (--inventory)"
        )
    return Calibration(
        capacity_per_s=capacity.per_s,
        generator_bound=capacity.generator_bound,
        rate_per_s=load.rate_per_s,
        rate_source=load.words(cores),
        busy_share=load.busy_share,
        sigma_d=sigma.sigma_d,
        sigma_d_upper=sigma.upper_limit(),
        degrees_of_freedom=sigma.degrees_of_freedom,
        half_width=sigma.half_width(count),
        minimum_detectable_effect=minimum_detectable_effect(
            sigma.upper_limit(), count, level=design.end_level(count)
        ),
        correlation=neighbour_correlation(_levels(blocks, bench.objective)),
        warnings=tuple(warnings),
        second_sigma_d=second.sigma_d,
        second_half_width=second.half_width(count),
        second_minimum_detectable_effect=minimum_detectable_effect(second.upper_limit(), count),
    )


def aa_differences(blocks: Sequence[Block], objective: Objective) -> list[list[list[float]]]:
    """Return log ratios of each two instances of every A/A block; see ``pooled_sigma``.

    Raises:
        InstrumentError: an instance has no figure.
    """
    found = [differences(block, objective) for block in blocks]
    if not all(math.isfinite(value) for block in found for row in block for value in row):
        raise InstrumentError(
            f"the {objective.words} of the baseline cannot be read on this host; choose another"
            " --objective"
        )
    return found


def _levels(blocks: Sequence[Block], objective: Objective) -> list[list[float]]:
    """Return the figure of every instance of every A/A block, in natural logarithms."""
    return [
        [objective.arm_ln(counted_windows(block, i.instance)) for i in block.instances]
        for block in blocks
    ]


def planned_blocks(
    sigmas: Sequence[PooledSigma],
    effect: float,
    budget: Budget,
    plan: StudyPlan,
    design: Design = FIXED,
    *,
    margin: Margin = NO_MARGIN,
) -> int:
    """Return the blocks of the confirmation: enough to claim an effect, if time allows.

    The effect is *better* with 80 % probability at the noise's upper limit. With two objectives the
    noisier one decides, and the minimum is one block higher. A sequential confirmation may end
    before the last of them.
    """
    least = design.least_of(len(sigmas))
    limit = max(least, budget.confirm_blocks(plan, design))
    upper = max(sigma.upper_limit() for sigma in sigmas)
    if not upper > 0:
        return least
    return max(least, blocks_within(limit, upper, effect, margin, design.end_level(limit)))


def limit_point(
    bench: Bench, baseline: Configuration, slo: Constraint, start: StudyLoad, plan: StudyPlan
) -> StudyLoad:
    """Return the rate at which the baseline just meets a latency limit, the start of every arm.

    Raises:
        HostError: it meets the limit at no tried rate.
    """
    spec = BlockSpec(
        phase="capacity",
        index=1,
        arms=(Arm(BASELINE, baseline),),
        plan=plan.confirm,
        mode="open",
        rate_per_s=start.rate_per_s,
        needs_all=False,
        seek=slo,
    )
    bench.progress.phase(f"highest rate with {slo.text}", plan.confirm.cost_s(1))
    windows = repeat_until_complete(bench, spec).windows
    seen = points(windows, slo)
    found = crossing(seen)
    if found is None or all(point.excess > 0 for point in seen):
        lowest = min(windows, key=lambda w: w.rate_per_s)
        raise HostError(
            f"the baseline does not meet {slo.text} at any tried rate: at"
            f" {lowest.rate_per_s:,.0f}/s it has {slo.metric.value(lowest):,.0f} µs; allow a longer"
            " one by --slo, or begin lower by --rate"
        )
    rule = f"where the baseline just has {slo.text}"
    return replace(start, rate_per_s=two_digits(math.exp(found.ln_rate)), rule=rule)
