"""The ablation of a confirmed winner on fresh blocks; ``tuner.judge.ablation`` decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tuner.errors import DefinitionError, StoreError
from tuner.goals.objective import Objective
from tuner.judge.ablation import (
    MINIMAL,
    TUNED,
    Ablation,
    blocks_at_least,
    complete,
    contrasts,
    evaluate,
    names_to_keep,
)
from tuner.judge.confirmation import named
from tuner.judge.plan import BlockPlan
from tuner.judge.scoring import BASELINE
from tuner.phases.bench import Bench
from tuner.phases.block import Arm, BlockSpec, repeat_until_complete
from tuner.phases.seal import sealed
from tuner.phases.study import Calibrated
from tuner.record.model import AblationProtocol, Contrast, Phase
from tuner.space.space import Space
from tuner.stats.power import LEVEL, PooledSigma, blocks_within

_SHARE = 0.65
"""Share of the time for the contrasts; the rest is for the checks."""
_LEAST_ROUNDS = 4


def run_ablation(
    ready: Calibrated, space: Space, time_s: float, objective: Objective | None = None
) -> Ablation:
    """Measure the missing blocks: all contrasts, then smaller differences.

    Args:
        ready: the study's bench, calibrated.
        space: space of the configurations.
        time_s: approximate time limit; exceeded if the fewest blocks for a decision need more.
        objective: the objective with the gain, for the worth of changes; by default the first.

    Raises:
        DefinitionError: the winner does not differ from the baseline.
        HostError, InstrumentError: the host or the generator fails repeatedly.
    """
    bench = ready.bench
    record = bench.store.record()
    if record.protocol is None:
        raise StoreError("there is no confirmed winner to take apart")
    baseline = record.configurations[record.baseline].configuration
    tuned = record.configurations[named(record, bench.objective)].configuration
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
    _measure(ready, "ablate", title, arms=arms, plan=plan, done=done)
    while True:
        seen = _evaluated(bench)
        if seen.is_over:
            bench.store.set_ended()
            return seen
        check, done = divmod(len(complete(bench.store.record(), "minimal")), protocol.blocks)
        kept = names_to_keep(seen.parts, check)
        minimal = space.exchange(baseline, tuned, kept)
        title = f"does a difference of {len(kept)} settings keep the gain?"
        three = [*arms[:2], Arm(MINIMAL, minimal)]
        _measure(ready, "minimal", title, arms=three, plan=ready.plan.confirm, done=done)


def _freeze(
    ready: Calibrated, found: Sequence[Contrast], time_s: float, objective: Objective
) -> AblationProtocol:
    bench, plan = ready.bench, ready.plan.confirm
    confirmation = bench.store.record().protocol
    assert confirmation is not None  # noqa: S101 - run_ablation has looked
    band, upper = confirmation.band, ready.calibration.sigma_d_upper
    if objective == bench.goals.second:
        noise = ready.calibration
        band = confirmation.second_band
        upper = PooledSigma(noise.second_sigma_d, noise.degrees_of_freedom).upper_limit()
    instances = 2 + sum((c.reverted is not None) + (c.added is not None) for c in found)
    least = blocks_at_least(found, LEVEL)
    fewest = replace(plan, rounds=_LEAST_ROUNDS)
    affordable = int(_SHARE * time_s / fewest.cost_s(instances))
    # A change worth less than the margin need not be detected, but one of twice the margin must.
    effect = max(band.wanted(), 2 * band.share)
    blocks = max(least, blocks_within(max(1, affordable), upper, effect, band))
    rounds = next(
        (
            rounds
            for rounds in range(plan.rounds, _LEAST_ROUNDS, -1)
            if blocks * replace(plan, rounds=rounds).cost_s(instances) <= _SHARE * time_s
        ),
        min(plan.rounds, _LEAST_ROUNDS),
    )
    protocol = sealed(
        AblationProtocol(
            frozen_unix_s=bench.clock(),
            digest="",
            confirmation=confirmation.digest,
            contrasts=tuple(found),
            blocks=blocks,
            rounds=rounds,
            window_s=plan.window_s,
            alpha=LEVEL,
            margin=band.share,
            objective=objective.text,
        )
    )
    bench.store.set_ablation(protocol)
    return protocol


def _measure(
    ready: Calibrated, phase: Phase, title: str, *, arms: Sequence[Arm], plan: BlockPlan, done: int
) -> None:
    """Run the missing blocks of these arms."""
    bench = ready.bench
    ablation = bench.store.record().ablation
    assert ablation is not None  # noqa: S101 - frozen before the first block
    for arm in arms:
        bench.store.add_configuration(bench.describe(arm.configuration))
    blocks, cost_s = ablation.blocks, plan.cost_s(len(arms))
    bench.progress.phase(f"{title}: {blocks} blocks", (blocks - done) * cost_s)
    for index in range(done, blocks):
        spec = BlockSpec(
            phase=phase,
            index=index,
            arms=tuple(arms),
            plan=plan,
            mode=bench.goals.mode,
            rate_per_s=ready.calibration.rate_per_s,
            # If the load fails without one change, the block must still count for the others.
            needs_all=False,
            seek=bench.goals.seek,
        )
        repeat_until_complete(bench, spec)
        bench.progress.step(f"block {index + 1} of {blocks}", (blocks - index - 1) * cost_s)


def _evaluated(bench: Bench) -> Ablation:
    found = evaluate(bench.store.record(), bench.goals)
    assert found is not None  # noqa: S101 - frozen before the first block
    return found
