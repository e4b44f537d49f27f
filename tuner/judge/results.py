"""Every figure of a report, computed once from the record.

Where the study did not come so far, ``StudyResult`` says what is missing; nothing is filled in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tuner.goals.goals import Goals, goals_of
from tuner.goals.objective import Objective
from tuner.judge.ablation import Ablation
from tuner.judge.ablation import evaluate as evaluate_ablation
from tuner.judge.across_hosts import HostsResult, as_seen_on, on_hosts, stands_for
from tuner.judge.arms import (
    Figure,
    PairedBlock,
    Spectrum,
    excluded_share,
    figures,
    paired_blocks,
    spectra,
    whole_figures,
)
from tuner.judge.checks import findings, sentinel
from tuner.judge.claimable import AA_DEGREES, ESTIMATED, MEASURED, claimable
from tuner.judge.claims import LimitClaim, limit_claims, objective_claims, together
from tuner.judge.comparison import Judged, RatioClaim, blocks_of_starts, more_starts
from tuner.judge.confirmation import Missing, Tally, against_others, estimand, tally_of
from tuner.judge.contest_results import ContestResult, contest_result
from tuner.judge.difference import two_parts, unified_difference
from tuner.judge.history import (
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
from tuner.judge.outcome import Status, outcome, overruled, too_fine
from tuner.judge.recommendation import recommended
from tuner.judge.scoring import BASELINE
from tuner.judge.usage import PARTS, unread, usage
from tuner.judge.whole import Arms, WholeArms, contradiction, whole_arms
from tuner.measurement import core_wait, lifetimes, quota
from tuner.record.changes import Change, changes_of
from tuner.record.check import reading
from tuner.record.model import Protocol, Record
from tuner.stats.diagnostics import Diagnostic
from tuner.stats.margin import NO_MARGIN
from tuner.stats.paired import PairedEstimate
from tuner.stats.power import LEVEL
from tuner.stats.replication import Interval, Replication, replication
from tuner.stats.sequential import Look, looks
from tuner.stats.verdict import Verdict, VerdictKind


@dataclass(frozen=True, slots=True)
class StudyResult:
    """A study as a report states it; everything is derived from ``record``."""

    record: Record
    goals: Goals
    objective: Objective
    """The objective; of two, the first."""
    status: Status
    sentence: str
    """The outcome in one sentence: the verdict's, or why there is none."""
    void: str
    """Why the blocks of the confirmation bear no claim of any kind; empty where they do."""
    verdict: Verdict | None
    """Verdict on all goals together; None unless ``status`` is ``confirmed``."""
    objectives: tuple[Judged, ...]
    """The verdict on each of two objectives; empty where there is one."""
    constraints: tuple[LimitClaim, ...]
    """Every constraint, over the used blocks; undecided while there is no verdict."""
    provisional: PairedEstimate | None
    """Estimate while ``incomplete``: no claim, since n was fixed beforehand."""
    candidate: str | None
    """Digest of the confirmed configuration, or else of the front-runner.

    Of several finalists the one that the verdict names."""
    finalists: tuple[Judged, ...]
    """All finalists in the protocol's order; empty unless there are several and a block counts.

    ``candidate`` is the one that the verdict names."""
    others: tuple[Judged | Missing, ...]
    """The candidate against every further baseline; empty without them, or before a block counts.
    """
    looks: tuple[Look, ...]
    """Interval after each block in always-valid mode; else empty."""
    confirm: tuple[PairedBlock, ...]
    """Every block of the confirmation in order of time, used or not."""
    figures: tuple[Figure, ...]
    """Both arms over the used blocks, the objective first; empty without such blocks."""
    usage: tuple[Figure, ...]
    """Resource use of both arms; empty where it was not read."""
    unread: tuple[str, ...]
    """Parts without resource figures, each with the reason."""
    spectra: tuple[Spectrum, ...]
    excluded: tuple[float, float]
    """Share of requests that the stall rule excluded, of baseline and candidate; NaN if none."""
    whole: WholeArms | None
    """Both arms over the used blocks together; None without such blocks."""
    findings: tuple[Diagnostic, ...]
    """Diagnostics, warnings first."""
    warnings: tuple[str, ...]
    """Raised findings, calibration's warnings and preflight's notes."""
    times: tuple[PhaseTime, ...]
    trials: tuple[TrialFigure, ...]
    shrinkage: Shrinkage | None
    aa: tuple[AASpread, ...]
    load_points: tuple[LoadPoint, ...]
    halting: float
    """Ratio of the objective at the load point in one block with idle CPUs that halt; NaN where
    they halt in every block, or where no such block is valid."""
    changes: tuple[Change, ...]
    difference: tuple[str, ...]
    """Unified difference from the baseline's text to the recommended one's, or to the candidate's
    if the baseline is recommended."""
    ablation: Ablation | None
    """Why the candidate won; None if it was not taken apart."""
    replication: Replication | None
    """Comparison with the study that it repeats; None if it repeats none."""
    hosts: HostsResult | None = None
    """Evaluation across hosts; None where one host measured.

    ``verdict`` and ``sentence`` are then theirs; all else is of the host that stands for them."""
    contest: ContestResult | None = None
    """Figures and claims of a contest; None where one candidate was compared with the baseline."""

    @property
    def estimate(self) -> PairedEstimate | None:
        """The ratio with its interval: the verdict's, or the provisional one."""
        return self.verdict.estimate if self.verdict else self.provisional

    @property
    def contradiction(self) -> str:
        """Why the whole arms contradict a gain in the typical block; empty if they do not."""
        protocol = self.record.protocol
        if self.whole is None or protocol is None or protocol.evidence == "typical":
            return ""
        return contradiction(self.objective, self.whole, protocol.band)

    @property
    def recommended(self) -> str:
        """Digest of the recommended configuration."""
        return recommended(self.record.baseline, self.candidate, self.verdict, self.ablation)

    @property
    def has_recommendation(self) -> bool:
        """True if another configuration than the baseline is recommended."""
        return self.recommended != self.record.baseline

    @property
    def gained(self) -> Objective:
        """Objective in which a winner is better: of two, the first that is not given away.

        The first objective where that is none.
        """
        kept = (c for c in self.objectives if c.objective.name != self.goals.choice.given)
        better = (c.objective for c in kept if c.verdict.kind is VerdictKind.BETTER)
        return next(better, self.objective)

    @property
    def used(self) -> tuple[PairedBlock, ...]:
        """The blocks of the confirmation that count."""
        return tuple(block for block in self.confirm if block.used)


