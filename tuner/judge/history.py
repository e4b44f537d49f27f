"""The course of a study: A/A noise, trials of the search, load points, and use of time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import get_args

from tuner.goals.goals import Goals
from tuner.goals.objective import Objective
from tuner.judge.arms import PairedBlock
from tuner.judge.ranking import dominates, front, mean_losses, violates, weighted
from tuner.judge.scoring import BASELINE, counted_windows, mean_loss
from tuner.record.model import Block, Phase, Record, TrialOrigin, TrialState

PHASES: tuple[Phase, ...] = get_args(Phase)


@dataclass(frozen=True, slots=True)
class TrialFigure:
    """One trial of the search. Its ratio is a search figure, never a claim."""

    number: int
    digest: str
    origin: TrialOrigin
    state: TrialState
    blocks: int
    """Number of blocks in which it was measured."""
    ratio: float
    """Trial / baseline, estimated from all arms of the search; NaN if it was never measured."""
    low: float
    """Smallest ratio of a block, or ``ratio`` if that is smaller."""
    high: float
    """Largest one, likewise: all arms of the search share in ``ratio``, so it may lie outside."""
    best_so_far: float
    """The best ratio of all complete trials up to this one; NaN before the first."""
    message: str
    second: float = math.nan
    """Ratio of the second objective; NaN where there is none."""
    front: bool = False
    """True if no other trial beats it in both of two objectives; never true with one."""
    violates: bool = False
    """True if it is beyond a constraint on average."""
    score: float = math.nan
    """Score for comparing trials: the loss, or the weighted sum of two; smaller is better."""


@dataclass(frozen=True, slots=True)
class Shrinkage:
    """The winner's figures from search and confirmation, which show the winner's curse."""

    trial: int
    searched: float
    """Ratio in the search."""
    blocks: int
    confirmed: float
    """Ratio on fresh blocks."""


@dataclass(frozen=True, slots=True)
class AASpread:
    """One instance of an A/A block against the mean of its identical neighbours."""

    block: int
    instance: str
    ratio: float


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """One arm at one offered rate."""

    arm: str
    rate_per_s: float
    share_of_capacity: float
    """NaN if the capacity is unknown."""
    value: float
    """Geometric mean over valid windows, NaN if none is valid."""
    low: float
    high: float
    """Smallest and largest of the windows."""
    windows: int
    reason: str
    """Why there is no value; empty otherwise."""


@dataclass(frozen=True, slots=True)
class PhaseTime:
    """The wall-clock time of one phase, split by use."""

    phase: Phase
    blocks: int
    repeated: int
    """Blocks that are invalid or failed."""
    windows: int
    measured_s: float
    """Time in measuring windows."""
    elapsed_s: float
    """From the start of the phase's first block to the end of its last."""

    @property
    def share(self) -> float:
        """Share of the wall-clock spent measuring; NaN if nothing ended."""
        return self.measured_s / self.elapsed_s if self.elapsed_s > 0 else math.nan

    @property
    def overhead_s(self) -> float:
        """Time of a block outside its windows: deployment, warm-ups, gaps, and idle time."""
        return (self.elapsed_s - self.measured_s) / self.blocks


def trial_figures(record: Record, goals: Goals) -> tuple[TrialFigure, ...]:
    """Return every trial in order of its number."""
    result = []
    objective, other = goals.first, goals.second
    measured = [t for t in record.trials if t.state in {"racing", "complete"} and t.losses]
    allowed = [t for t in measured if not violates(t, goals)]
    # A trial that the baseline beats in both is not on the front.
    ahead = {
        t.number
        for t in (front(allowed, goals) if other else ())
        if not dominates((0.0, 0.0), mean_losses(t, goals))
    }
    best = math.nan
    for trial in sorted(record.trials, key=lambda trial: trial.number):
        ratios = sorted(
            math.exp(objective.loss(loss)) for loss in trial.losses.values() if math.isfinite(loss)
        )
        ratio = math.exp(objective.loss(mean_losses(trial, goals)[0])) if ratios else math.nan
        if trial.state == "complete" and ratios:
            best = ratio if math.isnan(best) else _better(objective, best, ratio)
        result.append(
            TrialFigure(
                number=trial.number,
                digest=trial.digest,
                origin=trial.origin,
                state=trial.state,
                blocks=len(ratios),
                ratio=ratio,
                low=min(ratios[0], ratio) if ratios else math.nan,
                high=max(ratios[-1], ratio) if ratios else math.nan,
                best_so_far=best,
                message=trial.message,
                second=(
                    math.exp(other.loss(mean_loss(trial.second)))
                    if other and trial.second
                    else math.nan
                ),
                front=trial.number in ahead,
                violates=violates(trial, goals),
                score=weighted(trial, goals) if ratios else math.nan,
            )
        )
    return tuple(result)


