"""From an estimate to a verdict, by a rule that is fixed before the confirmation starts.

*better* and *worse* need the whole 95 % interval beyond the margin; *equivalent* needs the 90 %
interval inside it, which is the two one-sided tests procedure at 5 % (Schuirmann 1987, Journal of
Pharmacokinetics and Biopharmaceutics 15); everything else is *inconclusive*, which is a finding
about the study and not about the configurations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy.typing as npt

from tuner.stats.margin import Margin
from tuner.stats.paired import PairedEstimate, estimate, minimum_blocks
from tuner.stats.sequential import Stakes, sequential_estimate
from tuner.stats.words import counted, p_in_words, percent

WIDEST_EQUIVALENCE = 0.10
"""Widest margin for *equivalent*: arms that may differ by ±30 % are not equal."""


class VerdictKind(StrEnum):
    """The verdict on the candidate as seen from the baseline."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"
    VIOLATED = "violated"
    """The candidate is shown to violate a constraint; its objective does not matter."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a confirmation, with its basis."""

    kind: VerdictKind
    estimate: PairedEstimate
    """Ratio candidate / baseline with the 95 % interval, which *better* and *worse* rest on.

    Of one of k candidates it is the interval of 1 - 0.05 / k: all k hold at once with 95 %.
    """
    interval90: tuple[float, float]
    """The 90 % interval of the ratio, which *equivalent* rests on; of 1 - 0.10 / k likewise."""
    margin: Margin
    """Smallest difference worth having."""
    minimum_detectable_effect: float
    """Reduction that was planned to be seen (interval without 1) with 80 % probability, a share."""
    sentence: str
    """The verdict in words."""

    @property
    def claimable_effect(self) -> float:
        """Reduction that was planned to be claimed as *better* with 80 % probability, a share."""
        return self.margin.claimable(self.minimum_detectable_effect)

    @property
    def detectable_below_margin(self) -> bool:
        """True if there is a difference, and it is not shown to exceed the margin."""
        return self.estimate.excludes_no_change and self.kind in {
            VerdictKind.EQUIVALENT,
            VerdictKind.INCONCLUSIVE,
        }


def judge(
    differences: npt.ArrayLike,
    *,
    margin: Margin,
    minimum_detectable_effect: float,
    objective: str = "p99",
    larger_is_better: bool = False,
    stakes: Stakes | None = None,
    family: int = 1,
) -> Verdict:
    """Judge the differences d = ln(candidate) - ln(baseline) of the protocol's blocks.

    Args:
        differences: one per block.
        margin: smallest difference worth having.
        minimum_detectable_effect: reduction that the plan sees with 80 % probability, from A/A
            noise and not from these differences.
        objective: names the figure in the sentence.
        larger_is_better: turns the direction round.
        stakes: None for a number of blocks fixed beforehand; else those of the sequential
            test (see `tuner.stats.sequential`), which allows a verdict after every block.
        family: number of candidates that are judged in the same blocks. Each gets intervals of
            1 - 0.05 / k and 1 - 0.10 / k (Bonferroni), which hold at once for all of them, so the
            best one may be picked afterwards.

    Raises:
        ValueError: see `estimate` and `decide`.
    """

    def at(level: float) -> PairedEstimate:
        confidence = 1 - level / family
        if stakes is None:
            return estimate(differences, confidence)
        return sequential_estimate(differences, stakes, confidence)

    narrow = at(0.10)
    return decide(
        at(0.05),
        (narrow.low, narrow.high),
        margin=margin,
        minimum_detectable_effect=minimum_detectable_effect,
        objective=objective,
        larger_is_better=larger_is_better,
        family=family,
    )


