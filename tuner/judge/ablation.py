"""Why the winner won: which of its changes matter, and the smallest difference that keeps the gain.

Every changed setting is reverted in the tuned configuration, and added to the baseline, all in the
same blocks. Reverting shows what a change is worth among the others, adding what it is worth by
itself; two changes that can stand in for each other lose nothing when one of them is reverted.
Therefore a smaller difference is never concluded from the contrasts alone: it is measured against
the tuned configuration on fresh blocks, and taken only if it is shown to lose less than the margin
(a test of non-inferiority, one-sided; Wellek, Testing Statistical Hypotheses of Equivalence and
Noninferiority, 2010), and to hold every limit of the study.

Each family of contrasts is adjusted by Holm (Scandinavian Journal of Statistics 6, 1979). At most
``CHECKS`` differences are tried, each at an equal part of the level (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tuner.errors import DefinitionError
from tuner.goals.goals import Goals
from tuner.goals.objective import Objective
from tuner.judge.confirmation import named
from tuner.judge.limits import limit_found
from tuner.judge.scoring import BASELINE, windows_of
from tuner.measurement.window import Measurement
from tuner.record.changes import changes_between
from tuner.record.model import AblationProtocol, Block, Contrast, Phase, Protocol, Record
from tuner.space.configuration import Configuration
from tuner.space.space import Space
from tuner.stats.holm import holm
from tuner.stats.paired import PairedEstimate, estimate, minimum_blocks

TUNED = "tuned"
MINIMAL = "minimal"
CHECKS = 3
"""Smaller differences that are tried, each with more changes than the one before."""


@dataclass(frozen=True, slots=True)
class Part:
    """The worth of one change."""

    contrast: Contrast
    reverted: PairedEstimate | None
    """Ratio of the tuned configuration without the change to the tuned one; None if unknown."""
    reverted_p: float
    """Adjusted by Holm over all changes; 1 if unknown."""
    added: PairedEstimate | None
    """Ratio of the baseline with the change to the baseline."""
    added_p: float
    fails_without: bool
    """Without the change the load is not held at all."""
    matters: bool
    """Reverting it loses, significantly."""
    worth: float
    """The larger of what reverting loses and adding gains, in logarithms: the order of checking."""


@dataclass(frozen=True, slots=True)
class Check:
    """A smaller difference, measured on fresh blocks."""

    digest: str
    blocks: int
    to_tuned: PairedEstimate | None
    """Its ratio to the tuned configuration; the interval is the one that the decision rests on."""
    to_baseline: PairedEstimate | None
    keeps: bool
    """True if the check is shown to lose less than the margin and to hold all else that is wanted.
    """


@dataclass(frozen=True, slots=True)
class Ablation:
    """The figures of an ablation so far."""

    protocol: AblationProtocol
    parts: tuple[Part, ...]
    """The most valuable change first; empty before all blocks of the contrasts are there."""
    checks: tuple[Check, ...]
    minimal: str | None
    """Digest of the smallest difference that was shown to keep the gain; None if none was."""
    is_over: bool
    """True if there is nothing left to be measured."""


def contrasts(space: Space, baseline: Configuration, tuned: Configuration) -> tuple[Contrast, ...]:
    """The changes between two configurations, each alone where that is a valid configuration.

    Changes that a relation between parameters ties together are one contrast. A setting that
    differs only in that it is active, with the value that it would have anyway, is none.
    """
    found = []
    for names in _groups(space, baseline, tuned):
        reverted = space.exchange(tuned, baseline, names).digest
        added = space.exchange(baseline, tuned, names).digest
        contrast = Contrast(
            names=tuple(sorted(names)),
            reverted=None if reverted == tuned.digest else reverted,
            added=None if added == baseline.digest else added,
        )
        if contrast.reverted or contrast.added:
            found.append(contrast)
    return tuple(found)


def blocks_at_least(contrasts_: Sequence[Contrast], alpha: float) -> int:
    """The fewest blocks with which the most significant contrast can pass Holm, and a check too."""
    return max(
        minimum_blocks(1 - alpha / max(1, len(contrasts_))),
        minimum_blocks(_check_confidence(alpha)),
    )


def names_to_keep(parts: Sequence[Part], check: int) -> frozenset[str]:
    """Return the changes that the check of this number (0-based) is about.

    First those that matter (or the most valuable one, if none does by itself); each further check
    adds the more valuable half of what was left out. What has no effect alone comes after what has:
    without the setting that it needs it would add nothing.
    """
    kept = [part for part in parts if part.matters] or list(parts[:1])
    rest = [part for part in parts if part not in kept]
    rest.sort(key=lambda part: part.contrast.added is None)
    for _ in range(check):
        half = math.ceil(len(rest) / 2)
        kept, rest = kept + rest[:half], rest[half:]
    return frozenset(name for part in kept for name in part.contrast.names)


def told_by(protocol: AblationProtocol, goals: Goals) -> Objective:
    """Return the objective that decides what a change is worth: of two, the one that was gained."""
    return next((o for o in goals.objectives if o.text == protocol.objective), goals.first)


def evaluate(record: Record, goals: Goals) -> Ablation | None:
    """Evaluate an ablation; None if none was begun.

    The worth of a change is judged by one objective; a smaller difference must keep to all that
    the study wants.
    """
    protocol = record.ablation
    if protocol is None or record.protocol is None:
        return None
    objective = told_by(protocol, goals)
    tuned = named(record, goals.first)
    blocks = complete(record, "ablate")
    over = len(blocks) >= protocol.blocks
    parts = _parts(protocol, blocks[: protocol.blocks], tuned, objective) if over else ()
    measured = complete(record, "minimal")
    checks = tuple(
        _check(record.protocol, protocol, measured[begin : begin + protocol.blocks], goals)
        for begin in range(0, len(measured), protocol.blocks)
    )
    minimal = next((check.digest for check in checks if check.keeps), None)
    if over and not checks and _all_matter(parts):
        minimal = tuned
    return Ablation(
        protocol=protocol,
        parts=parts,
        checks=checks,
        minimal=minimal,
        is_over=over and (minimal is not None or _exhausted(protocol, parts, checks)),
    )


def complete(record: Record, phase: Phase) -> list[Block]:
    """The complete blocks of a phase; those of the checks follow each other, check by check."""
    return [b for b in record.blocks if b.phase == phase and b.state == "complete"]


def _groups(space: Space, baseline: Configuration, tuned: Configuration) -> list[frozenset[str]]:
    """Sets of changed names, each of which can be exchanged alone."""
    changed = changes_between(baseline.values, tuned.values, space.inactive(baseline))
    groups = [frozenset({change.name}) for change in changed]
    while True:
        stuck = next((g for g in groups if not _possible(space, baseline, tuned, g)), None)
        if stuck is None:
            return groups
        tied = {name for order in space.orders if order.names & stuck for name in order.names}
        joined = [group for group in groups if group & (tied | stuck)]
        if len(joined) == 1:
            # No relation names its partner: all changes together are always possible.
            joined = groups
        groups = [group for group in groups if group not in joined]
        groups.append(frozenset().union(*joined))


def _possible(
    space: Space, baseline: Configuration, tuned: Configuration, names: Collection[str]
) -> bool:
    try:
        space.exchange(tuned, baseline, names)
        space.exchange(baseline, tuned, names)
    except DefinitionError:
        return False
    return True


def _parts(
    protocol: AblationProtocol, blocks: Sequence[Block], tuned: str, objective: Objective
) -> tuple[Part, ...]:
    baseline = _of_label(blocks, BASELINE)
    reverted = [_ratio(blocks, c.reverted, tuned, objective) for c in protocol.contrasts]
    added = [_ratio(blocks, c.added, baseline, objective) for c in protocol.contrasts]
    reverted_p = holm([found.p_value if found else 1.0 for found in reverted])
    added_p = holm([found.p_value if found else 1.0 for found in added])
    parts = []
    for place, contrast in enumerate(protocol.contrasts):
        without, alone = reverted[place], added[place]
        loses = objective.loss(math.log(without.ratio)) if without else 0.0
        gains = -objective.loss(math.log(alone.ratio)) if alone else 0.0
        fails = contrast.reverted is not None and _fails(blocks, contrast.reverted)
        matters = fails or (loses > 0 and reverted_p[place] <= protocol.alpha)
        parts.append(
            Part(
                contrast=contrast,
                reverted=without,
                reverted_p=reverted_p[place],
                added=alone,
                added_p=added_p[place],
                fails_without=fails,
                matters=matters,
                worth=math.inf if fails else max(loses, gains),
            )
        )
    return tuple(sorted(parts, key=lambda part: -part.worth))


def _check(
    confirmed: Protocol, protocol: AblationProtocol, blocks: Sequence[Block], goals: Goals
) -> Check:
    baseline, tuned, digest = (_of_label(blocks, label) for label in (BASELINE, TUNED, MINIMAL))
    confidence = _check_confidence(protocol.alpha)
    margins = (confirmed.margin, confirmed.second_margin)[: len(goals.objectives)]
    kept, gained = [], []
    for objective, margin in zip(goals.objectives, margins, strict=True):
        if objective.name == goals.choice.given:
            # What may be given away; how much of it is a limit like the others.
            continue
        to_tuned = _ratio(blocks, digest, tuned, objective, confidence)
        to_baseline = _ratio(blocks, digest, baseline, objective)
        kept.append(_loses_less(to_tuned, margin, objective))
        gained.append(_gains(to_baseline, objective))
    windows = [_common(block, baseline, digest) for block in blocks]
    held = all(limit_found(each, windows, confidence).state == "held" for each in goals.limits)
    return Check(
        digest=digest,
        blocks=len(blocks),
        to_tuned=_ratio(blocks, digest, tuned, told_by(protocol, goals), confidence),
        to_baseline=_ratio(blocks, digest, baseline, told_by(protocol, goals)),
        keeps=len(blocks) >= protocol.blocks and all(kept) and any(gained) and held,
    )


def _loses_less(found: PairedEstimate | None, margin: float, objective: Objective) -> bool:
    """Return whether the whole interval of a ratio loses less than the margin."""
    if found is None or not found.is_finite:
        return False
    most = max(objective.loss(math.log(end)) for end in (found.low, found.high))
    return most < -math.log1p(-margin)


def _gains(found: PairedEstimate | None, objective: Objective) -> bool:
    if found is None:
        return False
    return objective.loss(math.log(found.ratio)) < 0 and found.excludes_no_change


def _ratio(
    blocks: Sequence[Block],
    digest: str | None,
    reference: str,
    objective: Objective,
    confidence: float = 0.95,
) -> PairedEstimate | None:
    """Return ratio of two arms over the blocks; None unless every block has a figure of both."""
    if digest is None:
        return None
    differences = [_difference(block, digest, reference, objective) for block in blocks]
    return estimate(differences, confidence) if all(map(math.isfinite, differences)) else None


def _difference(block: Block, digest: str, reference: str, objective: Objective) -> float:
    """Log ratio of two arms, over the rounds that are valid for both."""
    return objective.difference_ln(*_common(block, digest, reference))


def _common(block: Block, one: str, other: str) -> tuple[list[Measurement], list[Measurement]]:
    """Return the windows of two arms in the rounds that are valid for both."""
    arms = [_label(block, wanted) for wanted in (one, other)]
    valid = [{w.round: w for w in windows_of(block, arm) if w.valid} if arm else {} for arm in arms]
    rounds = sorted(valid[0].keys() & valid[1].keys())
    first, second = ([arm[round_] for round_ in rounds] for arm in valid)
    return first, second


def _label(block: Block, digest: str) -> str | None:
    return next((i.instance for i in block.instances if i.digest == digest), None)


def _of_label(blocks: Sequence[Block], label: str) -> str:
    return next(i.digest for b in blocks for i in b.instances if i.instance == label)


def _fails(blocks: Sequence[Block], digest: str) -> bool:
    """Return whether a configuration was refused, or had no valid window, in most of the blocks."""
    failed = 0
    for block in blocks:
        windows = windows_of(block, _label(block, digest) or "")
        failed += not any(window.valid for window in windows)
    return failed > len(blocks) / 2


def _all_matter(parts: Sequence[Part]) -> bool:
    return bool(parts) and names_to_keep(parts, 0) == _all_names(parts)


def _exhausted(protocol: AblationProtocol, parts: Sequence[Part], checks: Sequence[Check]) -> bool:
    """No further check is left, or the next one would be about all changes."""
    done = sum(check.blocks >= protocol.blocks for check in checks)
    return done >= CHECKS or (
        done == len(checks) and names_to_keep(parts, done) == _all_names(parts)
    )


def _all_names(parts: Sequence[Part]) -> frozenset[str]:
    return frozenset(name for part in parts for name in part.contrast.names)


def _check_confidence(alpha: float) -> float:
    """Confidence of a two-sided interval whose upper end decides one check."""
    return 1 - 2 * alpha / CHECKS
