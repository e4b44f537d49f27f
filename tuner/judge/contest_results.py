"""The figures and claims of a contest, from its record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.goals.constraint import Constraint
from tuner.judge.climbs import Climb, climbs
from tuner.judge.comparison import Comparison, Judged
from tuner.judge.contest import ArmFigures, arms_figures, family
from tuner.judge.rounds import allowed_invalid
from tuner.judge.support import LEAST_STARTS, Support
from tuner.judge.whole import hidden_share
from tuner.measurement import core_wait, lifetimes, quota
from tuner.record.contenders import Contender, Contest, PublishedRow
from tuner.record.model import Block, Record
from tuner.stats.margin import Margin
from tuner.stats.verdict import VerdictKind
from tuner.stats.words import counted
from tuner.words.terminal import duration


@dataclass(frozen=True, slots=True)
class ContestResult:
    """The figures and claims of one contest."""

    record: Record
    contest: Contest
    blocks: tuple[Block, ...]
    """Those that count."""
    arms: tuple[ArmFigures, ...]
    compared: tuple[Judged, ...]
    """Every figure of every pair of arms."""
    climbs: tuple[Climb, ...]
    published: tuple[PublishedRow, ...]
    """Published figures of this case."""
    warnings: tuple[str, ...]

    def contender(self, label: str) -> Contender:
        """Return the contender of that label."""
        return next(c for c in self.contest.contenders if c.label == label)

    @property
    def sentence(self) -> str:
        """The subject of the measurement, in one line."""
        contest = self.contest
        case = f", {contest.case}" if contest.case else ""
        load = f"at {contest.rate_per_s:,.0f}/s ({contest.rate_source})"
        if contest.mode != "open":
            load = contest.rate_source
        return (
            f"{contest.title}{case}: {contest.workload}; {load};"
            f" {len(self.blocks)} of {contest.blocks} blocks"
        )


def contest_result(record: Record, contest: Contest) -> ContestResult:
    """Return figures and claims of a record's contest so far."""
    labels = [contender.label for contender in contest.contenders]
    here = [c for c in contest.contenders if c.label in contest.capacities_per_s]
    comparison = Comparison(
        phase="contest",
        blocks=contest.blocks,
        claims=family(
            here,
            "open" if contest.mode == "open" else "closed",
            Margin(contest.margin, contest.margin_symmetric),
        ),
        # An arm without a figure is a finding about the arm, so the block counts.
        needs_all=False,
        support=Support(contest.evidence, mutual=True),
    )
    counted = comparison.counted(record.blocks)
    blocks = tuple(found.block for found in counted)
    limit = Constraint.parse(contest.limit)
    found = (
        climbs(record.blocks, labels, limit, within_s=contest.within_s) if contest.ladder else ()
    )
    rows = contest.published.rows if contest.published else ()
    arms = arms_figures(blocks, labels)
    compared = comparison.judged(counted)
    return ContestResult(
        record=record,
        contest=contest,
        blocks=blocks,
        arms=arms,
        compared=compared,
        climbs=tuple(climb for climb in found if climb.rungs),
        published=tuple(row for row in rows if not row.case or row.case == contest.case),
        warnings=(
            *_warnings(record, contest, len(blocks)),
            *_unsupported(compared),
            *_few_starts(contest, compared),
            *_unlike_answers(arms, contest.window_s),
        ),
    )


def _warnings(record: Record, contest: Contest, blocks: int) -> tuple[str, ...]:
    found = list(record.notes)
    waited = core_wait.warning(window for block in record.blocks for window in block.windows)
    throttled = quota.warning(window for block in record.blocks for window in block.windows)
    common = [block for block in record.blocks if block.phase == "contest"]
    reopened = lifetimes.warning(window for block in common for window in block.windows)
    found += [words for words in (throttled, waited, reopened) if words]
    if blocks < contest.blocks:
        lost = [b.reason for b in record.blocks if b.phase == "contest" and b.reason]
        why = f"; the last that was repeated: {lost[-1]}" if lost else ""
        found.append(f"{blocks} of the {contest.blocks} planned blocks are there{why}")
    spoilt = sum(block.state == "invalid" for block in common)
    if spoilt > allowed_invalid(contest.blocks):
        found.append(
            f"the host spoilt {spoilt} blocks, and {counted(blocks, 'block')} count: the figures"
            " are those of its better minutes"
        )
    if contest.generator_bound:
        found.append(
            f"the generator was the limit of {', '.join(contest.generator_bound)} in the closed"
            " loop: their capacity is higher than reported"
        )
    if contest.ladder and contest.ladder.window_s < 2:
        found.append(
            f"availability counts answers within {seconds_or_ms(contest.within_s)} in windows of"
            f" {contest.ladder.window_s:g} s; beyond its capacity a server's queue goes on growing,"
            " so in longer overload it is lower"
        )
    return tuple(found)


def _unsupported(compared: Sequence[Judged]) -> list[str]:
    """Return a warning for each claim that the whole arms do not support."""
    return [
        f"no claim on {each.objective.words} of {each.claim.arm} against {each.claim.against}:"
        f" {each.lacks}"
        for each in compared
        if each.lacks
    ]


def _few_starts(contest: Contest, compared: Sequence[Judged]) -> list[str]:
    """Return a warning if claims rest on fewer starts than a study's do."""
    claimed = [
        each.verdict.estimate.n
        for each in compared
        if each.verdict.kind in (VerdictKind.BETTER, VerdictKind.WORSE)
    ]
    if contest.evidence != "whole" or not claimed:
        return []
    starts = min(claimed)
    return [
        (
            f"with {counted(starts, 'start')} of each arm, a kind of start that comes in"
            f" {hidden_share(starts):.0%} is missed with a probability of 5 %; in a longer"
            f" comparison there are {LEAST_STARTS} starts or more"
        )
    ]


def _unlike_answers(arms: Sequence[ArmFigures], window_s: float) -> list[str]:
    """Return a warning if answers of two arms differ in size despite the alignment.

    A window counts the bytes of answers that end after it, too. By Little's law, those in transit
    are as many of its answers as the latency is of its length. An arm with too few requests for a
    median is left out.
    """
    sized = [
        arm
        for arm in arms
        if math.isfinite(arm.answer_bytes_error) and math.isfinite(arm.latency_us["p50"])
    ]
    if not sized:
        return []
    least = min(sized, key=lambda arm: arm.answer_bytes)
    most = max(sized, key=lambda arm: arm.answer_bytes)
    apart = most.answer_bytes - least.answer_bytes
    doubt = math.hypot(least.answer_bytes_error, most.answer_bytes_error)
    in_transit = max(least.latency_us["p50"], most.latency_us["p50"]) / 1e6 / window_s
    if apart <= max((_UNLIKE + in_transit) * least.answer_bytes, _DOUBTS * doubt):
        return []
    return [
        (
            f"an answer of {most.label} takes {most.answer_bytes:,.0f} bytes with its head, one of"
            f" {least.label} {least.answer_bytes:,.0f} ({apart / least.answer_bytes:.0%} more):"
            " other headers, or another encoder at the same level; they do not do quite the same"
            " work"
        )
    ]


_UNLIKE = 0.03
"""Smallest reported difference in the sizes of answers, as a share."""
_DOUBTS = 3
"""Standard errors of a difference above which the mix is not the cause."""


def seconds_or_ms(value_s: float) -> str:
    """Return ``200 ms`` or ``2 s``."""
    return f"{value_s * 1e3:.0f} ms" if value_s < 1 else duration(value_s)
