"""The schedule of looks: the trials that the next block measures.

Successive halving with re-measurement (Jamieson and Talwalkar 2016, on means instead of longer
runs): every trial gets one short look, the better part of those three, the best of them five, and
so on. A figure is a mean over blocks. The final choice uses an upper bound of that mean, so that a
lucky look does not decide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tuner.goals.goals import Goals
from tuner.judge.ranking import beyond, choose, mean_losses, ranked
from tuner.record.model import Trial
from tuner.stats.noise import repeat_noise

RUNGS = (1, 3, 5, 9, 15)
"""Numbers of looks at which only the better part of the trials goes on."""
KEEP = 1 / 4
"""Share of the trials of a rung that go on to the next."""
CAUTION = 2.0
"""Standard errors added to a trial's mean loss before the best is chosen."""
_LEAST_DEVIATIONS = 4
"""Fewest deviations from which the noise of a look is estimated."""


def again(trials: Sequence[Trial], slots: int, goals: Goals) -> list[Trial]:
    """Return the racing trials most worth another look, best first, at most ``slots``.

    A trial qualifies while its looks are below the next rung and it is among the best ``KEEP``
    of all trials that have at least the looks of its own rung.
    """
    better = {rung: _better_part(trials, rung, goals) for rung in RUNGS}
    worthy = []
    for trial in trials:
        looks = len(trial.losses)
        if trial.state != "racing" or looks == 0 or looks >= RUNGS[-1]:
            continue
        rung = max(level for level in RUNGS if level <= looks)
        if trial.number in better[rung]:
            worthy.append(trial)
    return ranked(worthy, goals)[:slots]


def finalists(trials: Sequence[Trial], slots: int, goals: Goals) -> list[Trial]:
    """Return the best racing trials that lack looks, for the last blocks of a search."""
    short = [t for t in best_first(trials, goals)[:slots] if len(t.losses) < RUNGS[-1]]
    return [t for t in short if t.state == "racing"]


def best_first(trials: Sequence[Trial], goals: Goals) -> list[Trial]:
    """Return measured, feasible proposals, best first; among equals, more looks first."""
    return ranked([t for t in trials if t.losses and t.state in {"racing", "complete"}], goals)


def winner(trials: Sequence[Trial], goals: Goals) -> Trial | None:
    """Return the first of ``leaders``, the trial to confirm; None if there are none."""
    return next(iter(leaders(trials, 1, goals)), None)


def leaders(trials: Sequence[Trial], count: int, goals: Goals) -> list[Trial]:
    """Return the best ``count`` trials that keep to the constraints, for the confirmation.

    Trials are ordered by the upper bound of their mean loss, ``CAUTION`` standard errors above
    it: the best of many single looks is mostly luck, so a trial with few looks has to be better
    by more. With two objectives, return one point of the front, chosen among the trials with
    the most looks.
    """
    allowed = [t for t in best_first(trials, goals) if not beyond(t, goals)]
    if goals.second is None:
        noise = look_noise(trials)
        # Sorting is stable: of equal bounds the one with the better mean stays first.
        allowed.sort(key=lambda t: mean_losses(t, goals)[0] + _doubt(t, noise))
        return allowed[:count]
    for looks in reversed(RUNGS):
        proven = [trial for trial in allowed if len(trial.losses) >= looks]
        chosen = choose(proven, goals)
        if chosen:
            return [chosen]
    return []


def look_noise(trials: Sequence[Trial]) -> float:
    """Return the standard deviation of a single look, ln units, from trials with several looks.

    Return 0 while too few trials have two looks.
    """
    return repeat_noise([list(trial.losses.values()) for trial in trials], _LEAST_DEVIATIONS)


def _doubt(trial: Trial, noise: float) -> float:
    return CAUTION * noise / math.sqrt(len(trial.losses))


def _better_part(trials: Sequence[Trial], rung: int, goals: Goals) -> set[int]:
    """Return the numbers of the best ``KEEP`` of all trials with at least this many looks.

    Empty while too few trials reached the rung to identify its better part.
    """
    rivals = [trial for trial in trials if len(trial.losses) >= rung]
    if len(rivals) * KEEP < 1:
        return set()
    return {trial.number for trial in ranked(rivals, goals)[: round(len(rivals) * KEEP)]}
