"""The ablation of a confirmed winner on fresh blocks; ``tuner.judge.ablation`` decides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tuner.errors import DefinitionError, HostError, InstrumentError, StoreError
from tuner.goals.objective import Objective
from tuner.judge.ablation import (
    MINIMAL,
    TUNED,
    Ablation,
    complete,
    contrasts,
    evaluate,
    names_to_keep,
)
from tuner.judge.ablation_plan import RESERVE, AblationPlan, least_plan, plan_ablation
from tuner.judge.confirmation import named
from tuner.judge.plan import BlockPlan
from tuner.judge.results import evaluate as evaluate_study
from tuner.judge.scoring import BASELINE
from tuner.phases.bench import Bench
from tuner.phases.block import Arm, BlockSpec
from tuner.phases.repeat import repeat_until_complete
from tuner.phases.seal import sealed
from tuner.phases.study import Calibrated, StudySpec, run_study, spent_s
from tuner.record.model import AblationProtocol, Contrast, Phase, Record
from tuner.space.configuration import Configuration
from tuner.space.space import Space
from tuner.stats.power import LEVEL, PooledSigma
from tuner.stats.words import counted
from tuner.words.terminal import duration


def run_study_and_ablation(bench: Bench, spec: StudySpec) -> None:
    """Run the missing parts of a study, and ablate its winner in what is left of the time.

    The ablation never changes the verdict, and a host or generator that fails during it does not
    fail the study.
    """
    begun_unix_s = bench.clock() - spent_s(bench.store.record())
    ready = run_study(bench, spec)
    if spec.ablate:
        _ablate_until(ready, spec.space, begun_unix_s + spec.time_s)


def is_over(record: Record) -> bool:
    """Return whether a study of one host has ended, and so has the ablation of its winner, if any.

    An ablation that has not begun by then did not fit into the time. Several hosts may be joined by
    another one at any time.
    """
    if record.hosts or record.ended_unix_s is None:
        return False
    if record.ablation is None:
        return True
    ablation = evaluate_study(record).ablation
    return ablation is not None and ablation.is_over


def _ablate_until(ready: Calibrated, space: Space, end_unix_s: float) -> None:
    """Ablate a study's winner if that fits into the time; continue an interrupted ablation."""
    bench = ready.bench
    record = bench.store.record()
    study = evaluate_study(record)
    if record.hosts or not study.has_recommendation or (study.ablation and study.ablation.is_over):
        return
    found = contrasts(space, *_both(bench, record))
    if len(found) < 2:
        # The verdict itself is about a single change.
        return
    left_s = max(0.0, end_unix_s - bench.clock())
    least_s, usable_s = _least(ready, found).total_s, left_s / (1 + RESERVE)
    changes = counted(len(found), "change")
    if record.ablation is None and least_s > usable_s:
        bench.progress.note(
            f"an ablation of the {changes} takes {duration((1 + RESERVE) * least_s)} or more, and"
            f" {duration(left_s)} are left"
        )
        return
    bench.progress.note(study.sentence)
    bench.progress.note(
        f"the verdict stands; the {duration(left_s)} that are left go into the ablation of its"
        f" {changes}"
    )
    try:
        run_ablation(ready, space, usable_s, study.gained, end_unix_s=end_unix_s)
    except (HostError, InstrumentError) as error:
        bench.progress.note(f"the ablation stopped: {error}")


def run_ablation(
    ready: Calibrated,
    space: Space,
    time_s: float,
    objective: Objective | None = None,
    *,
    end_unix_s: float = math.inf,
) -> Ablation:
    """Measure the missing blocks: all contrasts, then smaller differences.

    Args:
        ready: the study's bench, calibrated.
        space: space of the configurations.
        time_s: approximate time limit; exceeded if the fewest blocks for a decision need more.
        objective: the objective with the gain, for the worth of changes; by default the first.
        end_unix_s: no block begins that would end after this time.

    Raises:
        DefinitionError: the winner does not differ from the baseline.
        HostError, InstrumentError: the host or the generator fails repeatedly.
    """
    bench = ready.bench
    record = bench.store.record()
    if record.protocol is None:
        raise StoreError("there is no confirmed winner to take apart")
    baseline, tuned = _both(bench, record)
    found = contrasts(space, baseline, tuned)
    if not found:
        raise DefinitionError("the winner does not differ from the baseline: nothing to take apart")
    protocol = record.ablation or _freeze(ready, found, time_s, objective or bench.objective)
    plan = replace(ready.plan.confirm, rounds=protocol.rounds, window_s=protocol.window_s)
    arms = [Arm(BASELINE, baseline), Arm(TUNED, tuned)]
    for number, contrast in enumerate(protocol.contrasts, 1):
        names = contrast.names
        if contrast.reverted:
            arms.append(Arm(f"without{number}", space.exchange(tuned, baseline, names)))
        if contrast.added:
            arms.append(Arm(f"with{number}", space.exchange(baseline, tuned, names)))
    title = f"ablation of {len(found)} changes"
    done = len(complete(bench.store.record(), "ablate"))
    ablation = _Blocks("ablate", title, tuple(arms), plan, end_unix_s)
    in_time = _measure(ready, ablation, done)
    while in_time:
        seen = _evaluated(bench)
        if seen.is_over:
            bench.store.set_ended()
            return seen
        check, done = divmod(len(complete(bench.store.record(), "minimal")), protocol.blocks)
        kept = names_to_keep(seen.parts, check)
        minimal = space.exchange(baseline, tuned, kept)
        title = f"check that {counted(len(kept), 'setting')} keep the gain"
        three = (*arms[:2], Arm(MINIMAL, minimal))
        smaller = _Blocks("minimal", title, three, ready.plan.confirm, end_unix_s)
        in_time = _measure(ready, smaller, done)
    return _evaluated(bench)


