"""The search: blocks of proposals, each with the baseline, until its time is over.

Its figures choose the candidate of the confirmation. They are never claims: the best of many noisy
figures is better than the truth (the winner's curse).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from tuner.errors import ClaimedError
from tuner.goals.goals import Goals
from tuner.goals.objective import Objective
from tuner.judge.plan import StudyPlan
from tuner.judge.ranking import mean_excess, mean_losses, pooled_all, violates
from tuner.judge.scoring import BASELINE, block_losses
from tuner.measurement.window import Measurement
from tuner.phases.bench import Bench
from tuner.phases.block import Arm, BlockSpec
from tuner.phases.repeat import InvalidBlockError, repeat_until_complete
from tuner.record.model import Block, Calibration, Record, Trial, TrialOrigin, TrialState
from tuner.search.dimensions import by_parameter, dimensions_of
from tuner.search.propose import propose
from tuner.search.samplers import SamplerChoice
from tuner.search.schedule import again, best_first, finalists, look_noise, winner
from tuner.search.trials import MeasuredTrial, as_optunas
from tuner.space.configuration import Configuration
from tuner.space.space import Space
from tuner.stats.race import drop_allowance, is_hopeless
from tuner.stats.words import counted

_FINAL_SHARE = 0.25
"""Last part of the search's time, for further looks at the best."""
_NEW_SHARE = 0.5
"""Least share of a block's slots for new proposals before the final part."""

_MOST_LEFT_OUT = 2
"""Blocks in a row without a valid attempt, at which the search gives up."""

_PROGRESS_EVERY_S = 2.0
"""Least time between two steps of progress while trials are closed; each takes some 50 ms."""

_LEAST_NOISE = 0.01
"""Least noise of a look that the surrogate assumes, ln units."""


@dataclass(frozen=True, slots=True)
class SearchSpec:
    """The scope and the time of a search."""

    space: Space
    allow: tuple[str, ...]
    baseline: Configuration
    known_good: tuple[Configuration, ...]
    """Configurations to try first, after the baseline."""
    time_s: float
    trials: int | None
    """Limit for proposals; None for a limit by time only."""
    finalists: int = 3
    """Number of the best for further looks in the last part of the time."""
    sampler: SamplerChoice | None = None
    """Sampler that makes the proposals; None for tuner's own search."""


def run_search(
    bench: Bench, spec: SearchSpec, calibration: Calibration, plan: StudyPlan
) -> Trial | None:
    """Search until the time or the trials are used up; return the trial to confirm, if any.

    It continues a search that is partly in the record.

    Raises:
        InvalidBlockError: two blocks in a row were not valid in any attempt.
    """
    cost_s = plan.search.cost_s(plan.candidates + 1)
    least = min(bench.gates.samples_needed, plan.look_samples)
    bench = replace(bench, gates=replace(bench.gates, samples_needed=least))
    store = bench.store
    record = bench.store.record()
    whole_s = plan.whole_blocks_s(spec.time_s)
    bench.progress.phase("search", max(0.0, whole_s - _spent_s(record)))
    _note_baseline(bench, spec, record)
    left_out = 0
    block: Block | None = None
    while True:
        record = store.record()
        if block:
            _report_best(bench, record, block, max(0.0, whole_s - _spent_s(record)))
            block = None
        ended = store.reap(look=False)
        for done in ended:
            bench.progress.note(done)
        if ended:
            continue
        left_s = spec.time_s - _spent_s(record)
        if record.search_ended or (left_s < cost_s and _search_blocks(record)):
            break
        arms = _next_arms(bench, spec, record, plan, final=left_s < _FINAL_SHARE * spec.time_s)
        if not arms and store.search_runs_elsewhere(look=False):
            store.pause()
            continue
        if not arms:
            break
        try:
            block = _measure(bench, arms, calibration, plan, record)
        except ClaimedError:
            continue
        except InvalidBlockError as error:
            left_out += 1
            if left_out == _MOST_LEFT_OUT:
                raise
            _leave_out(bench, arms, error)
            continue
        left_out = 0
        _conclude(bench, block)
    _wait_for_others(bench)
    _report_disturbed(bench, calibration)
    _close_all(bench)
    record = bench.store.record()
    found = store.importance(lambda: as_optunas(_all_seen(bench, record), spec.space, spec.allow))
    store.set_importance(by_parameter(found))
    proposals = [t for t in record.trials if t.origin != "baseline"]
    return winner(proposals, bench.goals)


