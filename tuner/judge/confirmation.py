"""Evaluation of a confirmation under its frozen protocol, the same for phase and report.

After every block of a sequential confirmation the phase evaluates whether to stop, and the report
computes the same answer from the record.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tuner.goals.constraint import Constraint
from tuner.goals.objective import Objective
from tuner.judge.comparison import (
    Comparison,
    Counted,
    Family,
    Judged,
    RatioClaim,
    blocks_of_starts,
    label_of,
)
from tuner.judge.scoring import BASELINE, block_excess
from tuner.judge.support import LEAST_STARTS, Support
from tuner.record.model import Block, Protocol, Record
from tuner.stats.finalists import best_of
from tuner.stats.verdict import Verdict, VerdictKind
from tuner.stats.words import counted


@dataclass(frozen=True, slots=True)
class Tally:
    """The state of a confirmation."""

    counted: tuple[Counted, ...] = ()
    """The blocks of the verdicts, in order."""
    decided: bool = False
    """True if the protocol allows an end."""
    best: int = 0
    """Index of the verdict's candidate in the protocol."""
    judged: tuple[Judged, ...] = ()
    """One per candidate, in the protocol's order, on the blocks that count; empty without any."""

    @property
    def blocks(self) -> int:
        """Number of blocks that count."""
        return len(self.counted)

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on the named candidate; None before a block counts."""
        return self.judged[self.best].verdict if self.judged else None

    def differences(self, place: int) -> list[float]:
        """Return the differences of one candidate by block."""
        return [found.differences[place] for found in self.counted]


@dataclass(frozen=True, slots=True)
class Missing:
    """A claim that cannot be judged."""

    against: str
    """Digest of the further baseline."""
    reason: str
    failed: int
    """Blocks in which the further baseline failed the load."""


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


def confirmation(record: Record, objective: Objective) -> Comparison:
    """Return the comparison that a study's frozen protocol holds: one claim for each candidate.

    Each further baseline is compared with every candidate in a family of secondary claims: with k
    candidates and m further baselines the adjustment is for k × m claims, so that the candidate may
    be picked afterwards (``tuner.stats.finalists``). The verdict is a separate claim and keeps its
    level.

    Raises:
        ValueError: the record has no protocol.
    """
    protocol, calibration = _protocol(record), record.calibration

    def claim(candidate: str, other: str) -> RatioClaim:
        detectable = calibration.minimum_detectable_effect if calibration else 1.0
        return RatioClaim(candidate, other, objective, protocol.band, detectable)

    def family(others: Iterable[str]) -> Family:
        pairs = itertools.product(protocol.candidates, others)
        claims = tuple(claim(one, other) for one, other in pairs if one != other)
        return Family(claims, "simultaneous", protocol.stakes)

    return Comparison(
        phase="confirm",
        blocks=protocol.blocks,
        claims=family([BASELINE]),
        further=family(protocol.beside),
        limits=tuple(Constraint.parse(text) for text in protocol.constraints),
        support=Support(protocol.evidence),
        precision=protocol.precision,
    )


def tally(found: Sequence[Counted], comparison: Comparison, starts: Sequence[Block] = ()) -> Tally:
    """Judge the blocks so far.

    With a fixed number of blocks it is decided when all have been run. A sequential confirmation is
    decided at the first block after which a candidate is *better*, or each is something other than
    *inconclusive*, with intervals as narrow as the protocol wants them; later blocks are not looked
    at. Further starts have no part in that: they are measured when it is decided, and may take a
    claim away.

    Args:
        found: the blocks that count.
        comparison: the frozen protocol.
        starts: blocks of further starts.
    """
    stands = _looked(found, comparison.before_starts())
    if not stands.judged:
        return stands
    blocks = [each.block for each in stands.counted]
    judged = comparison.supported(stands.judged, blocks, starts)
    best = best_of(
        [each.verdict for each in judged],
        larger_is_better=judged[0].objective.larger_is_better,
        beyond=_beyond(blocks, comparison),
    )
    return replace(stands, judged=judged, best=best)


def _looked(found: Sequence[Counted], comparison: Comparison) -> Tally:
    """Judge the blocks up to the decision."""
    sequential = comparison.claims.stakes is not None
    stands = Tally()
    for blocks in range(1 if sequential else len(found), len(found) + 1) if found else ():
        judged = comparison.judged(found[:blocks])
        safe = sequential and _safe(judged, comparison.precision)
        decided = safe or blocks >= comparison.blocks
        stands = Tally(tuple(found[:blocks]), decided=decided, judged=judged)
        if decided:
            break
    return stands


def tally_of(record: Record, objective: Objective) -> Tally:
    """Return the state of a record's confirmation.

    Raises:
        ValueError: the record has no protocol.
    """
    comparison = confirmation(record, objective)
    starts = blocks_of_starts(record.blocks)
    return tally(comparison.counted(record.blocks), comparison, starts)


def tally_before_starts(record: Record, objective: Objective) -> Tally:
    """Return the state of a record's confirmation regardless of the number of starts.

    Raises:
        ValueError: the record has no protocol.
    """
    comparison = confirmation(record, objective).before_starts()
    return tally(comparison.counted(record.blocks), comparison)


def short_of_starts(record: Record, objective: Objective) -> dict[str, int]:
    """Return the number of further starts that each *better* candidate lacks, by digest.

    Empty before a decision, and if there are enough starts in the blocks of the verdict.

    Raises:
        ValueError: the record has no protocol.
    """
    stands = tally_before_starts(record, objective)
    lacking = LEAST_STARTS - stands.blocks
    if _protocol(record).evidence != "starts" or not stands.decided or lacking <= 0:
        return {}
    better = (each for each in stands.judged if each.verdict.kind is VerdictKind.BETTER)
    return {each.claim.arm: lacking for each in better}


def _protocol(record: Record) -> Protocol:
    if record.protocol is None:
        raise ValueError(f"study {record.name!r} has no protocol, so nothing was confirmed")
    return record.protocol


def _beyond(blocks: Sequence[Block], comparison: Comparison) -> tuple[bool, ...]:
    """Return whether each candidate's mean over these blocks exceeds a limit."""
    claims = comparison.claims.claims
    if not comparison.limits or len(claims) == 1:
        return ()
    return tuple(
        any(_mean_excess(blocks, claim.arm, limit) > 0 for limit in comparison.limits)
        for claim in claims
    )


