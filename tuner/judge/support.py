"""The support by whole arms that a claim about the typical block needs.

A claim is withdrawn if all requests together or the worst starts contradict it. A gain also needs
enough starts of both arms: a kind of start that did not happen contradicts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tuner.goals.objective import Objective
from tuner.judge.whole import Arms, contradiction, whole_arms
from tuner.record.contenders import Evidence
from tuner.stats.verdict import Verdict, VerdictKind
from tuner.stats.words import counted

LEAST_STARTS = 17
"""Starts of each arm that a gain needs.

A kind of start that comes in a fifth of them is in none of 17 with a probability of 2.2 %, which is
below the level of a false *better*.
"""


@dataclass(frozen=True, slots=True)
class Support:
    """The rule by which whole arms support the claims of one comparison."""

    evidence: Evidence = "typical"
    mutual: bool = False
    """True if *worse* is a gain of the other arm, as between servers."""
    counts_starts: bool = True
    """False to leave the number of starts out, before further ones are measured."""

    def concerns(self, verdict: Verdict) -> bool:
        """Return whether a verdict is a claim that needs support."""
        if self.evidence == "typical":
            return False
        losses = self.mutual or self.evidence == "starts"
        kind = verdict.kind
        return kind is VerdictKind.BETTER or (losses and kind is VerdictKind.WORSE)

    def lacks(
        self,
        verdict: Verdict,
        objective: Objective,
        blocks: Sequence[Arms],
        more: Sequence[Arms] = (),
        *,
        other: str = "the baseline",
    ) -> str:
        """Return why the whole arms do not support a verdict; empty if they do.

        Args:
            verdict: by the typical block.
            objective: its figure.
            blocks: of each block the windows of both arms; at least one block.
            more: the same of further starts.
            other: name of the arm that the first arm of a pair is, in words.
        """
        if not self.concerns(verdict):
            return ""
        loss = verdict.kind is VerdictKind.WORSE
        whole = whole_arms(objective, blocks, more)
        found = contradiction(objective, whole, verdict.margin, loss=loss, other=other)
        if found or (loss and not self.mutual):
            return found
        return self.too_few(whole.starts)

    def too_few(self, starts: int) -> str:
        """Return why a number of starts does not support a gain; empty if it does."""
        if self.evidence != "starts" or not self.counts_starts or starts >= LEAST_STARTS:
            return ""
        return (
            f"{counted(starts, 'start')} of each arm are too few to rule out bad ones:"
            f" {LEAST_STARTS} are needed"
        )


TYPICAL = Support()
"""The rule of claims by the typical block alone."""


def withdrawn(verdict: Verdict, reason: str) -> Verdict:
    """Return an inconclusive verdict in place of a claim, if there is a reason."""
    if not reason:
        return verdict
    return replace(
        verdict,
        kind=VerdictKind.INCONCLUSIVE,
        sentence=f"Inconclusive: {reason}. The typical block alone would say: "
        f"{verdict.sentence[0].lower()}{verdict.sentence[1:]}",
    )