def evaluate(record: Record) -> StudyResult:
    """Judge a record, of a study or of a contest, and compute every figure of its report.

    Raises:
        StoreError: the record contradicts itself.
    """
    with reading(f"the record of {record.name!r}"):
        return _evaluate_all(record)


def _evaluate_all(record: Record) -> StudyResult:
    if record.contest is not None:
        contest = contest_result(record, record.contest)
        return replace(
            _evaluate(record),
            status="contest",
            sentence=contest.sentence,
            warnings=contest.warnings,
            contest=contest,
        )
    if not record.hosts or record.here:
        return _evaluate(record)
    found = on_hosts(record, _evaluate)
    study = replace(_evaluate(as_seen_on(record, stands_for(record))), hosts=found)
    warnings = (*found.notes, *study.warnings)
    if found.verdict is None:
        return replace(study, warnings=warnings)
    return replace(study, verdict=found.verdict, sentence=found.verdict.sentence, warnings=warnings)


def _evaluate(record: Record) -> StudyResult:
    goals = goals_of(record.definition)
    objective = goals.first
    protocol = record.protocol
    trials = trial_figures(record, goals)
    front = best_trial(trials, record.baseline)
    stands = tally_of(record, objective) if protocol else Tally()
    candidate = front.digest if front else None
    if protocol:
        candidate = protocol.candidates[stands.best]
    digest = candidate or ""
    confirm = _latest(paired_blocks(record, "confirm", digest, objective.arm_ln))
    used = [block for block in confirm if block.used]
    finalists = len(protocol.candidates) if protocol else 1
    margin = protocol.band if protocol else NO_MARGIN
    found = findings(confirm, used, objective, margin=margin, confidence=1 - LEVEL / finalists)
    found = tuple(sorted((*found, *sentinel(record, goals)), key=lambda f: not f.raised))
    end = outcome(
        record, objective, confirm=confirm, tally=stands, found=found, trials=trials, front=front
    )
    others, halting = _by_idle(paired_blocks(record, "load-points", digest, objective.arm_ln), used)
    pairs = [(block.baseline, block.candidate) for block in used]
    more = more_starts(
        blocks_of_starts(record.blocks), RatioClaim(digest, BASELINE, objective, margin)
    )
    claims: tuple[Judged, ...] = ()
    held = limit_claims(used, goals, finalists, void=bool(end.void))
    verdict = end.verdict
    if verdict and protocol and not end.void:
        claims = objective_claims(
            used,
            goals,
            protocol,
            record.calibration,
            replace(stands.judged[stands.best], verdict=verdict),
            more=more,
            too_fine=too_fine(record, goals.second, used) if goals.second else "",
        )
        verdict = together(verdict, goals, claims, held)
    configurations = record.configurations
    known = digest in configurations and record.baseline in configurations
    both = (configurations[record.baseline], configurations[digest]) if known else None
    changed = changes_of(*both) if both else ()
    ablation = evaluate_ablation(record, goals)
    advised = recommended(record.baseline, candidate, verdict, ablation)
    proposed = configurations.get(digest if advised == record.baseline else advised)
    unshared: tuple[str, ...] = ()
    if verdict and verdict.kind is VerdictKind.BETTER and not ablation:
        unshared = two_parts(changed, record.server.name, record.name)
    return StudyResult(
        record=record,
        goals=goals,
        objective=objective,
        status=end.status,
        sentence=verdict.sentence if verdict else end.sentence,
        void=end.void,
        verdict=verdict,
        objectives=claims,
        constraints=held,
        provisional=stands.verdict.estimate if stands.verdict and not end.verdict else None,
        candidate=candidate,
        finalists=tuple(
            _overruled(each, end.void) for each in (stands.judged if finalists > 1 else ())
        ),
        others=tuple(
            _overruled(each, end.void) if isinstance(each, Judged) else each
            for each in against_others(record, stands, objective)
        ),
        looks=_looks(protocol, stands),
        confirm=confirm,
        figures=_figures(used, goals, stands, more) if used else (),
        usage=usage(used),
        unread=unread(used, PARTS if record.cores.backend else ("server", "generator")),
        spectra=() if goals.seek else spectra(used),
        excluded=(
            excluded_share([window for block in used for window in block.baseline]),
            excluded_share([window for block in used for window in block.candidate]),
        ),
        whole=whole_arms(objective, pairs, more) if pairs else None,
        findings=found,
        warnings=(*_warnings(record, goals, found), *unshared),
        times=phase_times(record),
        trials=trials,
        shrinkage=_shrinkage(trials, digest, end.verdict),
        aa=aa_spreads(record, objective),
        load_points=load_points(record, others, used, objective),
        halting=math.exp(halting[0].difference(objective.difference_ln)) if halting else math.nan,
        changes=changed,
        difference=unified_difference(both[0], proposed) if both and proposed else (),
        ablation=ablation,
        replication=_replication(record, goals, claims, None if end.void else end.verdict),
    )


