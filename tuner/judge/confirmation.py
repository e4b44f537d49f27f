"""Evaluation of a confirmation under its frozen protocol, the same for phase and report.

In always-valid mode the phase asks after every block whether to stop, and the report finds the same
answer from the record.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tuner.goals.constraint import Constraint
from tuner.goals.objective import Objective
from tuner.judge.scoring import BASELINE, block_excess, counted_windows
from tuner.record.model import Block, Calibration, Protocol, Record
from tuner.stats.finalists import best_of
from tuner.stats.holm import holm
from tuner.stats.verdict import Verdict, VerdictKind, judge
from tuner.stats.words import counted


@dataclass(frozen=True, slots=True)
class Counted:
    """A block that counts."""

    block: Block
    differences: tuple[float, ...]
    """ln(candidate / baseline) of each candidate, in the protocol's order."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The state of a confirmation."""

    counted: tuple[Counted, ...] = ()
    """The blocks that the verdicts rest on, in order."""
    decided: bool = False
    """True if the protocol lets it end here."""
    best: int = 0
    """Index among the protocol's candidates of the one that the verdict names."""
    verdicts: tuple[Verdict, ...] = ()
    """One per candidate, in the protocol's order, on the blocks that count; empty without any."""

    @property
    def blocks(self) -> int:
        """Number of blocks that count."""
        return len(self.counted)

    def differences(self, place: int) -> list[float]:
        """Return the differences of one candidate by block."""
        return [found.differences[place] for found in self.counted]


def estimand(objectives: Sequence[Objective], *, stall_free: bool = True) -> str:
    """Describe the estimand of each objective."""
    return "; ".join(_estimand(objective, stall_free=stall_free) for objective in objectives)


def _estimand(objective: Objective, *, stall_free: bool) -> str:
    latency = "corrected latency, stall-free" if stall_free else "corrected latency, raw"
    quantity, within = objective.words, "the pseudomedian over rounds of the logarithms' difference"
    if objective.slo:
        quantity = (
            f"highest rate with {objective.slo.text} ({latency}), where the"
            " isotonic fit over the block's windows crosses the limit"
        )
        within = "the difference of the arms' logarithms"
    elif objective.quantile:
        quantity += f" of {latency}"
    return f"ratio candidate / baseline of the {quantity}, pseudomedian over blocks of {within}"


def counting(
    blocks: Iterable[Block], protocol: Protocol, objective: Objective
) -> tuple[Counted, ...]:
    """Return the blocks that count, in order; of repeated blocks the last."""
    latest = {}
    for block in blocks:
        if block.phase == "confirm":
            found = _differences(block, protocol.candidates, objective)
            if found is not None:
                latest[block.index] = Counted(block, found)
    return tuple(latest[index] for index in sorted(latest))[: protocol.blocks]


def _differences(
    block: Block, candidates: Sequence[str], objective: Objective
) -> tuple[float, ...] | None:
    """ln(candidate / baseline) of each candidate in a complete block; None if it does not count."""
    if block.state != "complete":
        return None
    labels = {i.digest: i.instance for i in block.instances if i.instance != BASELINE}
    base = counted_windows(block, BASELINE)
    found = []
    for digest in candidates:
        windows = counted_windows(block, labels[digest]) if digest in labels else []
        found.append(objective.difference_ln(windows, base))
    return tuple(found) if all(map(math.isfinite, found)) else None


def tally(
    found: Sequence[Counted],
    protocol: Protocol,
    calibration: Calibration | None,
    objective: Objective,
) -> Tally:
    """Judge the blocks so far.

    With a fixed number of blocks it is decided when all have been run. In always-valid mode it is
    decided at the first block after which a candidate is *better*, or each is something other than
    *inconclusive*; later blocks are not looked at.
    """
    counts: Iterable[int] = (len(found),) if found else ()
    if protocol.sequential_rho is not None:
        counts = range(1, len(found) + 1)
    stands = Tally()
    for blocks in counts:
        verdicts = _verdicts(found[:blocks], protocol, calibration, objective)
        decided = blocks >= protocol.blocks or (
            protocol.sequential_rho is not None and _safe(verdicts)
        )
        stands = Tally(tuple(found[:blocks]), decided=decided, verdicts=verdicts)
        if decided:
            break
    if not stands.verdicts:
        return stands
    beyond = _beyond([each.block for each in stands.counted], protocol)
    best = best_of(stands.verdicts, larger_is_better=objective.larger_is_better, beyond=beyond)
    return replace(stands, best=best)


def tally_of(record: Record, objective: Objective) -> Tally:
    """Return the state of a record's confirmation.

    Raises:
        ValueError: nothing was confirmed, or is about to be.
    """
    protocol = _protocol(record)
    found = counting(record.blocks, protocol, objective)
    return tally(found, protocol, record.calibration, objective)


def _protocol(record: Record) -> Protocol:
    if record.protocol is None:
        raise ValueError(f"study {record.name!r} has no protocol, so nothing was confirmed")
    return record.protocol