def _both(bench: Bench, record: Record) -> tuple[Configuration, Configuration]:
    """Return the baseline and the tuned configuration of a confirmed study."""
    baseline, tuned = record.baseline, named(record, bench.objective)
    return (
        record.configurations[baseline].configuration,
        record.configurations[tuned].configuration,
    )


def _least(ready: Calibrated, found: Sequence[Contrast]) -> AblationPlan:
    """Return the shortest plan for these contrasts."""
    arms = 2 + sum((c.reverted is not None) + (c.added is not None) for c in found)
    return least_plan(ready.plan.confirm, len(found), arms)


def _freeze(
    ready: Calibrated, found: Sequence[Contrast], time_s: float, objective: Objective
) -> AblationProtocol:
    bench = ready.bench
    confirmation = bench.store.record().protocol
    assert confirmation is not None  # noqa: S101 - run_ablation has looked
    band, upper = confirmation.band, ready.calibration.sigma_d_upper
    if objective == bench.goals.second:
        noise = ready.calibration
        band = confirmation.second_band
        upper = PooledSigma(noise.second_sigma_d, noise.degrees_of_freedom).upper_limit()
    plan = plan_ablation(_least(ready, found), time_s, upper, band)
    protocol = sealed(
        AblationProtocol(
            frozen_unix_s=bench.clock(),
            digest="",
            confirmation=confirmation.digest,
            contrasts=tuple(found),
            blocks=plan.blocks,
            rounds=plan.contrasts.rounds,
            window_s=plan.contrasts.window_s,
            alpha=LEVEL,
            margin=band.share,
            objective=objective.text,
        )
    )
    bench.store.set_ablation(protocol)
    return protocol


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The blocks of the contrasts, or of one check."""

    phase: Phase
    title: str
    arms: tuple[Arm, ...]
    plan: BlockPlan
    end_unix_s: float
    """No block begins that would end after this time."""


def _measure(ready: Calibrated, planned: _Blocks, done: int) -> bool:
    """Run the missing blocks; return whether there was time for all of them.

    Args:
        ready: the study's bench, calibrated.
        planned: the blocks.
        done: number of the complete ones.
    """
    bench = ready.bench
    ablation = bench.store.record().ablation
    assert ablation is not None  # noqa: S101 - frozen before the first block
    for arm in planned.arms:
        bench.store.add_configuration(bench.describe(arm.configuration))
    blocks, cost_s = ablation.blocks, planned.plan.cost_s(len(planned.arms))
    for index in range(done, blocks):
        if bench.clock() + cost_s > planned.end_unix_s:
            return False
        if index == done:
            left_s = (blocks - done) * cost_s
            bench.progress.phase(f"{planned.title}: {blocks} blocks", left_s)
        spec = BlockSpec(
            phase=planned.phase,
            index=index,
            arms=planned.arms,
            plan=planned.plan,
            mode=bench.goals.mode,
            rate_per_s=ready.calibration.rate_per_s,
            # If the load fails without one change, the block must still count for the others.
            needs_all=False,
            seek=bench.goals.seek,
        )
        repeat_until_complete(bench, spec)
        bench.progress.step(f"block {index + 1} of {blocks}", (blocks - index - 1) * cost_s)
    return True


def _evaluated(bench: Bench) -> Ablation:
    found = evaluate(bench.store.record(), bench.goals)
    assert found is not None  # noqa: S101 - frozen before the first block
    return found
