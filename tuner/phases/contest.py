"""Several arms in common blocks: the capacity of each, then all at one rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tuner.errors import HostError
from tuner.goals.metric import Metric
from tuner.judge.contest import ContestPlan, block_cost_s
from tuner.judge.load_point import BUSIEST, Capacity, contest_load, load_point
from tuner.judge.plan import (
    BlockPlan,
    Sampling,
    StudyPlan,
    for_slow_server,
    plan_blocks,
    samples_that_count,
)
from tuner.judge.scoring import windows_of
from tuner.measurement.gates import Gates
from tuner.measurement.instrument import Mode
from tuner.measurement.stalls import CYCLES, SPANS
from tuner.phases.bench import Bench
from tuner.phases.block import Arm, BlockSpec
from tuner.phases.calibrate import measure_capacity
from tuner.phases.compare import PlannedBlocks, run_blocks
from tuner.phases.probe import OverloadedError, sampling_of, settle
from tuner.phases.repeat import repeat_until_complete
from tuner.phases.study import (
    SATURATION_GATES,
    Calibrated,
    StudySpec,
    gated,
    keep_calibration,
    measure_aa,
    seeking,
)

CAPACITY = BlockPlan(rounds=3, window_s=0.5, first_warmup_s=0.4, warmup_s=0.1)


_P99 = Metric("p99")


@dataclass(frozen=True, slots=True)
class ContestLoad:
    """The load of all arms of a contest; see ``tuner.record.contenders.Contest``."""

    rate_per_s: float
    """Offered rate; ignored in a closed loop."""
    slice_ms: float = 0.0
    level: int | None = None
    source: str = ""
    """The rule behind the rate, in words."""
    busy_share: float | None = None


CLOSED_LOOP = ContestLoad(0.0, source="as much as is answered, in a closed loop")


@dataclass(frozen=True, slots=True)
class Capacities:
    """Closed-loop throughput of the accepted arms, by label."""

    per_s: dict[str, float]
    generator_bound: tuple[str, ...]
    """Arms with a higher capacity, because the generator was the limit."""
    refused: dict[str, str]
    """The server's messages for refused arms, by label."""
    busy_shares: Mapping[str, float | None] = field(default_factory=dict)
    """Busy share of the server's cores in it, by label."""

    @property
    def weakest(self) -> str:
        """Label of the arm with the lowest capacity."""
        return min(self.per_s, key=self.per_s.__getitem__)

    def of(self, label: str) -> Capacity:
        """Return the capacity of one arm."""
        return Capacity(
            self.per_s[label], label in self.generator_bound, self.busy_shares.get(label)
        )


def measure_capacities(bench: Bench, arms: Sequence[Arm]) -> Capacities:
    """Saturate every arm in a closed loop, in common rounds; in longer ones if one is slow.

    Raises:
        HostError: no arm is accepted, or none answers.
        InstrumentError: the generator failed repeatedly.
    """
    found = _saturated(bench, arms, CAPACITY)
    weakest_per_s = found.per_s[found.weakest]
    longer = for_slow_server(CAPACITY, weakest_per_s, bench.workload.requests_in_flight)
    if longer != CAPACITY:
        found = _saturated(bench, arms, longer)
    for label, per_s in found.per_s.items():
        note = ", the generator's limit" if label in found.generator_bound else ""
        bench.progress.note(f"{label}: {per_s:,.0f} requests/s{note}")
    for label, words in found.refused.items():
        bench.progress.note(f"{label} is refused by the server: {words}")
    return found


def _saturated(bench: Bench, arms: Sequence[Arm], plan: BlockPlan) -> Capacities:
    bench.progress.phase("capacity of every arm", block_cost_s(plan, len(arms)))
    spec = BlockSpec(
        phase="capacity",
        index=0,
        arms=tuple(arms),
        plan=plan,
        mode="closed",
        rate_per_s=0.0,
        needs_all=False,
    )
    # Failed answers are a result here, and not a reason to repeat.
    gates = replace(SATURATION_GATES, error_share=1.0, samples_needed=1)
    block = repeat_until_complete(replace(bench, gates=gates, rule=None), spec)
    cores = bench.store.record().cores
    seen = {arm.label: Capacity.of(windows_of(block, arm.label), cores) for arm in arms}
    found = {label: capacity for label, capacity in seen.items() if capacity is not None}
    refused = {i.instance: i.message for i in block.instances if i.state == "refused"}
    if not found:
        raise HostError("no arm answers; " + "; ".join(refused.values()))
    return Capacities(
        {label: capacity.per_s for label, capacity in found.items()},
        tuple(label for label, capacity in found.items() if capacity.generator_bound),
        refused,
        {label: capacity.busy_share for label, capacity in found.items()},
    )


