"""A confirmation of a known configuration, from its bench to the shown result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tuner.app import results
from tuner.app.announce import announce
from tuner.app.metrics_server import study_metrics
from tuner.app.preflight import Preflight
from tuner.app.progress import TerminalProgress
from tuner.app.session import STUDIES, open_bench
from tuner.judge.results import StudyResult, evaluate
from tuner.phases.study import announce_times, calibrate, confirm
from tuner.space.configuration import Configuration
from tuner.store.store import Store


def confirmed(
    found: Preflight,
    candidate: Configuration,
    store: Store,
    *words: str,
    progress: TerminalProgress,
    as_json: bool,
    quiet: bool,
    junit: Path | None,
    metrics: str | None = None,
) -> StudyResult:
    """Calibrate, confirm the candidate, and show the result.

    Args:
        words: command line that resumes it, beginning with the command.
        metrics: value of ``--metrics``.
    """
    folder = STUDIES / found.definition.name
    if not quiet:
        announce(found, folder, what=words[0], search=False)
    resume_with = results.resumption(found.definition, *words)
    with (
        study_metrics(metrics, found.definition, folder, progress),
        results.kept(store, folder, progress, resume_with),
        open_bench(found, folder, progress, store) as (bench, studied),
    ):
        # Only after taking the study, because another process may be running it.
        for done in store.recover():
            progress.note(done)
        spec = replace(studied, search=False)
        ready = calibrate(bench, spec)
        announce_times(ready, spec)
        confirm(ready, candidate)
    study = evaluate(store.record())
    results.show([study], folder, as_json=as_json, junit=junit)
    return study
