"""Further claims: a second objective, and limits that must hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuner.goals.constraint import Constraint
from tuner.goals.goals import Goals
from tuner.judge.arms import PairedBlock
from tuner.judge.comparison import Family, Judged, stepwise
from tuner.judge.limits import LimitFound, LimitState, limit_found
from tuner.judge.outcome import overruled
from tuner.judge.support import Support, withdrawn
from tuner.judge.whole import Arms
from tuner.record.model import Calibration, Protocol
from tuner.stats.power import LEVEL
from tuner.stats.verdict import Verdict, VerdictKind
from tuner.words.figures import UNKNOWN, figure


@dataclass(frozen=True, slots=True)
class LimitClaim:
    """A constraint on fresh blocks, judged by an interval of 95 % for all finalists."""

    constraint: Constraint
    found: LimitFound

    @property
    def state(self) -> LimitState:
        """State by its interval: held, violated or open."""
        return self.found.state

    @property
    def words(self) -> str:
        """``memory <= 1.2x baseline is held (1.02, 95 % interval 1.01 to 1.03)``."""
        value, low, high = self.figures
        inside = f"{value}, 95 % interval {low} to {high}"
        if not math.isfinite(self.found.high):
            inside = "no finite interval"
        return f"{self.constraint.text} is {self.state} ({inside})"

    @property
    def figures(self) -> tuple[str, str, str]:
        """Value and interval, in the unit of the limit."""
        found = self.found
        return self._figure(found.value), self._figure(found.low), self._figure(found.high)

    def _figure(self, value: float) -> str:
        if not math.isfinite(value):
            return UNKNOWN
        if self.constraint.relative:
            return f"{value:.3f}"
        unit = self.constraint.metric.unit
        return f"{100 * value:.3g} %" if unit == "share" else figure(value, unit)


def limit_claims(
    used: Sequence[PairedBlock], goals: Goals, finalists: int = 1, *, void: bool = False
) -> tuple[LimitClaim, ...]:
    """Return every constraint, and the limit of the choice, over the blocks that count.

    With several finalists the choice depends on the limits, so Bonferroni's rule widens each
    interval, and the chosen one's remains valid.

    Args:
        used: the blocks that count.
        goals: goals of the study.
        finalists: number of finalists.
        void: whether the blocks support no claim; then figures are shown without a decision.
    """
    windows = [(block.baseline, block.candidate) for block in used]
    found = [
        LimitClaim(limit, limit_found(limit, windows, 1 - LEVEL / finalists))
        for limit in (goals.limits if used else ())
    ]
    if void:
        found = [replace(one, found=replace(one.found, state="undecided")) for one in found]
    return tuple(found)


def objective_claims(
    used: Sequence[PairedBlock],
    goals: Goals,
    protocol: Protocol,
    calibration: Calibration | None,
    first: Judged,
    *,
    more: Sequence[Arms] = (),
    too_fine: str = "",
) -> tuple[Judged, ...]:
    """Return the verdict on each of two objectives; empty where there is one only.

    Args:
        used: the blocks that count.
        goals: goals of the study.
        protocol: protocol of the confirmation.
        calibration: calibration with the detectable effect.
        first: the claim on the first objective.
        more: windows of baseline and candidate in further starts.
        too_fine: why the load generator cannot resolve the second one, if so.
    """
    if goals.second is None:
        return ()
    differences = [
        [block.difference(objective.difference_ln) for block in used]
        for objective in goals.objectives
    ]
    if not np.isfinite(differences).all():
        return ()
    claim = replace(
        first.claim,
        objective=goals.second,
        margin=protocol.second_band,
        minimum_detectable_effect=(
            calibration.second_minimum_detectable_effect if calibration else 1.0
        ),
    )
    (second,) = Family((claim,), "simultaneous").judged(differences[1:])
    verdict = overruled(second.verdict, too_fine)
    pairs = [(block.baseline, block.candidate) for block in used]
    reason = Support(protocol.evidence).lacks(verdict, goals.second, pairs, more)
    verdict = withdrawn(verdict, reason)
    return stepwise((first, replace(second, verdict=verdict)), differences)


def together(
    verdict: Verdict,
    goals: Goals,
    objectives: Sequence[Judged],
    limits: Sequence[LimitClaim],
) -> Verdict:
    """Return the verdict on all goals, in one sentence.

    With two objectives, *better* needs one that is better and none that is worse or open. Better
    in one and worse in the other is a trade, which is *inconclusive* unless the choice allows one
    to lose: then the verdict is that of the other objective. A violated limit is *violated* for any
    gain, and *better* needs all limits to be held.
    """
    if objectives:
        verdict = _of_both(verdict, objectives, goals)
    violated = [limit for limit in limits if limit.state == "violated"]
    undecided = [limit for limit in limits if limit.state == "undecided"]
    rest = verdict.sentence.partition(": ")[2]
    if violated and verdict.kind is not VerdictKind.WORSE:
        words = " and ".join(limit.words for limit in violated)
        sentence = f"Violated: {words}. Apart from that: {rest}"
        return replace(verdict, kind=VerdictKind.VIOLATED, sentence=sentence)
    words = "; ".join(limit.words for limit in limits)
    if undecided and verdict.kind is VerdictKind.BETTER:
        sentence = f"Inconclusive: {rest} But whether the limits hold is open: {words}."
        return replace(verdict, kind=VerdictKind.INCONCLUSIVE, sentence=sentence)
    return replace(verdict, sentence=f"{verdict.sentence} Limits: {words}.") if words else verdict


def _of_both(verdict: Verdict, claims: Sequence[Judged], goals: Goals) -> Verdict:
    kept = (claim for claim in claims if claim.objective.name != goals.choice.given)
    kinds = {claim.verdict.kind for claim in kept}
    good, bad, same = VerdictKind.BETTER, VerdictKind.WORSE, VerdictKind.EQUIVALENT
    if kinds <= {good, same}:
        kind = good if good in kinds else same
    elif bad in kinds and good not in kinds:
        kind = bad
    else:
        kind = VerdictKind.INCONCLUSIVE
    each = " ".join(claim.verdict.sentence for claim in claims)
    head = f"{kind.capitalize()}: "
    if {good, bad} <= kinds:
        head += "a trade, better in one and worse in the other. "
    # If both begin with the same word, it appears once.
    return replace(verdict, kind=kind, sentence=head + each.removeprefix(head))