def _by_idle(
    blocks: Sequence[PairedBlock], used: Sequence[PairedBlock]
) -> tuple[list[PairedBlock], list[PairedBlock]]:
    """Return the blocks with idle CPUs as in the confirmation, and those in which they halted."""
    polled = any(window.polled for block in used for window in block.baseline)
    halting = [b for b in blocks if polled and b.baseline and not b.baseline[0].polled]
    return [block for block in blocks if block not in halting], halting


def _replication(
    record: Record, goals: Goals, claims: Sequence[Judged], verdict: Verdict | None
) -> Replication | None:
    """By the objective that the repeated study gained in."""
    original = record.original
    if original is None or verdict is None:
        return None
    found, objective = verdict.estimate, goals.first
    for claim in claims:
        if claim.objective.text == original.objective:
            found, objective = claim.verdict.estimate, claim.objective
    first = Interval(original.ratio, original.low, original.high or math.inf)
    again = Interval(found.ratio, found.low, found.high)
    return replication(first, again, objective=objective.words)


def _figures(
    used: Sequence[PairedBlock], goals: Goals, stands: Tally, more: Sequence[Arms]
) -> tuple[Figure, ...]:
    """Return all figures: objectives, then the same over whole arms, then the rest."""
    found = _claimed(figures(used, goals), stands)
    blocks = [(block.baseline, block.candidate) for block in used]
    whole = [row for o in goals.objectives for row in whole_figures(o, whole_arms(o, blocks, more))]
    first = len(goals.objectives)
    return (*found[:first], *whole, *found[first:])