def decide(
    estimate95: PairedEstimate,
    interval90: tuple[float, float],
    *,
    margin: Margin,
    minimum_detectable_effect: float,
    objective: str = "p99",
    larger_is_better: bool = False,
    family: int = 1,
) -> Verdict:
    """Apply the rule to an estimate with its 95 % interval and to the 90 % interval of the ratio.

    Of one among `family` candidates, to the intervals of 1 - 0.05 / k and 1 - 0.10 / k.

    Raises:
        ValueError: the interval is not of that confidence.
    """
    needed = 1 - 0.05 / family
    if not math.isclose(estimate95.confidence, needed):
        raise ValueError(
            f"the rule needs a {100 * needed:g} % interval "
            f"but got one of {estimate95.confidence:.0%}"
        )
    side = margin.side(estimate95.low, estimate95.high)
    if side:
        kind = VerdictKind.BETTER if (side > 0) == larger_is_better else VerdictKind.WORSE
    elif margin.share <= WIDEST_EQUIVALENCE and margin.holds(*interval90):
        kind = VerdictKind.EQUIVALENT
    else:
        kind = VerdictKind.INCONCLUSIVE
    reason = _reason(
        kind,
        estimate95,
        interval90,
        f"the margin of ±{percent(margin.share)}",
        _planned(minimum_detectable_effect, margin, larger_is_better=larger_is_better),
    )
    return Verdict(
        kind=kind,
        estimate=estimate95,
        interval90=interval90,
        margin=margin,
        minimum_detectable_effect=minimum_detectable_effect,
        sentence=f"{kind.capitalize()}: {_figures(estimate95, objective, family)}. {reason}.",
    )


def _planned(seen: float, margin: Margin, *, larger_is_better: bool) -> str:
    """Return the planned power in words, as increases where more is better."""
    if seen >= 1:
        return "no change of any size could have been seen or claimed"
    shares = [seen, margin.claimable(seen)]
    if larger_is_better:
        shares = [1 / (1 - share) - 1 for share in shares]
    change = "an increase" if larger_is_better else "a reduction"
    return (
        f"the study was planned to see {change} of {percent(shares[0])}, and to claim one of"
        f" {percent(shares[1])}, with 80 % probability"
    )


def _reason(
    kind: VerdictKind,
    ratio: PairedEstimate,
    interval90: tuple[float, float],
    band: str,
    planned: str,
) -> str:
    if kind in {VerdictKind.BETTER, VerdictKind.WORSE}:
        return f"The whole interval lies {'below' if ratio.high < 1 else 'above'} {band}"
    if kind is VerdictKind.EQUIVALENT:
        inside = (
            f"The 90 % interval, {interval90[0]:.3f} to {interval90[1]:.3f}, lies within {band}"
        )
        if ratio.excludes_no_change:
            return f"{inside}; the difference is detectable but below the margin"
        return inside
    if not ratio.is_finite:
        needed = f"at least {minimum_blocks(ratio.confidence)}"
        return (
            f"{counted(ratio.n, 'block')} cannot give a {100 * ratio.confidence:.3g} % interval: "
            f"{'more' if ratio.p_kind == 'always-valid' else needed} are needed"
        )
    if ratio.excludes_no_change:
        return (
            f"The difference is detectable, but whether it exceeds {band} is open: "
            "more blocks would narrow the interval"
        )
    return f"Neither a difference beyond {band} nor its absence is shown; {planned}"


def _figures(ratio: PairedEstimate, objective: str, family: int) -> str:
    change = abs(ratio.ratio - 1)
    if change < 0.0005:
        than = f"{objective} is the same as the baseline's"
    else:
        than = (
            f"{objective} is {percent(change)} {'lower' if ratio.ratio < 1 else 'higher'} "
            "than the baseline's"
        )
    name = "95 % interval" if family == 1 else f"simultaneous 95 % interval of {family} finalists"
    interval = (
        f"{name} {ratio.low:.3f} to {ratio.high:.3f}" if ratio.is_finite else f"no finite {name}"
    )
    return (
        f"{than} (ratio {ratio.ratio:.3f}, {interval}, "
        f"n = {counted(ratio.n, 'block')}, {ratio.p_kind} {p_in_words(ratio.p_value)})"
    )