def _mean_excess(blocks: Sequence[Block], candidate: str, limit: Constraint) -> float:
    """Return the mean excess; NaN without a figure."""
    found = []
    for block in blocks:
        label, excess = label_of(block, candidate), block_excess(block, limit)
        found += [excess[label]] if label in excess else []
    return statistics.fmean(found) if found else math.nan


def against_others(
    record: Record, stands: Tally, objective: Objective
) -> tuple[Judged | Missing, ...]:
    """Compare the verdict's candidate with every further baseline of the protocol.

    The comparison is paired in the blocks of the verdict.
    """
    protocol = record.protocol
    if protocol is None or not protocol.beside or not stands.judged:
        return ()
    blocks = [found.block for found in stands.counted]
    comparison = confirmation(record, objective)
    family = comparison.further
    rows = {claim: _row(blocks, claim) for claim in family.claims}
    judged = comparison.before_starts().supported(
        family.judged([() if isinstance(row, str) else row for row in rows.values()]), blocks
    )
    named = protocol.candidates[stands.best]
    known: dict[str, Judged | Missing] = {
        claim.against: Missing(claim.against, row, _failures(blocks, claim.against)[0])
        for claim, row in rows.items()
        if claim.arm == named and isinstance(row, str)
    }
    known |= {each.claim.against: each for each in judged if each.claim.arm == named}
    itself = "it is the tuned configuration itself"
    return tuple(known.get(other, Missing(other, itself, 0)) for other in protocol.beside)


def _row(blocks: Sequence[Block], claim: RatioClaim) -> list[float] | str:
    """Return the differences of a claim by block, or why there are none."""
    failed, reason = _failures(blocks, claim.against)
    if failed:
        return f"it failed the load in {counted(failed, 'block')}: {reason}"
    found = [claim.difference_ln(block) for block in blocks]
    return found if all(map(math.isfinite, found)) else "it has no figure in a block"


def _failures(blocks: Sequence[Block], digest: str) -> tuple[int, str]:
    """Return the number of blocks in which an instance did not stay, and why in the last."""
    reasons = [reason for block in blocks if (reason := _left(block, digest)) is not None]
    return len(reasons), reasons[-1] if reasons else ""


def _left(block: Block, digest: str) -> str | None:
    """Return why an instance did not stay in a block; None if it did."""
    label = label_of(block, digest)
    for instance in block.instances:
        if instance.instance == label:
            return None if instance.state == "live" else instance.message or instance.state
    return "it was not measured"


def named(record: Record, objective: Objective) -> str:
    """Return the digest of the verdict's configuration.

    Raises:
        ValueError: the record has no protocol.
    """
    return _protocol(record).candidates[tally_of(record, objective).best]


def _safe(judged: Sequence[Judged], precision: float | None) -> bool:
    """Return whether a candidate is *better*, or each is judged, with intervals narrow enough."""
    kinds = [
        each.verdict.kind
        if each.verdict.estimate.is_within(precision)
        else VerdictKind.INCONCLUSIVE
        for each in judged
    ]
    return VerdictKind.BETTER in kinds or VerdictKind.INCONCLUSIVE not in kinds
