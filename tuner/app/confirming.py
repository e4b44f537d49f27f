"""A confirmation of a known configuration, from its bench to its result."""

from __future__ import annotations

from dataclasses import replace

from tuner.app import results
from tuner.app.announce import announce
from tuner.app.caller import Caller
from tuner.app.metrics_server import study_metrics
from tuner.app.preflight import Preflight
from tuner.app.session import open_bench
from tuner.judge.results import StudyResult
from tuner.paths import STUDIES
from tuner.phases.study import announce_times, calibrate, confirm
from tuner.space.configuration import Configuration
from tuner.store.store import Store


def confirmed(
    found: Preflight,
    candidate: Configuration,
    store: Store,
    *words: str,
    caller: Caller,
    metrics: str | None = None,
) -> StudyResult:
    """Calibrate, confirm the candidate, and return the result.

    Args:
        found: preflight of the study.
        candidate: the configuration to compare with the baseline.
        store: record of the study.
        words: command line that resumes it, beginning with the command.
        caller: the command or program, which sees the progress.
        metrics: value of ``--metrics``.
    """
    folder, progress = STUDIES / found.definition.name, caller.progress
    announce(found, folder, progress, what=words[0], search=False)
    resume_with = results.resumption(found.definition, *words)
    with (
        study_metrics(metrics, found.definition, folder, progress),
        results.kept(store, folder, progress, resume_with) as kept,
        open_bench(found, folder, progress, store) as (bench, studied),
    ):
        # Only after taking the study, because another process may be running it.
        for done in store.recover():
            progress.note(done)
        spec = replace(studied, search=False)
        ready = calibrate(bench, spec)
        announce_times(ready, spec)
        confirm(ready, candidate)
    return kept.study
