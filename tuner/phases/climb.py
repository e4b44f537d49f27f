"""A ladder: every arm at every rate, one rate in each block, rates in random order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tuner.errors import HostError, InstrumentError
from tuner.judge.contest import block_cost_s
from tuner.judge.plan import STALL_ALLOWANCE, BlockPlan
from tuner.measurement.gates import Gates
from tuner.measurement.stalls import SPANS
from tuner.phases.bench import Bench
from tuner.phases.block import Arm, BlockSpec, run_block
from tuner.phases.study import seeking
from tuner.record.model import Block

_MOST_FAILURES = 3


def run_ladder(
    bench: Bench, arms: Sequence[Arm], rates_per_s: Sequence[float], passes: int, plan: BlockPlan
) -> None:
    """Offer every rate in each pass, in a random order from the study's seed.

    Complete blocks in the record are not measured again.

    A failed block is left out with a note; its rate has the other passes.

    Raises:
        HostError, InstrumentError: the host or the generator fails repeatedly.
    """
    count = len(rates_per_s) * passes
    cost_s = block_cost_s(plan, len(arms))
    ended = {b.index for b in bench.store.record().blocks if b.phase == "ladder" and _has_ended(b)}
    left = count - len(ended)
    if not left:
        return
    bench.progress.phase(
        f"ladder: {len(rates_per_s)} rates from {min(rates_per_s):,.0f}/s to"
        f" {max(rates_per_s):,.0f}/s, each {passes} times",
        left * cost_s,
    )
    failures = 0
    for pass_ in range(passes):
        order = np.random.default_rng([bench.seed, pass_]).permutation(len(rates_per_s))
        for rung in order.tolist():
            index = pass_ * len(rates_per_s) + rung
            if index in ended:
                continue
            rate_per_s = rates_per_s[rung]
            held = max(1, int(rate_per_s * plan.window_s / STALL_ALLOWANCE))
            gates = seeking(Gates(samples_needed=min(1_000, held)))
            spec = BlockSpec(
                phase="ladder",
                index=index,
                arms=tuple(arms),
                plan=plan,
                mode="open",
                rate_per_s=rate_per_s,
                needs_all=False,
            )
            try:
                run_block(replace(bench, gates=gates, rule=bench.rule and SPANS), spec)
            except (HostError, InstrumentError) as error:
                failures += 1
                if failures > _MOST_FAILURES:
                    raise
                bench.progress.note(f"{rate_per_s:,.0f}/s left out of pass {pass_ + 1}: {error}")
            left -= 1
            bench.progress.step(
                f"{rate_per_s:,.0f}/s, block {count - left} of {count}", left * cost_s
            )


def _has_ended(block: Block) -> bool:
    """Return whether a block has ended, successfully or not."""
    return block.state in {"complete", "invalid"}
