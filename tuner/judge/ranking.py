"""Ranking of trials: one order for the schedule, the choice and the report.

Trials that are beyond a limit come last. With two objectives, those that no other one beats in both
come first (non-dominated sorting: Srinivas and Deb 1994), and among them the rule of the choice
decides.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from tuner.goals.goals import Goals
from tuner.judge.scoring import Pooled, mean_loss, pooled
from tuner.record.model import Block, Calibration, Trial

Losses = tuple[float, ...]


def mean_losses(trial: Trial, goals: Goals) -> Losses:
    """Loss for each objective: ln ratio to the baseline, negative is better.

    The estimate from all arms of the search; where there is none, the mean over the blocks.
    """
    if trial.losses and len(trial.effects) == len(goals.objectives):
        return trial.effects
    if goals.second is None:
        return (mean_loss(trial.losses),)
    return (mean_loss(trial.losses), mean_loss(trial.second))


def pooled_all(
    blocks: Sequence[Block], goals: Goals, calibration: Calibration | None
) -> tuple[Pooled, ...]:
    """Return the search in one fit for each objective; empty before calibration."""
    if calibration is None:
        return ()
    sigmas = (calibration.sigma_d, calibration.second_sigma_d)
    return tuple(
        pooled(blocks, objective, sigma_d=sigma_d, correlation=calibration.correlation)
        for objective, sigma_d in zip(goals.objectives, sigmas, strict=False)
    )


def mean_excess(trial: Trial, limit: str) -> float:
    """Return the mean excess of a trial over a limit; 0 or less holds, NaN if unknown."""
    values = [value for value in trial.excess.get(limit, {}).values() if math.isfinite(value)]
    return statistics.fmean(values) if values else math.nan


def violates(trial: Trial, goals: Goals) -> bool:
    """Return whether the mean of the looks is beyond one of the constraints."""
    return any(mean_excess(trial, c.text) > 0 for c in goals.constraints)


def beyond(trial: Trial, goals: Goals) -> bool:
    """Return whether it violates a constraint or the limit of the choice: it is never confirmed."""
    return any(mean_excess(trial, limit.text) > 0 for limit in goals.limits)


def dominates(one: Losses, other: Losses) -> bool:
    """Return whether one is at least as good in everything, and better in something."""
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def front(trials: Sequence[Trial], goals: Goals) -> list[Trial]:
    """Return the trials that no other one beats in every objective, in the order of the first."""
    points = [(mean_losses(trial, goals), trial) for trial in trials]
    ahead = [
        (point, trial)
        for point, trial in points
        if not any(dominates(other, point) for other, _ in points)
    ]
    return [trial for _, trial in sorted(ahead, key=lambda entry: (entry[0], entry[1].number))]


def ranked(trials: Sequence[Trial], goals: Goals) -> list[Trial]:
    """Best first; among equals, the one with more looks."""
    layer = _layers(trials, goals)
    return sorted(
        trials,
        key=lambda t: (
            beyond(t, goals),
            layer[t.number],
            weighted(t, goals),
            -len(t.losses),
        ),
    )


def weighted(trial: Trial, goals: Goals) -> float:
    """Logarithm of the product of ratios, each to its weight, by which a point is chosen."""
    values = mean_losses(trial, goals)
    return sum(w * v for w, v in zip(goals.choice.weights, values, strict=False))


def choose(trials: Sequence[Trial], goals: Goals) -> Trial | None:
    """The trial to be confirmed, by the rule of the choice; None if all are beyond a limit."""
    allowed = [trial for trial in trials if not beyond(trial, goals)]
    if goals.second is None or not allowed:
        return next(iter(ranked(allowed, goals)), None)
    points, limit = front(allowed, goals), goals.choice.limit
    if limit is None:
        return min(points, key=lambda t: (weighted(t, goals), -len(t.losses)))
    free = 1 - [o.name for o in goals.objectives].index(limit.metric.name)
    return min(points, key=lambda t: mean_losses(t, goals)[free])


def _layers(trials: Sequence[Trial], goals: Goals) -> dict[int, int]:
    """0 for the front, 1 for the front without it, and so on; all 0 with one objective."""
    found = dict.fromkeys((trial.number for trial in trials), 0)
    rest = list(trials) if goals.second else []
    layer = 0
    while rest:
        numbers = {trial.number for trial in front(rest, goals)}
        found |= dict.fromkeys(numbers, layer)
        rest = [trial for trial in rest if trial.number not in numbers]
        layer += 1
    return found
