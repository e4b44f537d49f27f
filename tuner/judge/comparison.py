"""A frozen comparison: arms in common blocks, claims about them, and the adjustment between claims.

The confirmation of a study is the family with one claim; finalists, further baselines, a second
objective, and the pairs of a contest are families of several.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tuner.goals.constraint import Constraint
from tuner.goals.objective import Objective
from tuner.judge.scoring import BASELINE, counted_windows, original
from tuner.judge.support import TYPICAL, Support, withdrawn
from tuner.judge.whole import Arms
from tuner.measurement.window import Measurement
from tuner.record.model import Block, Phase
from tuner.stats.family import jointly
from tuner.stats.holm import holm
from tuner.stats.margin import DEFAULT_BAND, Margin
from tuner.stats.sequential import Stakes
from tuner.stats.verdict import Verdict, judge

Adjustment = Literal["simultaneous", "stepwise"]
"""Rule that keeps the chance of any false claim of a family at 5 %.

``simultaneous``: Bonferroni's intervals hold for all claims at once, so the best may be picked
afterwards; p is Holm's p of "no difference" (``tuner.stats.finalists``). ``stepwise``: intervals
of single claims; p is Holm's p of "not beyond the margin", and a claim whose p exceeds 5 % is
withdrawn (``tuner.stats.family``). They agree for a single claim.
"""


@dataclass(frozen=True, slots=True)
class RatioClaim:
    """A comparison of one arm with another in one figure."""

    arm: str
    """Label of the arm in every block, or digest of its configuration."""
    against: str
    """The other arm, likewise; a ratio is ``arm / against``."""
    objective: Objective
    margin: Margin = DEFAULT_BAND
    minimum_detectable_effect: float = 1.0
    """Reduction that was planned to be seen, as a share."""

    def difference_ln(self, block: Block) -> float:
        """Return the log ratio of the arms' figures in a block; NaN where one has none."""
        return self.objective.difference_ln(
            arm_windows(block, self.arm), arm_windows(block, self.against)
        )


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim with its verdict."""

    claim: RatioClaim
    verdict: Verdict
    """*better* where the arm is better than the one that it is compared with."""
    adjusted_p: float
    """Holm's p, adjusted for all claims of the family."""
    lacks: str = ""
    """Why the whole arms do not support the claim of the typical block; empty if they do."""

    @property
    def objective(self) -> Objective:
        """The figure that the claim is about."""
        return self.claim.objective


@dataclass(frozen=True, slots=True)
class Family:
    """Claims that are adjusted for each other."""

    claims: tuple[RatioClaim, ...]
    adjustment: Adjustment
    stakes: Stakes | None = None
    """Parameters of the sequential test; None: the number of blocks is fixed beforehand."""

    def judged(self, rows: Sequence[Sequence[float]]) -> tuple[Judged, ...]:
        """Return the verdict on each claim; one without differences is left out.

        Args:
            rows: for each claim its finite differences by block.
        """
        known = [(claim, row) for claim, row in zip(self.claims, rows, strict=True) if row]
        simultaneous = self.adjustment == "simultaneous"
        verdicts = [
            judge(
                row,
                margin=claim.margin,
                minimum_detectable_effect=claim.minimum_detectable_effect,
                objective=claim.objective.words,
                larger_is_better=claim.objective.larger_is_better,
                stakes=self.stakes,
                family=len(self.claims) if simultaneous else 1,
            )
            for claim, row in known
        ]
        p_values = holm([verdict.estimate.p_value for verdict in verdicts])
        judged = tuple(
            Judged(claim, verdict, p)
            for (claim, _), verdict, p in zip(known, verdicts, p_values, strict=True)
        )
        return judged if simultaneous else stepwise(judged, [row for _, row in known])


def stepwise(judged: Sequence[Judged], rows: Sequence[Sequence[float]]) -> tuple[Judged, ...]:
    """Return claims adjusted for each other; one that does not hold jointly is withdrawn.

    Args:
        judged: the claims, each judged by itself.
        rows: for each claim its finite differences by block.
    """
    adjusted = jointly([each.verdict for each in judged], rows)
    return tuple(
        Judged(each.claim, verdict, p) for each, (verdict, p) in zip(judged, adjusted, strict=True)
    )