def _all_seen(bench: Bench, record: Record) -> list[MeasuredTrial]:
    known = {digest: kept.configuration for digest, kept in record.configurations.items()}
    return [_seen(trial, known, bench.goals) for trial in record.trials]


def _wait_for_others(bench: Bench) -> None:
    """Wait until no other host measures for the search."""
    store = bench.store
    store.end_search()
    if store.search_runs_elsewhere():
        bench.progress.note("the search is over; waiting for the last blocks of the other hosts")
    while store.search_runs_elsewhere():
        for done in store.reap(look=False):
            bench.progress.note(done)
        store.pause()


def _note_baseline(bench: Bench, spec: SearchSpec, record: Record) -> None:
    """Record the baseline as the first trial, with a loss of 0 by definition."""
    if not record.trials:
        values, domains = dimensions_of(spec.space, spec.allow, spec.baseline)
        bench.store.open_trial(spec.baseline, "baseline", values, domains)
        record = bench.store.record()
    first = record.trials[0]
    if first.state == "racing":
        second = {0: 0.0} if bench.goals.second else {}
        known = replace(first, losses={0: 0.0}, second=second)
        _close(bench, known, "complete", "the baseline itself")


def _next_arms(
    bench: Bench, spec: SearchSpec, record: Record, plan: StudyPlan, *, final: bool
) -> list[Arm]:
    """Return the arms of the next block: survivors, known-good configurations, then new ones."""
    trials = [t for t in record.trials if t.origin != "baseline"]
    configurations = {d: kept.configuration for d, kept in record.configurations.items()}
    slots = plan.candidates
    limit = slots if final else slots - round(_NEW_SHARE * slots)
    # Trials that another host is measuring are judged with the rest, and not measured twice.
    busy, most = record.busy, len(trials)
    old = (
        finalists(trials, spec.finalists, bench.goals)
        if final
        else [t for t in again(trials, most, bench.goals) if t.number not in busy][:limit]
    )
    # A trial without a finished look was interrupted, or its block was repeated.
    orphans = bench.store.orphans(record)
    cut_short = [t for t in trials if t.number in orphans]
    old = [t for t in (*cut_short, *old) if t.number not in busy][:slots]
    arms = [_arm(i, configurations[t.digest], t.number) for i, t in enumerate(old, 1)]
    if final and arms:
        return arms
    room = slots - len(arms)
    if spec.trials is not None:
        room = min(room, spec.trials - len(trials))
    if final or room <= 0:
        return arms
    first_look = {t.number for t in trials if t.state == "racing" and not t.losses}
    waited_for = [t for t in trials if t.number in first_look and t.number not in orphans]
    # A block that was left out says nothing about its candidates.
    waited_for += [t for t in trials if t.state == "dropped" and not t.losses]
    pending = [configurations[t.digest] for t in waited_for if t.digest in configurations]
    seen = [_seen(t, configurations, bench.goals) for t in record.trials if t not in waited_for]
    known = {s.configuration.digest for s in seen} | {c.digest for c in pending}
    fresh = [c for c in spec.known_good if c.digest not in known][:room]
    given = len(fresh)
    already = [*seen, *(MeasuredTrial(c, (0.0,) * len(bench.goals.objectives)) for c in fresh)]
    fresh += _proposals(bench, spec, record, already, pending=pending, count=room - given)
    for place, configuration in enumerate(fresh):
        bench.store.add_configuration(bench.describe(configuration), proposed=True)
        values, domains = dimensions_of(spec.space, spec.allow, configuration)
        origin: TrialOrigin = "hand" if place < given else "proposed"
        number = bench.store.open_trial(configuration, origin, values, domains)
        arms.append(_arm(len(arms) + 1, configuration, number))
    return arms


def _proposals(
    bench: Bench,
    spec: SearchSpec,
    record: Record,
    seen: Sequence[MeasuredTrial],
    *,
    pending: Sequence[Configuration],
    count: int,
) -> list[Configuration]:
    """Return new configurations from the study's sampler."""
    # Hosts that start together must not make the same proposals.
    first = bench.seed * 1_000_003 + zlib.crc32(record.here.encode())
    seed = (first + len(record.blocks)) % 2**32
    objectives = len(bench.goals.objectives)
    searched = (spec.space, spec.allow, spec.baseline, seen)
    if spec.sampler is None:
        return propose(
            *searched,
            count=count,
            seed=seed,
            pending=pending,
            noise=_noise(record),
            objectives=objectives,
        )
    from tuner.search.sampled import propose_by

    return propose_by(
        spec.sampler,
        *searched,
        count=count,
        seed=seed,
        study_seed=first % 2**32,
        pending=pending,
        objectives=objectives,
    )


