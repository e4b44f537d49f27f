"""One configuration by itself: a look, not a claim."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tuner.judge.load_point import Capacity, StudyLoad, load_point
from tuner.judge.plan import ASSUMED, Sampling, StudyPlan, plan_blocks
from tuner.judge.scoring import BASELINE
from tuner.measurement.bottleneck import busy_share, busy_share_in_slow_seconds
from tuner.measurement.gates import Gates
from tuner.measurement.window import Measurement, RawWindow
from tuner.phases.bench import Bench
from tuner.phases.block import Arm, BlockSpec, run_block
from tuner.phases.calibrate import limit_point, measure_capacity
from tuner.phases.probe import sampling_again
from tuner.phases.study import SATURATION_GATES, StudySpec, gated, probe_load

_ATTEMPTS = 3
"""Most blocks of a measurement, of which the last one counts."""


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

    With a latency limit the load point is the highest rate that meets it. A block without a valid
    window is measured again, if its windows show that longer ones, or another level of the busy
    cycles, leave enough requests.
    """
    saturated = replace(bench, gates=SATURATION_GATES)
    capacity = measure_capacity(saturated, bench.baseline)
    load = load_point(capacity, spec.rate_per_s)
    sampling = ASSUMED
    if bench.goals.at_one_rate:
        sampling, load = probe_load(bench, load, capacity)
    if bench.goals.seek:
        plan = _planned(bench, spec, load, ASSUMED)
        load = limit_point(gated(bench, plan), bench.baseline, bench.goals.seek, load, plan)
    windows: tuple[Measurement, ...] = ()
    for attempt in range(_ATTEMPTS):
        plan = _planned(bench, spec, load, sampling)
        bench.progress.phase("measuring", plan.confirm.cost_s(1))
        ready = replace(
            bench,
            gates=Gates(samples_needed=plan.samples_needed),
            rule=gated(bench, plan, sampling.level).rule,
        )
        seen: list[RawWindow] = []
        block = _block(bench, plan, load.rate_per_s, attempt)
        windows = run_block(ready, block, witness=seen.append).windows
        again = sampling_again(seen, bench.rule, sampling)
        if again is None or any(window.valid for window in windows):
            break
        sampling = again
    bench.store.set_ended()
    cores = bench.store.record().cores
    words = load.probed(busy_share_in_slow_seconds(windows, cores)).words(spec.server_cores)
    return Measured(capacity, load.rate_per_s, words, busy_share(windows, cores), windows)


def _block(bench: Bench, plan: StudyPlan, rate_per_s: float, index: int) -> BlockSpec:
    return BlockSpec(
        phase="aa",
        index=index,
        arms=(Arm(BASELINE, bench.baseline),),
        plan=plan.confirm,
        mode=bench.goals.mode,
        rate_per_s=rate_per_s,
        needs_all=False,
    )


def _planned(bench: Bench, spec: StudySpec, load: StudyLoad, sampling: Sampling) -> StudyPlan:
    whole = replace(sampling, slice_ms=0.0)
    return plan_blocks(
        bench.goals, load.rate_per_s, spec.time_s, exclusive=bench.exclusive, sampling=whole
    )
