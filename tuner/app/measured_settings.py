"""Effects of single settings of a configuration, from the studies in this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tuner.errors import TunerError
from tuner.judge.ablation import gained_objective
from tuner.judge.results import StudyResult, evaluate
from tuner.paths import recorded_studies
from tuner.record.changes import Change
from tuner.stats.paired import PairedEstimate
from tuner.store.listing import open_all
from tuner.store.store import sqlite_url
from tuner.words.figures import interval, ratio, setting


def measured_settings(config: str) -> dict[str, tuple[str, ...]]:
    """Return the measured effects of settings, in words by parameter.

    A setting has an effect of its own in an ablation, and in a confirmation of a single change. A
    record that cannot be read is left out.

    Args:
        config: main file of the configuration that the studies tuned.
    """
    found: dict[str, list[str]] = {}
    for study in _studies(Path(config)):
        for name, words in _effects(study):
            found.setdefault(name, []).append(words)
    return {name: tuple(words) for name, words in found.items()}


def _studies(config: Path) -> Iterator[StudyResult]:
    """Yield the studies of a configuration that have a verdict."""
    for folder in recorded_studies():
        url = sqlite_url(folder)
        try:
            for store in open_all(url, writing=False):
                record = store.record()
                given = str(record.definition.get("config") or "")
                if given and Path(given).resolve() == config.resolve():
                    yield evaluate(record)
        except TunerError:
            continue


def _effects(study: StudyResult) -> Iterator[tuple[str, str]]:
    """Yield the parameter and the effect of each setting that a study measured by itself."""
    changes = {change.name: change for change in study.changes}
    if study.ablation is not None:
        objective = gained_objective(study.ablation.protocol, study.goals).name
        for part in study.ablation.parts:
            (name, *tied) = part.contrast.names
            if not tied and part.reverted and name in changes:
                change = changes[name]
                yield name, _words(study, change, objective, part.reverted, reverted=True)
    elif study.verdict is not None and len(changes) == 1:
        (change,) = changes.values()
        estimate = study.verdict.estimate
        yield change.name, _words(study, change, study.objective.name, estimate, reverted=False)


def _words(
    study: StudyResult,
    change: Change,
    objective: str,
    estimate: PairedEstimate,
    *,
    reverted: bool,
) -> str:
    values = [setting(change.tuned, change.unit), setting(change.baseline, change.unit)]
    first, second = reversed(values) if reverted else values
    return (
        f"{objective} with {change.name} = {first} is {ratio(estimate.ratio)} times that with"
        f" {second} ({interval(estimate)}; study {study.record.name})"
    )
