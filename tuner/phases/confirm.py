"""The confirmation: the winner against the baseline on fresh blocks, under a frozen protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tuner.errors import HostError, InstrumentError
from tuner.judge.confirmation import estimand, tally_before_starts
from tuner.judge.load_point import other_rates
from tuner.judge.plan import FIXED, STALL_ALLOWANCE, Design, StudyPlan
from tuner.judge.scoring import BASELINE
from tuner.measurement.window import Measurement
from tuner.phases.bench import Bench
from tuner.phases.block import Arm, BlockSpec, run_block
from tuner.phases.compare import PlannedBlocks, run_blocks
from tuner.phases.seal import sealed
from tuner.phases.starts import run_starts
from tuner.record.model import Calibration, Protocol, Record
from tuner.space.configuration import Configuration
from tuner.stats.power import LEVEL
from tuner.stats.sequential import PRECISION, Stakes, watched

CANDIDATE = "candidate"
OTHER = "beside"
"""Label prefix of a further baseline, before its number."""


def freeze(
    bench: Bench,
    candidates: Sequence[Configuration],
    calibration: Calibration,
    plan: StudyPlan,
    *,
    blocks: int,
    design: Design = FIXED,
) -> Protocol:
    """Fix everything that the verdict depends on, before the first block.

    Args:
        candidates: the finalists, the search's winner first.
        blocks: number of blocks; of a sequential confirmation at most.

    Returns:
        The protocol with the hash of its content, stored in the record.
    """
    stakes = _stakes(calibration, blocks, design)
    enough = min(bench.gates.samples_needed, plan.samples_enough)
    protocol = Protocol(
        frozen_unix_s=bench.clock(),
        digest="",
        estimand=estimand(bench.goals.objectives, stall_free=bench.rule is not None),
        baseline=bench.baseline.digest,
        candidate=candidates[0].digest,
        objective=bench.objective.text,
        rate_per_s=calibration.rate_per_s,
        blocks=blocks,
        rounds=plan.confirm.rounds,
        window_s=plan.confirm.window_s,
        seed=bench.seed,
        alpha=LEVEL,
        margin=bench.goals.margin.share,
        stall_rule=bench.rule,
        gates=replace(bench.gates, samples_needed=enough),
        second=bench.goals.second.text if bench.goals.second else "",
        second_margin=bench.goals.margin.share if bench.goals.second else 0.0,
        constraints=tuple(limit.text for limit in bench.goals.limits),
        rivals=tuple(candidate.digest for candidate in candidates[1:]),
        beside=tuple(other.digest for other in bench.others),
        sequential_rho=stakes.rho if stakes else None,
        sequential_sigma_d=stakes.sigma_d if stakes else None,
        looks_level=stakes.share * LEVEL if stakes else None,
        precision=PRECISION if stakes else None,
        margin_symmetric=bench.goals.margin.symmetric,
        # Where one instance runs at a time, each window has a start of its own.
        evidence="starts" if plan.starts else "whole",
    )
    protocol = sealed(protocol)
    bench.store.set_protocol(protocol)
    return protocol


def _stakes(calibration: Calibration, blocks: int, design: Design) -> Stakes | None:
    """Return the parameters of the looks before the last block; None without looks."""
    if not design.watches(blocks):
        return None
    # Without noise in the calibration any positive figure works.
    sigma = max(calibration.sigma_d, 1e-4)
    return watched(sigma, blocks, design.level)


def run_confirmation(
    bench: Bench,
    candidates: Sequence[Configuration],
    protocol: Protocol,
    plan: StudyPlan,
) -> None:
    """Measure the blocks of the protocol (``run_blocks``), and further starts for a gain.

    It stops early if the protocol is sequential and the claim is safe and precise, or if more
    blocks are invalid than the validity rule allows: the verdict is then inconclusive in any case.

    Raises:
        HostError, InstrumentError: the host or the generator fails repeatedly.
    """
    arms, further = _arms(bench, candidates)
    # As frozen: what a deployment costs, and so the plan, may differ where hosts share the study.
    bench = replace(bench, gates=protocol.gates, rule=protocol.stall_rule)
    block_plan = replace(plan.confirm, rounds=protocol.rounds, window_s=protocol.window_s)
    sequential = protocol.sequential_rho is not None
    planned = PlannedBlocks(
        title=f"confirmation: {'at most ' * sequential}{protocol.blocks} blocks",
        spec=BlockSpec(
            phase="confirm",
            index=0,
            arms=arms,
            plan=block_plan,
            mode=bench.goals.mode,
            rate_per_s=protocol.rate_per_s,
            needs_all=True,
            seek=bench.goals.seek,
            may_lack=further,
            patient=block_plan.effective > 0,
        ),
        count=protocol.blocks,
        cost_s=block_plan.cost_s(len(arms)),
        drop=lambda windows: _failing(windows, further),
        decided=lambda record: sequential and _is_safe(bench, record),
    )
    run_blocks(bench, planned)
    run_starts(bench, [arm for arm in arms if arm.label not in further], protocol, plan)


def _arms(
    bench: Bench, candidates: Sequence[Configuration]
) -> tuple[tuple[Arm, ...], frozenset[str]]:
    """Return the arms of a block, and the labels of further baselines.

    A further baseline that equals a candidate is not added again.
    """
    labels = [CANDIDATE, *(f"{CANDIDATE}{place}" for place in range(2, len(candidates) + 1))]
    arms = [Arm(BASELINE, bench.baseline)]
    arms += [Arm(label, found) for label, found in zip(labels, candidates, strict=True)]
    there = {arm.configuration.digest for arm in arms}
    others = [other for other in bench.others if other.digest not in there]
    further = [Arm(f"{OTHER}{place}", other) for place, other in enumerate(others, 1)]
    return (*arms, *further), frozenset(arm.label for arm in further)


def _failing(windows: Sequence[Measurement], further: frozenset[str]) -> Mapping[str, str]:
    """Return further baselines that fail the load; they leave the block to the other arms."""
    failing = (w for w in windows if w.bad and w.instance in further)
    return {window.instance: "; ".join(window.invalid) for window in failing}


def _is_safe(bench: Bench, record: Record) -> bool:
    """Return whether a look allows an end, and report it if so."""
    found = tally_before_starts(record, bench.objective)
    if found.decided and found.verdict:
        bench.progress.note(
            f"the claim is safe and precise after {found.blocks} blocks: {found.verdict.kind}"
        )
    return found.decided


def run_load_points(
    bench: Bench, candidate: Configuration, calibration: Calibration, plan: StudyPlan
) -> None:
    """Measure both arms at a lower and at a higher rate, towards saturation.

    If idle CPUs poll, a third block has the rate of the confirmation with CPUs that halt. Each
    block is a look and not a claim. A failed one is left out with a note.
    """
    if not plan.points:
        return
    done = {b.index for b in bench.store.record().blocks if b.phase == "load-points"}
    points = [(rate_per_s, False) for rate_per_s in other_rates(calibration)]
    if bench.polling is not None:
        points.append((calibration.rate_per_s, True))
    missing = [index for index in range(len(points)) if index not in done]
    if not missing:
        return
    cost_s = plan.load_points.cost_s(2)
    bench.progress.phase("other load points", len(missing) * cost_s)
    for place, index in enumerate(missing, start=1):
        rate_per_s, halts = points[index]
        point = f"load point {rate_per_s:,.0f}/s" + " with idle CPUs that halt" * halts
        spec = BlockSpec(
            phase="load-points",
            index=index,
            arms=(Arm(BASELINE, bench.baseline), Arm(CANDIDATE, candidate)),
            plan=plan.load_points,
            mode="open",
            rate_per_s=rate_per_s,
            needs_all=False,
            halts=halts,
        )
        # At a lower rate the same windows have fewer requests.
        held = int(spec.rate_per_s * spec.plan.window_s / STALL_ALLOWANCE)
        gates = replace(bench.gates, samples_needed=min(bench.gates.samples_needed, held))
        try:
            run_block(replace(bench, gates=gates), spec)
        except (HostError, InstrumentError) as error:
            bench.progress.note(f"{point} left out: {error}")
        bench.progress.step(point, (len(missing) - place) * cost_s)
