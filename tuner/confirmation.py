"""What the blocks of a confirmation say under its frozen protocol: the same for phase and report.

In always-valid mode the phase asks after every block whether to stop, and the report finds the same
answer from the record.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuner.objective import Objective
from tuner.record import Block, Calibration, Protocol, Record
from tuner.scoring import BASELINE, counted_windows
from tuner.stats.finalists import best_of
from tuner.stats.verdict import Verdict, VerdictKind, judge


@dataclass(frozen=True, slots=True)
class Tally:
    """How far a confirmation has come."""

    blocks: int
    """Blocks that count."""
    decided: bool
    """Whether the protocol lets it end here."""
    best: int
    """Index among the protocol's candidates of the one that the verdict names."""
    verdicts: tuple[Verdict, ...]
    """One per candidate, in the protocol's order, on the blocks that count; empty without any."""


def block_differences(
    block: Block, candidates: Sequence[str], objective: Objective
) -> tuple[float, ...] | None:
    """ln(candidate / baseline) of each candidate in a complete block; None if it does not count."""
    if block.state != "complete":
        return None
    labels = {i.digest: i.instance for i in block.instances if i.instance != BASELINE}
    base = objective.arm_ln(counted_windows(block, BASELINE))
    found = []
    for digest in candidates:
        windows = counted_windows(block, labels[digest]) if digest in labels else []
        found.append(objective.arm_ln(windows) - base)
    return tuple(found) if all(map(math.isfinite, found)) else None


def differences(
    blocks: Iterable[Block], protocol: Protocol, objective: Objective
) -> list[tuple[float, ...]]:
    """The differences of every block that counts, in order; of repeated blocks the last."""
    latest: dict[int, tuple[float, ...]] = {}
    for block in blocks:
        if block.phase == "confirm":
            found = block_differences(block, protocol.candidates, objective)
            if found is not None:
                latest[block.index] = found
    return [latest[index] for index in sorted(latest)][: protocol.blocks]


def tally(
    rows: Sequence[Sequence[float]],
    protocol: Protocol,
    calibration: Calibration | None,
    objective: Objective,
) -> Tally:
    """Judge the differences of the blocks so far.

    With a fixed number of blocks it is decided when all have been run. In always-valid mode it is
    decided at the first block after which a candidate is *better*, or each is something other than
    *inconclusive*; later rows are not looked at.
    """
    counts: Iterable[int] = (len(rows),) if rows else ()
    if protocol.sequential_rho is not None:
        counts = range(1, len(rows) + 1)
    verdicts: tuple[Verdict, ...] = ()
    blocks, decided = 0, False
    for blocks in counts:
        verdicts = _verdicts(rows[:blocks], protocol, calibration, objective)
        decided = blocks >= protocol.blocks or (
            protocol.sequential_rho is not None and _safe(verdicts)
        )
        if decided:
            break
    best = best_of(verdicts, larger_is_better=objective.larger_is_better) if verdicts else 0
    return Tally(blocks, decided, best, verdicts)


def named(record: Record, objective: Objective) -> str:
    """Digest of the configuration that the verdict of a study names.

    Raises:
        ValueError: nothing was confirmed, or is about to be.
    """
    if record.protocol is None:
        raise ValueError(f"study {record.name!r} has no protocol, so nothing was confirmed")
    rows = differences(record.blocks, record.protocol, objective)
    found = tally(rows, record.protocol, record.calibration, objective)
    return record.protocol.candidates[found.best]


def _safe(verdicts: Sequence[Verdict]) -> bool:
    kinds = {verdict.kind for verdict in verdicts}
    return VerdictKind.BETTER in kinds or VerdictKind.INCONCLUSIVE not in kinds


def _verdicts(
    rows: Sequence[Sequence[float]],
    protocol: Protocol,
    calibration: Calibration | None,
    objective: Objective,
) -> tuple[Verdict, ...]:
    return tuple(
        judge(
            [row[place] for row in rows],
            margin=protocol.margin,
            minimum_detectable_effect=calibration.minimum_detectable_effect if calibration else 1.0,
            objective=objective.words,
            larger_is_better=objective.larger_is_better,
            rho=protocol.sequential_rho,
            family=len(protocol.candidates),
        )
        for place in range(len(protocol.candidates))
    )
