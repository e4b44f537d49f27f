"""A whole study: calibrate, search, confirm. Each phase resumes from the record."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tuner.errors import HostError
from tuner.judge.ablation_plan import reserved_s
from tuner.judge.confirmation import tally_of
from tuner.judge.forecast import Question, Times, claim_words
from tuner.judge.load_point import (
    Capacity,
    StudyLoad,
    for_slower_host,
    load_point,
    lower,
    move_words,
    windows_alone,
)
from tuner.judge.overhead import overhead
from tuner.judge.plan import ASSUMED, FIXED, Budget, Design, Sampling, StudyPlan
from tuner.measurement.bottleneck import busy_share_in_slow_seconds
from tuner.measurement.gates import Gates
from tuner.measurement.stalls import SPANS
from tuner.measurement.window import RawWindow
from tuner.phases.bench import Bench
from tuner.phases.calibrate import (
    calibration,
    limit_point,
    measure_capacity,
    planned_blocks,
    run_aa,
)
from tuner.phases.confirm import freeze, run_confirmation, run_load_points
from tuner.phases.probe import OverloadedError, sampling_again, sampling_of, settle
from tuner.phases.repeat import InvalidBlockError
from tuner.phases.search import SearchSpec, run_search
from tuner.record.model import Block, Calibration, Record
from tuner.search.samplers import SamplerChoice
from tuner.search.schedule import leaders
from tuner.space.configuration import Configuration
from tuner.space.space import Space
from tuner.stats.power import PooledSigma
from tuner.words.terminal import duration

SATURATION_GATES = Gates(samples_needed=20)
"""Gates of closed loops. They count answers and resolve no tail, and an application that answers 50
requests a second is a server too."""
_LOAD_ATTEMPTS = 3
"""Attempts at the A/A blocks: at lower load points, or with another sampling."""


@dataclass(frozen=True, slots=True)
class StudySpec:
    """The question of a study."""

    space: Space
    allow: tuple[str, ...]
    known_good: tuple[Configuration, ...]
    rate_per_s: float | None
    time_s: float
    trials: int | None
    effect: float
    """Reduction that the plan wants to claim with 80 % probability, as a share."""
    server_cores: int
    design: Design = FIXED
    search: bool = True
    """True to search; otherwise a given configuration is confirmed."""
    economise: bool = True
    """True to shorten the plan so that it fits into the time."""
    ablate: bool = False
    """True to ablate a winner within the study's time, if it fits (``tuner.phases.ablate``)."""
    sampler: SamplerChoice | None = None
    """Sampler that makes the search's proposals; None for tuner's own search."""


