"""Every figure of a report, computed once from the record.

``evaluate`` judges the confirmation by the frozen protocol. Where the study did not come so far,
``StudyResult`` says what is missing instead of a verdict; nothing is filled in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tuner.objective import Objective
from tuner.record import Protocol, Record
from tuner.report.arms import (
    Figure,
    PairedBlock,
    Spectrum,
    excluded_share,
    figures,
    pairs,
    spectra,
)
from tuner.report.checks import findings
from tuner.report.difference import Change, changes, unified_difference
from tuner.report.history import (
    AASpread,
    LoadPoint,
    PhaseTime,
    Shrinkage,
    TrialFigure,
    aa_spreads,
    best_trial,
    load_points,
    phase_times,
    trial_figures,
)
from tuner.stats.diagnostics import Finding
from tuner.stats.paired import PairedEstimate, estimate
from tuner.stats.verdict import Verdict, VerdictKind, judge
from tuner.stats.words import counted

Status = Literal["confirmed", "incomplete", "unconfirmed", "nothing-better", "not-searched"]
"""How far the study came.

``confirmed``: all planned blocks are there, and there is a verdict. ``incomplete``: some of them
are. ``unconfirmed``: the search has a front-runner, but no confirmation was begun.
``nothing-better``: no trial beat the baseline. ``not-searched``: there is no finished trial.
"""


@dataclass(frozen=True, slots=True)
class StudyResult:
    """A study as a report states it; everything is derived from ``record``."""

    record: Record
    objective: Objective
    status: Status
    sentence: str
    """The outcome in one sentence: the verdict's, or why there is none."""
    verdict: Verdict | None
    """None unless ``status`` is ``confirmed``."""
    provisional: PairedEstimate | None
    """What the blocks say so far while ``incomplete``: no claim, since n was fixed beforehand."""
    candidate: str | None
    """Digest of the confirmed configuration, or else of the front-runner."""
    confirm: tuple[PairedBlock, ...]
    """Every block of the confirmation in order of time, used or not."""
    figures: tuple[Figure, ...]
    """Both arms over the used blocks, the objective first; empty without such blocks."""
    spectra: tuple[Spectrum, ...]
    excluded: tuple[float, float]
    """Share of requests that the stall rule excluded, of baseline and candidate; NaN if none."""
    findings: tuple[Finding, ...]
    """Diagnostics, warnings first."""
    warnings: tuple[str, ...]
    """What the reader must know: raised findings, calibration's warnings, preflight's notes."""
    times: tuple[PhaseTime, ...]
    trials: tuple[TrialFigure, ...]
    shrinkage: Shrinkage | None
    aa: tuple[AASpread, ...]
    load_points: tuple[LoadPoint, ...]
    changes: tuple[Change, ...]
    difference: tuple[str, ...]
    """Unified difference from the baseline's text to the candidate's."""

    @property
    def estimate(self) -> PairedEstimate | None:
        """The ratio with its interval: the verdict's, or the provisional one."""
        return self.verdict.estimate if self.verdict else self.provisional

    @property
    def used(self) -> tuple[PairedBlock, ...]:
        """The blocks of the confirmation that count."""
        return tuple(block for block in self.confirm if block.used)


def evaluate(record: Record) -> StudyResult:
    """Judge a study and compute every figure of its report.

    Raises:
        DefinitionError: the record names an objective that does not exist.
    """
    objective = _objective(record)
    protocol = record.protocol
    trials = trial_figures(record, objective)
    front = best_trial(trials, record.baseline, objective)
    candidate = protocol.candidate if protocol else front.digest if front else None
    digest = candidate or ""
    confirm = _latest(pairs(record, "confirm", digest, objective.value))
    used = [block for block in confirm if block.used]
    differences = [block.difference(objective.value) for block in used]
    found = findings(confirm, used, objective, protocol.margin if protocol else 0.0)
    verdict = _verdict(record, objective, differences, found)
    status, sentence = _outcome(
        record, verdict, confirm=confirm, used=len(used), trials=trials, front=front
    )
    configurations = record.configurations
    known = digest in configurations and record.baseline in configurations
    both = (configurations[record.baseline], configurations[digest]) if known else None
    return StudyResult(
        record=record,
        objective=objective,
        status=status,
        sentence=sentence,
        verdict=verdict,
        provisional=estimate(differences) if differences and not verdict else None,
        candidate=candidate,
        confirm=confirm,
        figures=figures(used, objective) if used else (),
        spectra=spectra(used),
        excluded=(
            excluded_share([window for block in used for window in block.baseline]),
            excluded_share([window for block in used for window in block.candidate]),
        ),
        findings=found,
        warnings=_warnings(record, found),
        times=phase_times(record),
        trials=trials,
        shrinkage=_shrinkage(trials, protocol, verdict),
        aa=aa_spreads(record, objective),
        load_points=load_points(
            record, pairs(record, "load-points", digest, objective.value), used, objective
        ),
        changes=changes(*both) if both else (),
        difference=unified_difference(*both) if both else (),
    )


