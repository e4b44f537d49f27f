"""The ablation of a winner: its relevant changes, and the smallest difference that keeps the gain.

Every changed setting is reverted in the tuned configuration, and added to the baseline, all in the
same blocks. Reverting measures a change's worth among the others, adding its worth by itself. Two
changes that can replace each other lose nothing when one of them is reverted. Therefore the
contrasts alone never justify a smaller difference: it is measured against the tuned configuration
on fresh blocks, and accepted only if it is shown to lose less than the margin
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
from tuner.stats.margin import Margin
from tuner.stats.paired import PairedEstimate, estimate, minimum_blocks

TUNED = "tuned"
MINIMAL = "minimal"
CHECKS = 3
"""Limit for tried smaller differences, each with more changes than the one before."""


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
    """True if the load fails without the change."""
    matters: bool
    """True if reverting it loses significantly."""
    worth: float
    """The larger of what reverting loses and adding gains, in logarithms: the order of checking."""


@dataclass(frozen=True, slots=True)
class Check:
    """A smaller difference, measured on fresh blocks."""

    digest: str
    blocks: int
    to_tuned: PairedEstimate | None
    """Its ratio to the tuned configuration, with the interval for the decision."""
    to_baseline: PairedEstimate | None
    keeps: bool
    """True if the check is shown to lose less than the margin and to hold all else that is wanted.
    """


@dataclass(frozen=True, slots=True)
class Ablation:
    """The figures of an ablation so far."""

    protocol: AblationProtocol
    parts: tuple[Part, ...]
    """The most valuable change first; empty until all blocks of the contrasts are complete."""
    checks: tuple[Check, ...]
    minimal: str | None
    """Digest of the smallest difference that is shown to keep the gain; None without one."""
    is_over: bool
    """True if no measurements are left."""


def contrasts(space: Space, baseline: Configuration, tuned: Configuration) -> tuple[Contrast, ...]:
    """Return the changes between two configurations, each alone if that is valid.

    Changes that a relation between parameters connects are one contrast. A setting that only
    becomes active, with its default value, is not a contrast.
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


def blocks_at_least(changes: int, alpha: float) -> int:
    """Return the fewest blocks with which the most significant contrast and a check can pass."""
    return max(
        minimum_blocks(1 - alpha / max(1, changes)),
        minimum_blocks(_check_confidence(alpha)),
    )


def names_to_keep(parts: Sequence[Part], check: int) -> frozenset[str]:
    """Return the changes of a check, by its 0-based number.

    The first check has those that matter (or the most valuable one); each further check adds the
    more valuable half of the rest. Changes without an effect alone come last, because they need
    another setting.
    """
    kept = [part for part in parts if part.matters] or list(parts[:1])
    rest = [part for part in parts if part not in kept]
    rest.sort(key=lambda part: part.contrast.added is None)
    for _ in range(check):
        half = math.ceil(len(rest) / 2)
        kept, rest = kept + rest[:half], rest[half:]
    return frozenset(name for part in kept for name in part.contrast.names)


def gained_objective(protocol: AblationProtocol, goals: Goals) -> Objective:
    """Return the objective for the worth of changes: the one with the gain."""
    return next((o for o in goals.objectives if o.text == protocol.objective), goals.first)


def evaluate(record: Record, goals: Goals) -> Ablation | None:
    """Evaluate an ablation; return None if there is none.

    One objective decides the worth of a change; a smaller difference must meet all goals of the
    study.
    """
    protocol = record.ablation
    if protocol is None or record.protocol is None:
        return None
    objective = gained_objective(protocol, goals)
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
    """Return the complete blocks of a phase; those of checks are in the order of checks."""
    return [b for b in record.blocks if b.phase == phase and b.state == "complete"]


def _groups(space: Space, baseline: Configuration, tuned: Configuration) -> list[frozenset[str]]:
    """Return sets of changed names that can each be exchanged alone."""
    changed = changes_between(baseline.values, tuned.values, space.inactive(baseline))
    groups = [frozenset({change.name}) for change in changed]
    while True:
        stuck = next((g for g in groups if not _possible(space, baseline, tuned, g)), None)
        if stuck is None:
            return groups
        tied = {name for order in space.orders if order.names & stuck for name in order.names}
        joined = [group for group in groups if group & (tied | stuck)]
        if len(joined) == 1:
            # No relation names its partner; all changes together are always valid.
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
    margins = (confirmed.band, confirmed.second_band)[: len(goals.objectives)]
    kept, gained = [], []
    for objective, margin in zip(goals.objectives, margins, strict=True):
        if objective.name == goals.choice.given:
            # This objective may lose, up to a limit like the others.
            continue
        to_tuned = _ratio(blocks, digest, tuned, objective, confidence)
        to_baseline = _ratio(blocks, digest, baseline, objective)
        kept.append(_loses_less(to_tuned, margin, objective))
        gained.append(_gains(to_baseline, margin, objective))
    windows = [_common(block, baseline, digest) for block in blocks]
    held = all(limit_found(each, windows, confidence).state == "held" for each in goals.limits)
    return Check(
        digest=digest,
        blocks=len(blocks),
        to_tuned=_ratio(blocks, digest, tuned, gained_objective(protocol, goals), confidence),
        to_baseline=_ratio(blocks, digest, baseline, gained_objective(protocol, goals)),
        keeps=len(blocks) >= protocol.blocks and all(kept) and any(gained) and held,
    )


def _loses_less(found: PairedEstimate | None, margin: Margin, objective: Objective) -> bool:
    """Return whether the whole interval of a ratio loses less than the margin."""
    if found is None or not found.is_finite:
        return False
    most = max(objective.loss(math.log(end)) for end in (found.low, found.high))
    return most < -math.log(margin.low)


def _gains(found: PairedEstimate | None, margin: Margin, objective: Objective) -> bool:
    """Return whether a gain is shown, with an estimate beyond the margin."""
    if found is None:
        return False
    gain = objective.loss(math.log(found.ratio))
    return gain < math.log(margin.low) and found.excludes_no_change


def _ratio(
    blocks: Sequence[Block],
    digest: str | None,
    reference: str,
    objective: Objective,
    confidence: float = 0.95,
) -> PairedEstimate | None:
    """Return the ratio of two arms over the blocks; None unless all blocks have both figures."""
    if digest is None:
        return None
    differences = [_difference(block, digest, reference, objective) for block in blocks]
    return estimate(differences, confidence) if all(map(math.isfinite, differences)) else None


def _difference(block: Block, digest: str, reference: str, objective: Objective) -> float:
    """Return the log ratio of two arms over the rounds that are valid for both."""
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
    """Return whether no check is left, or the next one would have all changes."""
    done = sum(check.blocks >= protocol.blocks for check in checks)
    return done >= CHECKS or (
        done == len(checks) and names_to_keep(parts, done) == _all_names(parts)
    )


def _all_names(parts: Sequence[Part]) -> frozenset[str]:
    return frozenset(name for part in parts for name in part.contrast.names)


def _check_confidence(alpha: float) -> float:
    """Return the confidence of a two-sided interval with its upper end deciding one check."""
    return 1 - 2 * alpha / CHECKS
