"""One configuration by itself: a look, not a claim."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tuner.judge.load_point import Capacity, load_point
from tuner.judge.plan import plan_blocks
from tuner.judge.scoring import BASELINE
from tuner.measurement.bottleneck import busy_share
from tuner.measurement.window import Gates, Measurement
from tuner.phases.bench import Bench
from tuner.phases.block import Arm, BlockSpec, run_block
from tuner.phases.calibrate import limit_point, measure_capacity
from tuner.phases.study import SATURATION_GATES, StudySpec, gated, probe_load


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one block of windows of one instance."""

    capacity: Capacity
    rate_per_s: float
    rate_source: str
    busy_share: float | None
    """Busy share of the server's cores at the rate; None if unknown."""
    windows: tuple[Measurement, ...]


def measure_one(bench: Bench, spec: StudySpec) -> Measured:
    """Measure the capacity, then one block of windows at the load point.

    With a latency limit the load point is the highest rate that meets it.
    """
    saturated = replace(bench, gates=SATURATION_GATES)
    capacity = measure_capacity(saturated, bench.baseline)
    load = load_point(capacity, spec.rate_per_s)
    if not load.given and bench.goals.mode == "open" and not bench.goals.seek:
        _, load = probe_load(bench, load, capacity)
    plan = plan_blocks(bench.goals, load.rate_per_s, spec.time_s, exclusive=bench.exclusive)
    if bench.goals.seek:
        load = limit_point(gated(bench, plan), bench.baseline, bench.goals.seek, load, plan)
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
            rate_per_s=load.rate_per_s,
            needs_all=False,
        ),
    )
    bench.store.set_ended()
    busy = busy_share(block.windows, bench.store.record().cores)
    load = load.probed(busy)
    return Measured(capacity, load.rate_per_s, load.words(spec.server_cores), busy, block.windows)
