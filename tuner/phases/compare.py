"""The blocks of a comparison: measured until all that were planned are complete.

A study's confirmation and a contest differ in their arms, gates and rules for an end; the loop over
their blocks is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tuner.errors import HostError, InstrumentError
from tuner.judge.rounds import allowed_invalid
from tuner.judge.scoring import BASELINE, counted_windows
from tuner.phases.bench import Bench
from tuner.phases.block import BlockSpec, Drop, keep_all, run_block
from tuner.phases.repeat import wait_out
from tuner.record.model import Block, Record

_REPEATED_SHARE = 0.5
"""Most time of invalid blocks, in proportion to that of the planned ones."""


@dataclass(frozen=True, slots=True)
class PlannedBlocks:
    """The blocks of one comparison, all alike."""

    title: str
    """Name in the progress."""
    spec: BlockSpec
    """The first block; the others differ in their index."""
    count: int
    cost_s: float
    """Expected wall-clock of one."""
    drop: Drop = keep_all
    decided: Callable[[Record], bool] = lambda _: False
    """True if the record allows an end before the last block."""
    by_time: bool = False
    """True if only the time of this run's invalid blocks can end it, and not their number."""


def run_blocks(bench: Bench, planned: PlannedBlocks) -> bool:
    """Measure the missing blocks; an invalid one is logged and repeated whole.

    It ends early if the record allows it, or if more blocks are invalid than ``allowed_invalid``.
    A host that managed a round of each may do better, so such blocks may be more: together they
    take up to half the time of the planned ones. So may all invalid blocks of a comparison that
    ends ``by_time``, which may last for an hour: a host that is bad for five minutes does not
    end it.

    Returns:
        Whether all blocks are complete.

    Raises:
        HostError, InstrumentError: the host or the generator fails repeatedly.
    """
    allowed, failures = allowed_invalid(planned.count), 0
    record = bench.store.record()
    before = len(_invalid(record, planned)) if planned.by_time else 0
    missing = _missing(record, planned)
    bench.progress.phase(planned.title, len(missing) * planned.cost_s)
    while missing:
        if planned.decided(record) or _is_hopeless(_invalid(record, planned)[before:], planned):
            return False
        try:
            block = run_block(bench, replace(planned.spec, index=missing[0]), planned.drop)
        except (HostError, InstrumentError) as error:
            failures += 1
            if failures > allowed:
                raise
            bench.progress.note(f"block repeated: {error}")
            wait_out(bench, error, failures)
        else:
            if block.state == "complete":
                done = planned.count - len(missing) + 1
                left_s = (planned.count - done) * planned.cost_s
                bench.progress.step(f"block {done} of {planned.count}", left_s)
            else:
                bench.progress.note(f"block invalid, repeated whole: {block.reason}")
        record = bench.store.record()
        missing = _missing(record, planned)
    return True


def _missing(record: Record, planned: PlannedBlocks) -> list[int]:
    """Return the indices of the blocks that are not complete."""
    done = {b.index for b in record.blocks if _belongs(b.phase, planned) and b.state == "complete"}
    return [index for index in range(planned.count) if index not in done]


def _invalid(record: Record, planned: PlannedBlocks) -> list[Block]:
    """Return the invalid blocks, in order."""
    return [b for b in record.blocks if b.state == "invalid" and _belongs(b.phase, planned)]


def _is_hopeless(invalid: Sequence[Block], planned: PlannedBlocks) -> bool:
    """Return whether these are too many invalid blocks to go on."""
    allowed = allowed_invalid(planned.count)
    if len(invalid) <= allowed:
        return False
    spent_s = sum(block.ended_unix_s - block.started_unix_s for block in invalid)
    if spent_s >= _REPEATED_SHARE * planned.count * planned.cost_s:
        return True
    without = sum(not counted_windows(block, BASELINE) for block in invalid)
    return without > allowed and not planned.by_time


def _belongs(phase: str, planned: PlannedBlocks) -> bool:
    return phase == planned.spec.phase