def _objective(record: Record) -> Objective:
    if record.protocol:
        return Objective.parse(record.protocol.objective)
    return Objective.parse(str(record.definition.get("objective", "p99")))


def _latest(confirm: Sequence[PairedBlock]) -> tuple[PairedBlock, ...]:
    """The blocks, of which one per index counts: a repeated block replaces the one it repeats."""
    latest = {block.index: block.number for block in confirm if block.used}
    return tuple(
        replace(block, reason="measured again")
        if block.used and block.number != latest[block.index]
        else block
        for block in confirm
    )


def _verdict(
    record: Record,
    objective: Objective,
    differences: Sequence[float],
    found: Sequence[Finding],
) -> Verdict | None:
    """The verdict on the frozen n blocks; None as long as one is missing."""
    protocol = record.protocol
    if protocol is None or len(differences) < protocol.blocks:
        return None
    calibration = record.calibration
    verdict = judge(
        differences[: protocol.blocks],
        margin=protocol.margin,
        minimum_detectable_effect=(calibration.minimum_detectable_effect if calibration else 1.0),
        objective=objective.name,
        larger_is_better=objective.larger_is_better,
    )
    spoilt = next((f for f in found if f.code == "invalid-windows" and f.raised), None)
    if spoilt is None or verdict.kind is VerdictKind.INCONCLUSIVE:
        return verdict
    # The protocol: more than 10 % invalid, or unequal between arms, is inconclusive.
    return replace(
        verdict,
        kind=VerdictKind.INCONCLUSIVE,
        sentence=f"Inconclusive: {spoilt.message}. The remaining blocks alone would say: "
        f"{verdict.sentence[0].lower()}{verdict.sentence[1:]}",
    )


def _outcome(
    record: Record,
    verdict: Verdict | None,
    *,
    confirm: Sequence[PairedBlock],
    used: int,
    trials: Sequence[TrialFigure],
    front: TrialFigure | None,
) -> tuple[Status, str]:
    """The verdict's sentence, or why there is none and what the study has instead."""
    if verdict:
        return "confirmed", verdict.sentence
    running = record.ended_unix_s is None
    if record.protocol:
        planned = counted(record.protocol.blocks, "block")
        words = f"Not confirmed: {'interrupted' if running else 'ended'} after {used} of {planned}"
        last = confirm[-1] if confirm else None
        if last and not last.used and last.state != "running":
            words += f"; the last one does not count ({last.reason})"
        return "incomplete", f"{words}."
    stopped = (
        "interrupted during the search" if running else "the study ended without a confirmation"
    )
    if front:
        return "unconfirmed", (
            f"Not confirmed: {stopped}. Trial {front.number} is ahead at a ratio of "
            f"{front.ratio:.3f} to the baseline over {counted(front.blocks, 'block')}: "
            "a search figure, not a claim."
        )
    measured = [t for t in trials if t.blocks and t.digest != record.baseline]
    if measured:
        so_far = " so far" if running else ""
        return "nothing-better", (
            f"Nothing better found{so_far}: none of {counted(len(measured), 'configuration')} "
            "beat the baseline in the search, so there was nothing to confirm."
        )
    if record.calibration is None:
        return "not-searched", "Not calibrated: the study stopped before its first trial."
    return "not-searched", "Not searched: the study stopped before a trial was measured."


def _shrinkage(
    trials: Sequence[TrialFigure], protocol: Protocol | None, verdict: Verdict | None
) -> Shrinkage | None:
    if protocol is None or verdict is None:
        return None
    for trial in trials:
        if trial.digest == protocol.candidate and trial.blocks:
            return Shrinkage(trial.number, trial.ratio, trial.blocks, verdict.estimate.ratio)
    return None


def _warnings(record: Record, found: Sequence[Finding]) -> tuple[str, ...]:
    raised = tuple(finding.message for finding in found if finding.raised)
    calibration = record.calibration.warnings if record.calibration else ()
    return (*raised, *calibration, *record.notes)