@dataclass(frozen=True, slots=True)
class AABlocks:
    """Valid A/A blocks, and the sampling, plan and load point with which they were valid."""

    sampling: Sampling
    plan: StudyPlan
    blocks: list[Block]
    load: StudyLoad


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A bench with gates for the load point, and the plan for it."""

    bench: Bench
    calibration: Calibration
    plan: StudyPlan
    confirm_blocks: int
    design: Design = FIXED


def run_study(bench: Bench, spec: StudySpec) -> Calibrated:
    """Run the missing parts of a study, to the end of the confirmation; return its bench."""
    ready = calibrate(bench, spec)
    announce_times(ready, spec)
    record = ready.bench.store.record()
    if record.protocol is not None:
        chosen = record.protocol.candidates
    elif record.chosen:
        # Another host's worker ended the search before this one joined or resumed.
        chosen = record.chosen
    else:
        chosen = _search(ready, spec, record)
        record = ready.bench.store.record()
        if not chosen:
            bench.progress.note("no configuration is left in the race: there is nothing to confirm")
            ready.bench.store.set_ended()
            return ready
    confirm(ready, *(record.configurations[digest].configuration for digest in chosen))
    return ready


def spent_s(record: Record) -> float:
    """Return the time that a study has taken on this host, without interruptions."""
    if not record.blocks:
        return 0.0
    begun_s = record.blocks[0].started_unix_s - record.started_unix_s
    return begun_s + sum(
        b.took_s for b in record.blocks if b.phase != "search" or b.host == record.here
    )


def _search(ready: Calibrated, spec: StudySpec, record: Record) -> tuple[str, ...]:
    """Search, on one or several hosts; return the digests to confirm."""
    bench = ready.bench
    spent_s = sum(b.took_s for b in record.blocks if b.phase != "search")
    budget = Budget(spec.time_s - _ablation_s(record, ready.plan, spec))
    search = SearchSpec(
        space=spec.space,
        allow=spec.allow,
        baseline=bench.baseline,
        known_good=spec.known_good,
        time_s=budget.search_s(spent_s, ready.plan, ready.confirm_blocks, spec.design),
        trials=spec.trials,
        finalists=max(3, spec.design.finalists),
        sampler=spec.sampler,
    )
    run_search(bench, search, ready.calibration, ready.plan)
    proposals = [trial for trial in bench.store.record().trials if trial.origin != "baseline"]
    found = [trial.digest for trial in leaders(proposals, spec.design.finalists, bench.goals)]
    return bench.store.choose(found) if found else ()


def announce_times(ready: Calibrated, spec: StudySpec) -> None:
    """Report the duration of the whole study, from the measured costs of its blocks."""
    bench, plan = ready.bench, ready.plan
    record = bench.store.record()
    sampling = sampling_of(ready.calibration, bench)
    question = _question(bench, ready.calibration.rate_per_s, spec, sampling)
    whole = _whole(bench, ready.calibration, plan, ready.confirm_blocks, spec)
    left = _times_left(record, whole, ready)
    phases = {
        "search": left.search_s,
        "confirmation": left.confirm_s,
        "other load points": left.points_s,
        "ablation of a winner": left.ablation_s,
    }
    parts = ", ".join(f"{name} {duration(took_s)}" for name, took_s in phases.items() if took_s)
    watched = spec.design.watches(ready.confirm_blocks)
    ends_early = watched or spec.trials is not None or left.ablation_s > 0
    most = "at most " * ends_early
    bench.progress.note(
        f"the whole study takes {most}about {duration(spent_s(record) + left.total_s)};"
        f" {duration(left.total_s)} are left" + (f": {parts}" if parts else "")
    )
    cuts, given = " and ".join(question.cuts(plan, spec.time_s)), duration(spec.time_s)
    if not question.fits(plan, spec.time_s):
        cut = f", with {cuts}" if cuts else ""
        bench.progress.note(f"it does not fit into {given}; this is the least for a verdict{cut}")
    elif whole.total_s > spec.time_s:
        bench.progress.note(f"that is more than {given}: calibration took longer than planned")
    elif cuts:
        bench.progress.note(f"to keep to {given} there are {cuts}")


def _times_left(record: Record, whole: Times, ready: Calibrated) -> Times:
    """Return the remaining time of each phase."""
    searched_s = sum(
        b.took_s for b in record.blocks if b.phase == "search" and b.host == record.here
    )
    is_searched = record.protocol is not None or bool(record.chosen)
    done = sum(b.phase == "confirm" and b.state == "complete" for b in record.blocks)
    seen = sum(b.phase == "load-points" for b in record.blocks)
    ablated_s = sum(b.took_s for b in record.blocks if b.phase in ("ablate", "minimal"))
    return Times(
        calibration_s=0.0,
        search_s=0.0 if is_searched else max(0.0, whole.search_s - searched_s),
        confirm_s=whole.confirm_s * max(0, ready.confirm_blocks - done) / ready.confirm_blocks,
        points_s=whole.points_s * max(0, ready.plan.points - seen) / max(1, ready.plan.points),
        ablation_s=max(0.0, whole.ablation_s - ablated_s),
    )


def confirm(ready: Calibrated, *candidates: Configuration) -> None:
    """Freeze the protocol if necessary, run its blocks, and measure other load points.

    With several candidates the load points use the one of the verdict.
    """
    bench, plan = ready.bench, ready.plan
    protocol = bench.store.record().protocol
    if protocol is None:
        protocol = freeze(
            bench,
            candidates,
            ready.calibration,
            plan,
            blocks=ready.confirm_blocks,
            design=ready.design,
        )
    run_confirmation(bench, candidates, protocol, plan)
    best = tally_of(bench.store.record(), bench.objective).best
    run_load_points(bench, candidates[best], ready.calibration, plan)
    bench.store.set_ended()


def calibrate(bench: Bench, spec: StudySpec) -> Calibrated:
    """Measure capacity, load point and noise, or take them from the record."""
    found = bench.store.record().calibration
    if found is not None:
        sampling = sampling_of(found, bench)
        plan = _planned(bench, found.rate_per_s, spec, sampling)
        return _calibrated(bench, found, plan, spec)
    saturated = replace(bench, gates=SATURATION_GATES)
    capacity = measure_capacity(saturated, bench.baseline)
    bench.progress.note(f"capacity of the baseline {capacity.per_s:,.0f} requests/s")
    load = load_point(capacity, spec.rate_per_s)
    if bench.goals.seek:
        plan = _planned(bench, load.rate_per_s, spec, ASSUMED)
        ready = gated(bench, plan)
        load = limit_point(ready, bench.baseline, bench.goals.seek, load, plan)
    aa = measure_aa(
        bench,
        lambda rate_per_s, sampling: _planned(bench, rate_per_s, spec, sampling),
        load,
        capacity,
    )
    return _calibrated(bench, keep_calibration(bench, spec, capacity, aa), aa.plan, spec)


def measure_aa(
    bench: Bench,
    planned: Callable[[float, Sampling], StudyPlan],
    load: StudyLoad,
    capacity: Capacity,
) -> AABlocks:
    """Measure A/A blocks, again at a lower load point if the host's slow seconds fill the cores.

    Args:
        bench: bench of the study.
        planned: returns the plan for a rate.
        load: first load point.
        capacity: closed-loop capacity of the baseline.

    Raises:
        HostError: they were valid at no tried load point.
    """
    found = _valid_aa(bench, planned, load, capacity)
    slower = for_slower_host(found.load)
    if slower is None:
        return found
    bench.progress.note(move_words(found.load, slower))
    try:
        return _valid_aa(bench, planned, slower, capacity)
    except HostError as error:
        bench.progress.note(f"{error}; staying at {found.load.rate_per_s:,.0f}/s")
        return found


def _valid_aa(
    bench: Bench,
    planned: Callable[[float, Sampling], StudyPlan],
    load: StudyLoad,
    capacity: Capacity,
) -> AABlocks:
    """Measure A/A blocks, again if the baseline does not keep up or too few requests count.

    They are then measured at a lower load point, or in windows that their own sampling asks for.

    Raises:
        HostError: they were valid at no tried load point.
    """
    sampling: Sampling | None = None
    for attempt in range(1, _LOAD_ATTEMPTS + 1):
        if sampling is None:
            sampling, load = probe_load(bench, load, capacity)
        plan = planned(load.rate_per_s, sampling)
        ready = gated(bench, plan, sampling.level)
        seen: deque[RawWindow] = deque(maxlen=plan.aa.rounds * plan.aa_instances)
        try:
            blocks = run_aa(ready, bench.baseline, load.rate_per_s, plan, seen.append)
        except InvalidBlockError as error:
            again = None if error.overloaded else sampling_again(seen, bench.rule, sampling)
            if attempt == _LOAD_ATTEMPTS:
                raise
            if error.overloaded and not load.given:
                load = lower(load)
                bench.progress.note(f"{error}; trying {load.rate_per_s:,.0f}/s")
            elif again is not None:
                bench.progress.note(f"{error}; trying again with what these windows show")
                bench.progress.note(_words(again))
            else:
                raise
            sampling = again
        else:
            return AABlocks(sampling, plan, blocks, _as_measured(bench, load, blocks))
    raise AssertionError("the last attempt returns or raises")


def _as_measured(bench: Bench, load: StudyLoad, blocks: Sequence[Block]) -> StudyLoad:
    """Return the load with the busy share of A/A blocks, which last longer than the probe."""
    if not bench.goals.at_one_rate:
        return load
    record = bench.store.record()
    windows = [window for block in blocks for window in block.windows]
    busy = busy_share_in_slow_seconds(windows, record.cores, windows_alone(record))
    return load.probed(busy)


def probe_load(bench: Bench, load: StudyLoad, capacity: Capacity) -> tuple[Sampling, StudyLoad]:
    """Return slices and level for the load point, and the load point that the baseline holds.

    Raises:
        HostError: the baseline does not keep up with the rate, nor with lower ones.
    """
    for attempt in range(_LOAD_ATTEMPTS):
        try:
            sampling, load = settle(bench, bench.baseline, load, capacity)
        except OverloadedError as error:
            if load.given or attempt + 1 == _LOAD_ATTEMPTS:
                rate = f"{load.rate_per_s:,.0f}/s"
                raise HostError(f"at {rate} the baseline fails: {error}") from error
            load = lower(load)
            bench.progress.note(f"{error}; trying {load.rate_per_s:,.0f}/s")
        else:
            cores = len(bench.store.record().cores.server)
            bench.progress.note(f"load point {load.rate_per_s:,.0f}/s ({load.words(cores)})")
            bench.progress.note(_words(sampling))
            return sampling, load
    raise AssertionError("the last attempt returns or raises")


def _words(sampling: Sampling) -> str:
    """Return what the probe found."""
    worth = f"{sampling.effective_share:.0%} of the requests count, the others met a stall"
    if not sampling.slice_ms:
        return worth
    return f"the arms take turns in slices of {sampling.slice_ms:g} ms; {worth} or a border"


def keep_calibration(
    bench: Bench, spec: StudySpec, capacity: Capacity, aa: AABlocks
) -> Calibration:
    """Evaluate the A/A blocks, and store the calibration in the record."""
    found = calibration(
        bench,
        aa.blocks,
        capacity,
        aa.load,
        cores=spec.server_cores,
        effect=spec.effect,
        budget=Budget(spec.time_s, spec.search),
        plan=aa.plan,
        design=spec.design,
    )
    found = replace(
        found,
        effective_share=aa.sampling.effective_share,
        slice_ms=aa.sampling.slice_ms,
        level=aa.sampling.level,
    )
    bench.store.set_calibration(found)
    return found


def _calibrated(bench: Bench, found: Calibration, plan: StudyPlan, spec: StudySpec) -> Calibrated:
    noises = [found.sigma_d, found.second_sigma_d][: len(bench.goals.objectives)]
    sigmas = [PooledSigma(sigma_d, found.degrees_of_freedom) for sigma_d in noises]
    margin, budget = bench.goals.margin, Budget(spec.time_s, spec.search)
    blocks = planned_blocks(sigmas, spec.effect, budget, plan, spec.design, margin=margin)
    most = "at most " * spec.design.watches(blocks)
    bench.progress.note(
        f"noise of a block's difference {found.sigma_d:.1%}, at most {found.sigma_d_upper:.1%};"
        f" {most}{blocks} blocks will confirm"
    )
    _note_power(bench, found, spec)
    if bench.goals.seek:
        bench.progress.note(
            f"capacity: {plan.confirm.rounds} windows of {plan.confirm.window_s:.2g} s an arm, of"
            f" {plan.samples_needed:,} requests at {found.rate_per_s:,.0f}/s"
        )
    ready = gated(bench, plan, found.level or 0)
    if spec.economise and _whole(bench, found, plan, blocks, spec).total_s > spec.time_s:
        # Calibration took longer than planned. No claim depends on the other load points.
        plan = replace(plan, points=0)
    return Calibrated(ready, found, plan, blocks, spec.design)


def _note_power(bench: Bench, found: Calibration, spec: StudySpec) -> None:
    """Report what the confirmation will see and claim, and the time for the wanted claim."""
    margin, seen = bench.goals.margin, found.minimum_detectable_effect
    if seen >= 1:
        bench.progress.note("it can see and claim no change of any size")
    else:
        bench.progress.note(
            f"with 80 % probability it sees a change of {seen:.1%}, and claims one of"
            f" {margin.claimable(seen):.1%} (margin {margin.share:.1%})"
        )
    if margin.claimable(seen) <= spec.effect:
        return
    question = _question(bench, found.rate_per_s, spec, sampling_of(found, bench))
    needed_s = question.claiming_s(found.sigma_d_upper, spec.effect, spec.time_s)
    if needed_s > spec.time_s:
        bench.progress.note(claim_words(spec.effect, needed_s))


def _whole(
    bench: Bench, found: Calibration, plan: StudyPlan, blocks: int, spec: StudySpec
) -> Times:
    """Return the time of each phase, including calibration."""
    record = bench.store.record()
    before_s = sum(b.took_s for b in record.blocks if b.phase in ("capacity", "aa"))
    question = _question(bench, found.rate_per_s, spec, sampling_of(found, bench))
    return question.times(
        plan, spec.time_s, blocks, before_s, ablation_s=_ablation_s(record, plan, spec)
    )


def _ablation_s(record: Record, plan: StudyPlan, spec: StudySpec) -> float:
    """Return the time that the study keeps for an ablation; 0 without one."""
    if record.hosts or not (spec.ablate and spec.search):
        return 0.0
    return reserved_s(plan.confirm, spec.time_s)


def _planned(bench: Bench, rate_per_s: float, spec: StudySpec, sampling: Sampling) -> StudyPlan:
    question = _question(bench, rate_per_s, spec, sampling)
    return question.plan_in_time(spec.time_s) if spec.economise else question.plan(spec.time_s)


def _question(bench: Bench, rate_per_s: float, spec: StudySpec, sampling: Sampling) -> Question:
    return Question(
        bench.goals,
        rate_per_s,
        spec.design,
        exclusive=bench.exclusive,
        polls=bench.polling is not None,
        overhead=overhead(bench.store.record(), exclusive=bench.exclusive),
        search=spec.search,
        sampling=sampling,
    )


def gated(bench: Bench, plan: StudyPlan, level: int = 0) -> Bench:
    """Return the bench with gates for the plan, and busy cycles above a level if it has cycles."""
    allowed = bench.goals.error_share
    if bench.goals.mode == "closed":
        return replace(bench, gates=replace(SATURATION_GATES, error_share=allowed))
    rule = bench.rule
    if rule is not None and rule.level is not None:
        rule = SPANS if bench.goals.seek else replace(rule, level=level)
    gates = Gates(samples_needed=plan.samples_needed, error_share=allowed)
    return replace(bench, gates=seeking(gates) if bench.goals.seek else gates, rule=rule)


def seeking(gates: Gates) -> Gates:
    """Return the gates for windows of a capacity search, some of which must fail.

    Requests that fail or come late count as a missed limit (``tuner.goals.capacity``). At the
    lower rates that a slower candidate needs, windows of the same length hold fewer samples.
    """
    return replace(
        gates, rate_error=1.0, error_share=1.0, samples_needed=max(1, gates.samples_needed // 4)
    )