def _noise(record: Record) -> float:
    """Return the noise of a single look, from repeated looks, at least that of the A/A blocks."""
    of_blocks = record.calibration.sigma_d / math.sqrt(2) if record.calibration else 0.0
    return max(of_blocks, look_noise(record.trials), _LEAST_NOISE)


def _arm(place: int, configuration: Configuration, trial: int) -> Arm:
    return Arm(f"c{place}", configuration, trial)


def _seen(trial: Trial, configurations: Mapping[str, Configuration], goals: Goals) -> MeasuredTrial:
    configuration = configurations[trial.digest]
    if trial.origin == "baseline":
        return MeasuredTrial(configuration, (0.0,) * len(goals.objectives), looks=0)
    values = mean_losses(trial, goals)
    excess = {limit: mean_excess(trial, limit) for limit in trial.excess}
    return MeasuredTrial(
        configuration,
        values if all(map(math.isfinite, values)) else None,
        len(trial.losses),
        {limit: value for limit, value in excess.items() if math.isfinite(value)},
    )


def _measure(
    bench: Bench, arms: Sequence[Arm], calibration: Calibration, plan: StudyPlan, record: Record
) -> Block:
    spec = BlockSpec(
        phase="search",
        index=_search_blocks(record),
        arms=(Arm(BASELINE, bench.baseline), *arms),
        plan=plan.search_of(len(arms)),
        mode=bench.goals.mode,
        rate_per_s=calibration.rate_per_s,
        needs_all=False,
        seek=bench.goals.seek,
    )
    allowance = drop_allowance(calibration.sigma_d, calibration.degrees_of_freedom)
    # A configuration gets this look only once; later its mean decides.
    looked = {trial.number for trial in record.trials if trial.losses}
    again = frozenset(arm.label for arm in arms if arm.trial in looked)
    # A point of the front may lose in one objective, and a capacity has no figures by round.
    alone = bench.goals.second is None and bench.goals.seek is None
    objective = bench.objective if alone else None
    return repeat_until_complete(
        bench, spec, lambda windows: hopeless(windows, objective, allowance, again)
    )


def hopeless(
    windows: Sequence[Measurement],
    objective: Objective | None,
    allowance: float,
    kept: Container[str] = (),
) -> dict[str, str]:
    """Return instances that leave their block early: they fail the load, or lose all early rounds.

    Args:
        windows: windows of the block so far.
        objective: the objective for losses; None if no instance can lose early.
        allowance: see ``tuner.stats.race.drop_allowance``.
        kept: instances that had this look in an earlier block.
    """
    last = windows[-1]
    leaving = failing(windows)
    if objective and any(w.round == last.round and w.instance == BASELINE for w in windows):
        values: dict[str, dict[int, float]] = {}
        for window in windows:
            if window.valid:
                values.setdefault(window.instance, {})[window.round] = objective.ln(window)
        base = values.pop(BASELINE, {})
        for instance, own in values.items():
            losses = [objective.loss(own[r] - base[r]) for r in sorted(own) if r in base]
            if (
                instance not in leaving
                and instance not in kept
                and is_hopeless(losses, allowance=allowance)
            ):
                leaving[instance] = f"worse than the baseline in each of {len(losses)} rounds"
    return leaving


def failing(windows: Sequence[Measurement]) -> dict[str, str]:
    """Return instances that failed the load in a round in which the baseline held it.

    Where the baseline fails as well, the round says nothing about the others: the host was busy,
    or servers that had just started were not ready. An instance at fault fails the next round too.
    """
    held = {w.round for w in windows if w.instance == BASELINE and not w.bad}
    bad = [w for w in windows if w.bad and w.instance != BASELINE and w.round in held]
    # The first failure says most: what follows it may be its consequence.
    return {w.instance: "; ".join(w.invalid) for w in reversed(bad)}


