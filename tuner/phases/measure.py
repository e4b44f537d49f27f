"""One configuration by itself: a look, not a claim."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tuner.judge.plan import plan_blocks
from tuner.judge.scoring import BASELINE
from tuner.measurement.window import Gates, Measurement
from tuner.phases.bench import Bench
from tuner.phases.block import Arm, BlockSpec, run_block
from tuner.phases.calibrate import Capacity, limit_point, load_point, measure_capacity
from tuner.phases.study import SATURATION_GATES, StudySpec, gated


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one block of windows of one instance."""

    capacity: Capacity
    rate_per_s: float
    rate_source: str
    windows: tuple[Measurement, ...]


def measure_one(bench: Bench, spec: StudySpec) -> Measured:
    """Measure the capacity, then one block of windows at the load point.

    With a latency limit the load point is the highest rate that meets it.
    """
    saturated = replace(bench, gates=SATURATION_GATES)
    capacity = measure_capacity(saturated, bench.baseline, spec.server_cores)
    rate_per_s, source = load_point(capacity, spec.rate_per_s)
    plan = plan_blocks(bench.goals, rate_per_s, spec.time_s, exclusive=bench.exclusive)
    if bench.goals.seek:
        seeking = gated(bench, plan)
        rate_per_s, source = limit_point(
            seeking, bench.baseline, bench.goals.seek, rate_per_s, plan
        )
    gates = Gates(samples_needed=plan.samples_needed)
    bench.progress.phase("measuring", plan.confirm.cost_s(1))
    block = run_block(
        replace(bench, gates=gates),
        BlockSpec(
            phase="aa",
            index=0,
            arms=(Arm(BASELINE, bench.baseline),),
            plan=plan.confirm,
            mode=bench.goals.mode,
            rate_per_s=rate_per_s,
            needs_all=False,
        ),
    )
    bench.store.set_ended()
    return Measured(capacity, rate_per_s, source, block.windows)
