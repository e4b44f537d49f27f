"""The part of a very long search that a report shows: some of its trials, and no window.

A page with 10,000 trials has 25 MB and takes a browser many seconds. Tables of data have them all.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tuner.judge.history import TrialFigure
from tuner.judge.results import StudyResult

MOST = 1_000
_BEST = MOST // 2


def shown_trials(study: StudyResult) -> tuple[TrialFigure, ...]:
    """Return the trials for charts and tables, in order of their numbers.

    If there are more than `MOST`: the best half of these, those that no sampler proposed, the
    front of two objectives, the candidate, and the others at equal distances in time.
    """
    every = study.trials
    if len(every) <= MOST:
        return every
    known = sorted(
        (trial for trial in every if not math.isnan(trial.score)), key=lambda trial: trial.score
    )
    kept = {trial.number for trial in known[:_BEST]}
    kept |= {t.number for t in every if t.origin != "proposed" or t.front}
    kept |= {t.number for t in every if t.digest == study.candidate}
    others = [trial.number for trial in every if trial.number not in kept]
    room = MOST - len(kept)
    kept |= {others[place * len(others) // room] for place in range(room)}
    return tuple(trial for trial in every if trial.number in kept)


def for_charts(study: StudyResult) -> StudyResult:
    """Return the study with the trials that charts show, and without windows of the search.

    No chart shows these windows, nine for each trial.
    """
    blocks = tuple(
        replace(block, windows=()) if block.phase == "search" else block
        for block in study.record.blocks
    )
    return replace(study, trials=shown_trials(study), record=replace(study.record, blocks=blocks))


def shown_words(study: StudyResult) -> str:
    """Return the sentence about trials that are not shown; empty if all are."""
    every, shown = len(study.trials), len(shown_trials(study))
    if shown == every:
        return ""
    return (
        f" Charts and table show {shown:,} of {every:,} trials: the best {_BEST}, and others at"
        " equal distances in time."
    )