@dataclass(frozen=True, slots=True)
class Counted:
    """A block that counts."""

    block: Block
    differences: tuple[float, ...]
    """Log ratio of each claim that decides; NaN where an arm has no figure."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A frozen protocol: the arms of common blocks, the claims about them, their adjustment."""

    phase: Phase
    """Phase whose blocks are judged."""
    blocks: int
    """Planned number of blocks, of the sequential test at most."""
    claims: Family
    """The claims that decide."""
    further: Family = Family((), "simultaneous")
    """Secondary claims, a family of their own."""
    needs_all: bool = True
    """True if a block counts only with a figure for every claim that decides."""
    limits: tuple[Constraint, ...] = ()
    """Limits that a named arm must hold."""
    support: Support = TYPICAL
    """Support of the claims by whole arms."""
    precision: float | None = None
    """As ``Protocol.precision``."""

    def before_starts(self) -> Comparison:
        """Return the comparison as it is judged before further starts are measured."""
        return replace(self, support=replace(self.support, counts_starts=False))

    def counted(self, blocks: Iterable[Block]) -> tuple[Counted, ...]:
        """Return the blocks that count, in order; of repeated blocks the last."""
        latest = {}
        for block in blocks:
            if block.phase == self.phase and block.state == "complete":
                found = tuple(claim.difference_ln(block) for claim in self.claims.claims)
                if not self.needs_all or all(map(math.isfinite, found)):
                    latest[block.index] = Counted(block, found)
        return tuple(latest[index] for index in sorted(latest))[: self.blocks]

    def judged(self, counted: Sequence[Counted]) -> tuple[Judged, ...]:
        """Return the verdicts on the claims that decide; a claim without a figure is left out."""
        columns = (
            [found.differences[place] for found in counted]
            for place in range(len(self.claims.claims))
        )
        judged = self.claims.judged([[d for d in column if math.isfinite(d)] for column in columns])
        return self.supported(judged, [found.block for found in counted])

    def supported(
        self, judged: Sequence[Judged], blocks: Sequence[Block], starts: Sequence[Block] = ()
    ) -> tuple[Judged, ...]:
        """Return the claims; one that the whole arms do not support is withdrawn.

        Args:
            judged: the claims.
            blocks: the blocks that count.
            starts: blocks of further starts.
        """
        return tuple(self._supported(each, blocks, starts) for each in judged)

    def _supported(
        self, judged: Judged, blocks: Sequence[Block], starts: Sequence[Block]
    ) -> Judged:
        if not self.support.concerns(judged.verdict):
            return judged
        claim, support = judged.claim, self.support
        pairs = [
            (arm_windows(block, claim.against), arm_windows(block, claim.arm)) for block in blocks
        ]
        reason = support.lacks(
            judged.verdict,
            judged.objective,
            [pair for pair in pairs if all(pair)],
            more_starts(starts, claim),
            other=claim.against if support.mutual else "the baseline",
        )
        return replace(judged, verdict=withdrawn(judged.verdict, reason), lacks=reason)


def blocks_of_starts(blocks: Iterable[Block]) -> list[Block]:
    """Return the complete blocks of further starts."""
    return [block for block in blocks if block.phase == "starts" and block.state == "complete"]


def more_starts(starts: Iterable[Block], claim: RatioClaim) -> list[Arms]:
    """Return the windows of each further start of the arms of a claim, in pairs.

    Args:
        starts: blocks of further starts.
        claim: a comparison of two arms.
    """
    found: list[Arms] = []
    for block in starts:
        pairs = zip(_copies(block, claim.against), _copies(block, claim.arm), strict=False)
        arms = ((counted_windows(block, one), counted_windows(block, own)) for one, own in pairs)
        found += [pair for pair in arms if all(pair)]
    return found


def _copies(block: Block, arm: str) -> list[str]:
    """Return the labels of the instances of an arm in a block of further starts."""
    first = label_of(block, arm)
    return [i.instance for i in block.instances if first and original(i.instance) == first]


def label_of(block: Block, arm: str) -> str | None:
    """Return an arm's label in a block; None where it is not part of it.

    Args:
        block: of any phase.
        arm: the label, or the digest of a configuration other than the baseline.
    """
    for instance in block.instances:
        if arm == instance.instance or (arm == instance.digest and instance.instance != BASELINE):
            return instance.instance
    return None


def arm_windows(block: Block, arm: str) -> list[Measurement]:
    """Return the windows of an arm that count (``tuner.judge.scoring.counted_windows``)."""
    label = label_of(block, arm)
    return counted_windows(block, label) if label is not None else []