def quick_calibration(bench: Bench, spec: StudySpec) -> Calibrated:
    """Calibrate with two A/A blocks, for a search that another phase judges.

    Existing results are taken from the record.

    Raises:
        HostError, InstrumentError: no measurement is possible here, or no difference is detectable.
    """
    known = bench.store.record().calibration
    if known is not None:
        sampling = sampling_of(known, bench)
        plan = _quick(bench, known.rate_per_s, spec, sampling)
        return Calibrated(gated(bench, plan, sampling.level), known, plan, 0)
    capacity = measure_capacity(replace(bench, gates=SATURATION_GATES), bench.baseline)
    aa = measure_aa(
        bench,
        lambda rate_per_s, sampling: _quick(bench, rate_per_s, spec, sampling),
        load_point(capacity, spec.rate_per_s),
        capacity,
    )
    found = keep_calibration(bench, spec, capacity, aa)
    return Calibrated(gated(bench, aa.plan, aa.sampling.level), found, aa.plan, 0)


def _quick(bench: Bench, rate_per_s: float, spec: StudySpec, sampling: Sampling) -> StudyPlan:
    plan = plan_blocks(bench.goals, rate_per_s, spec.time_s, sampling=sampling)
    return replace(plan, aa_blocks=2)


def probe_contest(
    bench: Bench, arms: Sequence[Arm], seen: Capacities, wanted_per_s: float | None, kind: str
) -> ContestLoad:
    """Return the load of a contest: in slices if all arms have idle moments at the rate.

    The weakest arm is probed, since its cores are the busiest and its busy cycles the longest.

    Args:
        bench: bench of the contest.
        arms: its arms.
        seen: their capacities.
        wanted_per_s: the published or wanted rate; None without one.
        kind: name for the wanted rate.
    """
    if bench.goals.mode == "closed":
        return CLOSED_LOOP
    weakest = next(arm for arm in arms if arm.label == seen.weakest)
    capacity = seen.of(weakest.label)
    load = contest_load(wanted_per_s, capacity, kind)
    try:
        own = bench.of_program(weakest.program)
        found, load = settle(own, weakest.configuration, load, capacity)
    except OverloadedError:
        return ContestLoad(load.rate_per_s, source=load.source)
    words = load.words(len(bench.store.record().cores.server))
    alone = ContestLoad(load.rate_per_s, source=words, busy_share=load.busy_share)
    if load.busy_share is not None and load.busy_share > BUSIEST:
        return alone
    return replace(alone, slice_ms=found.slice_ms, level=found.level)


def run_contest(bench: Bench, arms: Sequence[Arm], plan: ContestPlan, load: ContestLoad) -> bool:
    """Measure the missing blocks of all arms at one rate (``run_blocks``).

    An arm that does not serve the rate is a finding, not a fault: its windows count, with the age
    of unanswered requests.

    Returns:
        Whether all blocks are complete.

    Raises:
        HostError, InstrumentError: the host or the generator fails repeatedly.
    """
    rule = bench.rule
    if rule is not None and rule.level is not None:
        rule = SPANS if load.level is None else replace(CYCLES, level=load.level)
    planned = PlannedBlocks(
        title=f"all arms: {plan.blocks} common blocks",
        spec=BlockSpec(
            phase="contest",
            index=0,
            arms=tuple(arms),
            plan=replace(plan.block, slice_ms=load.slice_ms),
            mode=bench.goals.mode,
            rate_per_s=load.rate_per_s,
            needs_all=True,
        ),
        count=plan.blocks,
        cost_s=block_cost_s(plan.block, len(arms)),
        by_time=True,
    )
    whole = run_blocks(replace(bench, gates=_gates(plan, bench.goals.mode), rule=rule), planned)
    if not whole:
        bench.progress.note("the host spoilt too many blocks; the complete ones count")
    return whole


def _gates(plan: ContestPlan, mode: Mode) -> Gates:
    """Return the gates of a contest: in an open loop a window needs a tenth of the planned samples.

    The plan is fixed while the host may get worse, as in a confirmation.
    """
    found = seeking(Gates(plan.samples_needed))
    if mode == "closed":
        return found
    least = samples_that_count(plan.samples_needed, _P99.samples_least, part=10)
    return replace(found, samples_needed=min(found.samples_needed, least))
