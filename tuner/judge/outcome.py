"""The outcome of a study: its verdict by the frozen protocol, or why there is none."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tuner.goals.objective import Objective
from tuner.judge.arms import INTERRUPTED, PairedBlock
from tuner.judge.confirmation import Tally
from tuner.judge.history import TrialFigure
from tuner.judge.kinds import kind_of, measurement_sentence
from tuner.judge.rounds import allowed_invalid
from tuner.record.model import Record
from tuner.stats.diagnostics import Diagnostic
from tuner.stats.verdict import Verdict, VerdictKind
from tuner.stats.words import counted

Status = Literal[
    "confirmed",
    "incomplete",
    "unconfirmed",
    "nothing-better",
    "not-searched",
    "measured",
    "contest",
]
"""Progress of the study.

``confirmed``: the confirmation ran to its end, and there is a verdict. ``incomplete``: it began.
``unconfirmed``: the search has a front-runner, but no confirmation was begun. ``nothing-better``:
no trial beat the baseline. ``not-searched``: there is no measured trial. ``measured``: the record
is of one configuration by itself, of which nothing is claimed. ``contest``: several arms were
compared with each other, and no study was made.
"""


@dataclass(frozen=True, slots=True)
class StudyOutcome:
    """The end of a study in one sentence, with the verdict if there is one."""

    status: Status
    sentence: str
    verdict: Verdict | None
    void: str = ""
    """Why the blocks do not support any claim; empty if they do."""


def outcome(
    record: Record,
    objective: Objective,
    *,
    confirm: Sequence[PairedBlock],
    tally: Tally,
    found: Sequence[Diagnostic],
    trials: Sequence[TrialFigure],
    front: TrialFigure | None,
) -> StudyOutcome:
    """Return the end of the confirmation, or of a study without one.

    Args:
        confirm: every block of the confirmation in order of time.
        tally: their evaluation under the protocol.
        found: diagnostics; too many invalid windows overrule the verdict.
        trials: trials of the search.
        front: front-runner of the search.
    """
    if record.protocol:
        return _confirmation(record, objective, confirm=confirm, tally=tally, found=found)
    if kind_of(record) == "measurement":
        return StudyOutcome("measured", measurement_sentence(record), None)
    running = record.ended_unix_s is None
    if front:
        stopped = "interrupted during the search" if running else "ended without a confirmation"
        return StudyOutcome(
            "unconfirmed",
            f"Not confirmed: {stopped}. Trial {front.number} is ahead at a ratio of "
            f"{front.ratio:.3f} to the baseline over {counted(front.blocks, 'block')}: "
            "a search figure, not a claim.",
            None,
        )
    others = [trial for trial in trials if trial.digest != record.baseline]
    measured = sum(trial.blocks > 0 for trial in others)
    if measured:
        return StudyOutcome(
            "nothing-better",
            f"Nothing better found{' so far' * running}: none of "
            f"{counted(measured, 'configuration')} beat the baseline in the search"
            f"{' within the constraints' if record.definition.get('constraint') else ''},"
            " so there was nothing to confirm.",
            None,
        )
    if record.calibration is None:
        sentence = "Not calibrated: the study stopped before its first trial."
    elif others and not running:
        tried = counted(len(others), "configuration")
        sentence = f"Nothing to confirm: none of {tried} could be measured."
    else:
        sentence = "Not searched: the study stopped before a trial was measured."
    return StudyOutcome("not-searched", sentence, None)


def _confirmation(
    record: Record,
    objective: Objective,
    *,
    confirm: Sequence[PairedBlock],
    tally: Tally,
    found: Sequence[Diagnostic],
) -> StudyOutcome:
    protocol = record.protocol
    assert protocol is not None  # noqa: S101 - the caller has looked
    verdict = tally.verdict
    invalid = [block for block in confirm if block.state == "invalid"]
    if verdict and tally.decided:
        used = [block for block in confirm if block.used]
        spoilt = _spoilt(found)
        verdict = overruled(verdict, spoilt or too_fine(record, objective, used))
        return StudyOutcome("confirmed", verdict.sentence, verdict, void=spoilt)
    most = "at most " * (protocol.sequential_rho is not None)
    after = f"after {tally.blocks} of {most}{counted(protocol.blocks, 'block')}"
    ended = record.ended_unix_s is not None
    if ended and len(invalid) > allowed_invalid(protocol.blocks):
        sentence = (
            f"Inconclusive: {counted(len(invalid), 'block')} of {len(confirm)} were invalid, more "
            f"than the protocol allows, so the confirmation stopped {after}. "
            f"The last reason: {invalid[-1].reason}."
        )
        void = "the confirmation gave up"
        if verdict is None:
            return StudyOutcome("incomplete", sentence, None, void)
        verdict = replace(verdict, kind=VerdictKind.INCONCLUSIVE, sentence=sentence)
        return StudyOutcome("confirmed", sentence, verdict, void)
    words = f"Not confirmed: {'ended' if ended else 'interrupted'} {after}"
    last = confirm[-1] if confirm else None
    if last and last.reason not in {"", INTERRUPTED}:
        words += f"; the last one does not count ({last.reason})"
    return StudyOutcome("incomplete", f"{words}.", None, void="the confirmation is not at its end")


def _spoilt(found: Sequence[Diagnostic]) -> str:
    """Return why the verdict is void: over 10 % invalid windows, or unequal arms."""
    return next((f.message for f in found if f.code == "invalid-windows" and f.raised), "")


def too_fine(record: Record, objective: Objective, used: Sequence[PairedBlock]) -> str:
    """Return why the load generator cannot resolve the difference; empty if it can."""
    if objective.unit != "µs":
        return ""
    arms = [block.values(objective) for block in used]
    baseline, candidate = (statistics.median(arm) for arm in zip(*arms, strict=True))
    return record.instrument.too_fine(baseline, candidate)


def overruled(verdict: Verdict, reason: str) -> Verdict:
    """Return an inconclusive verdict with a reason, in place of the blocks' own."""
    if not reason or verdict.kind is VerdictKind.INCONCLUSIVE:
        return verdict
    return replace(
        verdict,
        kind=VerdictKind.INCONCLUSIVE,
        sentence=f"Inconclusive: {reason}. The remaining blocks alone would say: "
        f"{verdict.sentence[0].lower()}{verdict.sentence[1:]}",
    )