def best_trial(trials: Sequence[TrialFigure], baseline: str) -> TrialFigure | None:
    """Return the front-runner: the best of the most measured trials that beat the baseline.

    Good trials are measured again, so those are the survivors of the search.
    """
    ahead = [
        trial
        for trial in trials
        if trial.state == "complete"
        and trial.digest != baseline
        and trial.blocks
        and trial.score < 0
        and not trial.violates
    ]
    return min(ahead, key=lambda trial: (-trial.blocks, trial.score), default=None)


def aa_spreads(record: Record, objective: Objective) -> tuple[AASpread, ...]:
    """Return every instance of every A/A block of the calibration, as a ratio to its block's mean.

    Blocks at a load point that the study left are not among them.
    """
    complete, calibrated = _complete(record, "aa"), record.calibration
    if calibrated is not None and objective.at_one_rate:
        complete = [b for b in complete if b.windows[0].rate_per_s == calibrated.rate_per_s]
    result = []
    for block in complete:
        means = {
            instance.instance: objective.arm_ln(counted_windows(block, instance.instance))
            for instance in block.instances
        }
        known = {label: mean for label, mean in means.items() if math.isfinite(mean)}
        if len(known) > 1:
            centre = fmean(known.values())
            result += [
                AASpread(block.index, label, math.exp(mean - centre))
                for label, mean in known.items()
            ]
    return tuple(result)


def load_points(
    record: Record, extra: Sequence[PairedBlock], confirm: Sequence[PairedBlock], goal: Objective
) -> tuple[LoadPoint, ...]:
    """Both arms at each offered rate of the load-point blocks and of the confirmation itself.

    Empty for a closed loop, where there is no offered rate, and for a capacity, which has many.
    """
    if goal.mode == "closed" or goal.slo or not extra:
        return ()
    capacity = record.calibration.capacity_per_s if record.calibration else math.nan
    rates: dict[float, list[PairedBlock]] = {}
    for block in (*extra, *(block for block in confirm if block.used)):
        for window in block.baseline[:1]:
            rates.setdefault(window.rate_per_s, []).append(block)
    result = []
    for rate, blocks in sorted(rates.items()):
        for arm in (BASELINE, "tuned"):
            windows = [
                window
                for block in blocks
                for window in (block.baseline if arm == BASELINE else block.candidate)
            ]
            values = [goal.value(window) for window in windows if window.valid]
            values = [value for value in values if math.isfinite(value)]
            why = sorted({reason for window in windows for reason in window.invalid})
            result.append(
                LoadPoint(
                    arm=arm,
                    rate_per_s=rate,
                    share_of_capacity=rate / capacity if capacity > 0 else math.nan,
                    value=math.exp(goal.arm_ln([w for w in windows if w.valid])),
                    low=min(values, default=math.nan),
                    high=max(values, default=math.nan),
                    windows=len(values),
                    reason="" if values else "; ".join(why) or "not measured",
                )
            )
    return tuple(result)


def phase_times(record: Record) -> tuple[PhaseTime, ...]:
    """Return the use of time for each phase that was begun."""
    result = []
    for phase in PHASES:
        blocks = [block for block in record.blocks if block.phase == phase]
        if not blocks:
            continue
        ended = max(map(_end, blocks))
        result.append(
            PhaseTime(
                phase=phase,
                blocks=len(blocks),
                repeated=sum(block.state in {"invalid", "failed"} for block in blocks),
                windows=sum(len(block.windows) for block in blocks),
                measured_s=sum(window.duration_s for block in blocks for window in block.windows),
                elapsed_s=max(0.0, ended - min(block.started_unix_s for block in blocks)),
            )
        )
    return tuple(result)


def _end(block: Block) -> float:
    """Return the end of a block; of an unfinished one, the end of its last window."""
    windows = (window.started_unix_s + window.duration_s for window in block.windows)
    return max(block.started_unix_s, block.ended_unix_s, *windows)


def _better(objective: Objective, first: float, second: float) -> float:
    return max(first, second) if objective.larger_is_better else min(first, second)


def _complete(record: Record, phase: Phase) -> list[Block]:
    return [block for block in record.blocks if block.phase == phase and block.state == "complete"]