def _conclude(bench: Bench, block: Block) -> None:
    """Record the block's results for its trials."""
    losses = block_losses(block, bench.objective)
    failed = failing(block.windows)
    ended: dict[int, tuple[TrialState, str]] = {}
    for instance in block.instances:
        if instance.trial is None:
            continue
        if instance.instance in losses:
            bench.store.report_loss(instance.trial, block.number, losses[instance.instance])
        if instance.state == "refused" or instance.instance in failed:
            words = instance.message or failed[instance.instance]
            ended[instance.trial] = "infeasible", words
        elif instance.state == "dropped":
            ended[instance.trial] = "dropped", instance.message
    if not ended:
        return
    for trial in bench.store.record().trials:
        if trial.number in ended:
            _close(bench, trial, *ended[trial.number])


def _leave_out(bench: Bench, arms: Sequence[Arm], error: InvalidBlockError) -> None:
    """Continue without a block that was not valid in any attempt.

    Its new candidates are not measured again, since one of them may be what disturbs the baseline.
    """
    bench.progress.note(f"{error}; the search continues with other candidates")
    numbers = {arm.trial for arm in arms}
    for trial in bench.store.record().trials:
        if trial.number in numbers and not trial.losses:
            _close(bench, trial, "dropped", f"not measured: {error}")


def _close(bench: Bench, trial: Trial, state: TrialState, message: str) -> None:
    excess = {limit: mean_excess(trial, limit) for limit in trial.excess}
    bench.store.close_trial(
        trial.number,
        state,
        trial.losses,
        message,
        second=trial.second if bench.goals.second else None,
        excess={limit: value for limit, value in excess.items() if math.isfinite(value)},
    )


def _close_all(bench: Bench) -> None:
    racing = [trial for trial in bench.store.record().trials if trial.state == "racing"]
    begun_s = shown_s = bench.clock()
    for done, trial in enumerate(racing):
        now_s = bench.clock()
        if done and now_s - shown_s >= _PROGRESS_EVERY_S:
            left_s = (now_s - begun_s) / done * (len(racing) - done)
            bench.progress.step(f"{done:,} of {len(racing):,} trials closed", left_s)
            shown_s = now_s
        state: TrialState = "complete" if trial.losses else "infeasible"
        words = "" if trial.losses else "no valid window"
        _close(bench, trial, state, words)


def _report_best(bench: Bench, record: Record, block: Block, left_s: float) -> None:
    trials = [t for t in record.trials if t.origin != "baseline"]
    ranked = best_first(trials, bench.goals)
    best = f"best so far {ratio_words(ranked[0], bench.goals)}" if ranked else "nothing yet"
    words = f"search block {block.index + 1}: {counted(len(trials), 'configuration')} tried, {best}"
    bench.progress.step(words, left_s)
    if ranked:
        bench.progress.best(
            f"{ratio_words(ranked[0], bench.goals)}{_range(ranked[0], bench.goals)}"
        )


def _report_disturbed(bench: Bench, calibration: Calibration) -> None:
    """Report blocks with a disturbed baseline, according to the other arms."""
    blocks = bench.store.record().blocks
    index = {block.number: block.index for block in blocks}
    fits = pooled_all(blocks, bench.goals, calibration)
    for number in sorted({number for found in fits for number in found.disturbed}):
        bench.progress.note(
            f"search block {index[number] + 1}: its baseline was disturbed, according to the other"
            " arms; all arms of the search determine its level"
        )


def ratio_words(trial: Trial, goals: Goals) -> str:
    """Return a trial's mean figures as percentages of the baseline's, with the number of looks."""
    means = zip(goals.objectives, mean_losses(trial, goals), strict=True)
    ratios = [(o, math.exp(o.loss(mean))) for o, mean in means]
    each = " and ".join(f"{ratio:.1%}{f' ({o.name})' * (len(ratios) > 1)}" for o, ratio in ratios)
    looks = len(trial.losses)
    limit = "; beyond a constraint" * violates(trial, goals)
    return f"{each} of the baseline's ({looks} look{'s' * (looks != 1)}, not a claim{limit})"


def _range(trial: Trial, goals: Goals) -> str:
    """Return the range of its looks, in words; empty with a single look."""
    ratios = sorted(math.exp(goals.first.loss(loss)) for loss in trial.losses.values())
    return f", from {ratios[0]:.1%} to {ratios[-1]:.1%}" if len(ratios) > 1 else ""


def _spent_s(record: Record) -> float:
    return sum(b.took_s for b in record.blocks if b.phase == "search" and b.host == record.here)


def _search_blocks(record: Record) -> int:
    return sum(
        b.phase == "search" and b.state == "complete" and b.host == record.here
        for b in record.blocks
    )
