"""The blocks of a comparison: measured until all that were planned are complete.

A study's confirmation and a contest differ in their arms, gates and rules for an end; the loop over
their blocks is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tuner.errors import HostError, InstrumentError
from tuner.phases.bench import Bench
from tuner.phases.block import BlockSpec, Drop, keep_all, run_block
from tuner.phases.repeat import wait_out
from tuner.record.model import Record

MOST_INVALID = 0.10
"""Share of invalid blocks above which a comparison ends without its planned blocks."""


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
    earlier_count: bool = True
    """True if invalid blocks of an interrupted run count against the limit."""


def run_blocks(bench: Bench, planned: PlannedBlocks) -> bool:
    """Measure the missing blocks; an invalid one is logged and repeated whole.

    It ends early if the record allows it, or if more blocks are invalid than the validity rule
    allows.

    Returns:
        Whether all blocks are complete.

    Raises:
        HostError, InstrumentError: the host or the generator fails repeatedly.
    """
    allowed, failures = allowed_invalid(planned.count), 0
    record = bench.store.record()
    before = 0 if planned.earlier_count else _invalid(record, planned)
    missing = _missing(record, planned)
    bench.progress.phase(planned.title, len(missing) * planned.cost_s)
    while missing:
        if _invalid(record, planned) - before > allowed or planned.decided(record):
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


def allowed_invalid(blocks: int) -> int:
    """Return the allowed number of invalid blocks: a tenth, and at least two."""
    return max(2, round(MOST_INVALID * blocks))


def _missing(record: Record, planned: PlannedBlocks) -> list[int]:
    """Return the indices of the blocks that are not complete."""
    done = {b.index for b in record.blocks if _belongs(b.phase, planned) and b.state == "complete"}
    return [index for index in range(planned.count) if index not in done]


def _invalid(record: Record, planned: PlannedBlocks) -> int:
    """Return the number of invalid blocks."""
    return sum(b.state == "invalid" and _belongs(b.phase, planned) for b in record.blocks)


def _belongs(phase: str, planned: PlannedBlocks) -> bool:
    return phase == planned.spec.phase
