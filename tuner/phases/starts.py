"""Further starts of both arms, before a gain is claimed on few blocks.

A block of the confirmation starts each arm once. A kind of start that comes in a fifth of them may
be in none of a few blocks, so several instances of each arm are started side by side, and measured
for a moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tuner.errors import HostError, InstrumentError
from tuner.judge.confirmation import short_of_starts
from tuner.judge.plan import StudyPlan, blocks_of_copies
from tuner.judge.scoring import copy_of
from tuner.phases.bench import Bench
from tuner.phases.block import Arm, BlockSpec
from tuner.phases.compare import PlannedBlocks, run_blocks
from tuner.record.model import Protocol
from tuner.stats.words import counted


def run_starts(bench: Bench, arms: Sequence[Arm], protocol: Protocol, plan: StudyPlan) -> None:
    """Measure the further starts that the gains of a confirmation need; none without a gain.

    If the host or the generator fails, the gain is not claimed.

    Args:
        bench: the ports of the study.
        arms: baseline and candidates, as in the confirmation.
        protocol: of the confirmation.
        plan: of the study.
    """
    if plan.starts is None or protocol.evidence != "starts":
        return
    record = bench.store.record()
    lacking: dict[str, int] = {}
    for objective in bench.goals.objectives:
        lacking |= short_of_starts(record, objective)
    if not lacking:
        return
    first, *candidates = arms
    needed = [first, *(arm for arm in candidates if arm.configuration.digest in lacking)]
    count, copies = blocks_of_copies(max(lacking.values()), len(needed))
    bench.progress.note(
        f"a gain needs more starts of each arm: {counted(count * copies, 'further start')}"
    )
    spec = BlockSpec(
        phase="starts",
        index=0,
        arms=tuple(
            replace(arm, label=copy_of(arm.label, number))
            for number in range(1, copies + 1)
            for arm in needed
        ),
        plan=plan.starts,
        mode=bench.goals.mode,
        rate_per_s=protocol.rate_per_s,
        needs_all=True,
        patient=True,
    )
    # A window of a further start is half as long as one of the search.
    least = max(1, min(protocol.gates.samples_needed, plan.look_samples // 2))
    gates = replace(protocol.gates, samples_needed=least)
    planned = PlannedBlocks(
        title=f"further starts: {counted(count, 'block')}",
        spec=spec,
        count=count,
        cost_s=plan.starts.cost_s(len(spec.arms)),
    )
    try:
        run_blocks(replace(bench, gates=gates, rule=protocol.stall_rule), planned)
    except (HostError, InstrumentError) as error:
        bench.progress.note(f"further starts left out: {error}")