def _beyond(blocks: Sequence[Block], protocol: Protocol) -> tuple[bool, ...]:
    """Return whether each candidate's mean is beyond a limit of the protocol, over these blocks."""
    limits = [Constraint.parse(text) for text in protocol.constraints]
    if not limits or len(protocol.candidates) == 1:
        return ()
    return tuple(
        any(_mean_excess(blocks, digest, limit) > 0 for limit in limits)
        for digest in protocol.candidates
    )


def _mean_excess(blocks: Sequence[Block], digest: str, limit: Constraint) -> float:
    """NaN, which is above nothing, where no block has a figure."""
    found = []
    for block in blocks:
        label = next((i.instance for i in block.instances if i.digest == digest), "")
        excess = block_excess(block, limit)
        found += [excess[label]] if label in excess else []
    return statistics.fmean(found) if found else math.nan


@dataclass(frozen=True, slots=True)
class Comparison:
    """The named candidate against one of the further baselines, over the blocks that count."""

    baseline: str
    """Digest of the further baseline."""
    verdict: Verdict | None
    """By intervals that hold at once for all such contrasts; None where there is no figure."""
    adjusted_p: float
    """Holm's p of "no difference", adjusted for all such contrasts; NaN without a figure."""
    failed: int
    """Blocks in which the further baseline failed the load."""
    reason: str
    """Why there is no figure; empty if there is one."""


def comparisons(record: Record, stands: Tally, objective: Objective) -> tuple[Comparison, ...]:
    """Return the candidate that the verdict names against every further baseline of the protocol.

    Paired in the blocks that the verdict rests on. A family of secondary claims of its own: with k
    candidates and m further baselines, p is Holm's over all k × m contrasts and intervals are
    Bonferroni's of 1 - alpha / (k × m), so that the candidate may be picked afterwards (see
    ``tuner.stats.finalists``). The verdict itself is a separate claim and keeps its level.
    """
    protocol = record.protocol
    if protocol is None or not protocol.beside or not stands.verdicts:
        return ()
    blocks = [found.block for found in stands.counted]
    family = [
        (candidate, other)
        for candidate in protocol.candidates
        for other in protocol.beside
        if candidate != other
    ]
    judged = {pair: _against(blocks, *pair, objective) for pair in family}
    verdicts = {
        pair: _judged(rows, protocol, record.calibration, objective, len(family))
        for pair, rows in judged.items()
        if isinstance(rows, list)
    }
    adjusted = dict(
        zip(verdicts, holm([v.estimate.p_value for v in verdicts.values()]), strict=True)
    )
    named = protocol.candidates[stands.best]
    found = []
    for other in protocol.beside:
        pair = (named, other)
        why = judged.get(pair, "it is the tuned configuration itself")
        found.append(
            Comparison(
                baseline=other,
                verdict=verdicts.get(pair),
                adjusted_p=adjusted.get(pair, math.nan),
                failed=sum(_left(block, other) is not None for block in blocks),
                reason=why if isinstance(why, str) else "",
            )
        )
    return tuple(found)


def _against(
    blocks: Sequence[Block], candidate: str, other: str, objective: Objective
) -> list[float] | str:
    """Return ln(candidate / other) of each block, or why there is none."""
    failures = [reason for block in blocks if (reason := _left(block, other)) is not None]
    if failures:
        return f"it failed the load in {counted(len(failures), 'block')}: {failures[-1]}"
    found = []
    for block in blocks:
        labels = {i.digest: i.instance for i in block.instances if i.instance != BASELINE}
        one, two = (counted_windows(block, labels[digest]) for digest in (candidate, other))
        found.append(objective.difference_ln(one, two))
    return found if all(map(math.isfinite, found)) else "it has no figure in a block"


def _left(block: Block, digest: str) -> str | None:
    """Why an instance did not stay in a block, in words; None if it did."""
    for instance in block.instances:
        if instance.digest == digest and instance.instance != BASELINE:
            return None if instance.state == "live" else instance.message or instance.state
    return "it was not measured"


def _judged(
    rows: Sequence[float],
    protocol: Protocol,
    calibration: Calibration | None,
    objective: Objective,
    family: int,
) -> Verdict:
    return judge(
        rows,
        margin=protocol.margin,
        minimum_detectable_effect=calibration.minimum_detectable_effect if calibration else 1.0,
        objective=objective.words,
        larger_is_better=objective.larger_is_better,
        rho=protocol.sequential_rho,
        family=family,
    )


def named(record: Record, objective: Objective) -> str:
    """Return digest of the configuration that the verdict of a study names.

    Raises:
        ValueError: nothing was confirmed, or is about to be.
    """
    return _protocol(record).candidates[tally_of(record, objective).best]


def _safe(verdicts: Sequence[Verdict]) -> bool:
    kinds = {verdict.kind for verdict in verdicts}
    return VerdictKind.BETTER in kinds or VerdictKind.INCONCLUSIVE not in kinds


def _verdicts(
    found: Sequence[Counted],
    protocol: Protocol,
    calibration: Calibration | None,
    objective: Objective,
) -> tuple[Verdict, ...]:
    family = len(protocol.candidates)
    return tuple(
        _judged(
            [each.differences[place] for each in found], protocol, calibration, objective, family
        )
        for place in range(family)
    )