def _claimed(found: tuple[Figure, ...], stands: Tally) -> tuple[Figure, ...]:
    """Return the figures, of which the first has the interval and p that the verdict rests on."""
    if stands.verdict is None:
        return found
    return (found[0].claimed(stands.verdict.estimate), *found[1:])


def _overruled(claim: Judged, void: str) -> Judged:
    return replace(claim, verdict=overruled(claim.verdict, void))


def _looks(protocol: Protocol | None, stands: Tally) -> tuple[Look, ...]:
    if protocol is None or protocol.stakes is None or not stands.counted:
        return ()
    confidence = 1 - protocol.alpha / len(protocol.candidates)
    return looks(stands.differences(stands.best), protocol.stakes, confidence)


def _latest(confirm: Sequence[PairedBlock]) -> tuple[PairedBlock, ...]:
    """The blocks, of which one per index counts: a repeated block replaces the one it repeats."""
    latest = {block.index: block.number for block in confirm if block.used}
    return tuple(
        replace(block, reason="measured again")
        if block.used and block.number != latest[block.index]
        else block
        for block in confirm
    )


def _shrinkage(
    trials: Sequence[TrialFigure], candidate: str, verdict: Verdict | None
) -> Shrinkage | None:
    if verdict is None:
        return None
    for trial in trials:
        if trial.digest == candidate and trial.blocks:
            return Shrinkage(trial.number, trial.ratio, trial.blocks, verdict.estimate.ratio)
    return None


def _warnings(record: Record, goals: Goals, found: Sequence[Diagnostic]) -> tuple[str, ...]:
    raised = tuple(finding.message for finding in found if finding.raised)
    calibration = record.calibration.warnings if record.calibration else ()
    waited = core_wait.warning(window for block in record.blocks for window in block.windows)
    throttled = quota.warning(window for block in record.blocks for window in block.windows)
    other = _other_estimand(record, goals)
    confirm = [block for block in record.blocks if block.phase == "confirm"]
    reopened = lifetimes.warning(window for block in confirm for window in block.windows)
    seen = [words for words in (throttled, waited, reopened) if words]
    return (*raised, *calibration, *other, *seen, *_noise(record, goals))


def _noise(record: Record, goals: Goals) -> tuple[str, ...]:
    """Return the record's notes, with the measured noise in place of what stalls let expect."""
    found = record.calibration
    if found is None:
        return record.notes
    notes = tuple(note for note in record.notes if not note.startswith(ESTIMATED))
    measured = claimable(
        found.sigma_d,
        rate_per_s=found.rate_per_s,
        goals=goals,
        degrees_of_freedom=found.degrees_of_freedom or AA_DEGREES,
    )
    return notes if measured.grade == "fine" else (f"{MEASURED}{measured.words}", *notes)


def _other_estimand(record: Record, goals: Goals) -> tuple[str, ...]:
    """Return a warning where a protocol was frozen for a figure that is computed otherwise now."""
    protocol = record.protocol
    if protocol is None:
        return ()
    now = estimand(goals.objectives, stall_free=protocol.stall_rule is not None)
    if protocol.estimand == now:
        return ()
    words = f"the protocol was frozen for another figure ({protocol.estimand})"
    return (f"{words}; this version computes: {now}",)
