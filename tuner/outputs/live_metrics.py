"""Metrics of running studies: phase, blocks, windows, estimates, time left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tuner.judge.results import StudyResult
from tuner.outputs.openmetrics import FamilyType, MetricFamily, MetricSample, study_families
from tuner.outputs.phase_now import PhaseNow

_REASONS = (
    ("requests failed", "errors"),
    ("achieved less than offered", "rate"),
    ("the generator", "generator"),
    ("an effective sample", "samples"),
    ("quota", "quota"),
    ("stall", "stalls"),
    ("asked for", "terms"),
)
"""Reasons of invalid windows by a part of their text, which has figures too."""


def live_families(studies: Sequence[StudyResult], now: PhaseNow | None) -> tuple[MetricFamily, ...]:
    """Return the metrics of a command's studies, of which the last may be running.

    Args:
        studies: the studies in the order of their start, evaluated so far.
        now: phase of the last one; None before the first phase.
    """
    own = (family for study in studies for family in (*_progress(study), *_estimates(study)))
    return (*_phase(studies, now), *_merged(own), *study_families(studies))


def reason_kind(reason: str) -> str:
    """Return the kind of a reason for an invalid window, such as ``stalls``; else ``other``."""
    return next((kind for part, kind in _REASONS if part in reason), "other")


def _merged(families: Iterable[MetricFamily]) -> Iterable[MetricFamily]:
    """Return one family of each name, with the samples of all studies."""
    found: dict[str, MetricFamily] = {}
    for family in families:
        before = found.get(family.name)
        samples = (*before.samples, *family.samples) if before else family.samples
        found[family.name] = replace(family, samples=samples)
    return found.values()


def _phase(studies: Sequence[StudyResult], now: PhaseNow | None) -> Iterator[MetricFamily]:
    if now is None or not studies:
        return
    name = studies[-1].record.name
    samples = (MetricSample(1, {"study": name, "phase": now.title}),)
    yield MetricFamily("tuner_phase", "info", "Phase of the running command.", samples)
    left = (MetricSample(now.left_s, {"study": name}),)
    words = "Expected remainder of the phase."
    yield MetricFamily("tuner_phase_left_seconds", "gauge", words, left, "seconds")


def _progress(study: StudyResult) -> Iterator[MetricFamily]:
    record = study.record
    windows = [(block.phase, window) for block in record.blocks for window in block.windows]
    invalid = [
        (phase, reason_kind(window.invalid[0])) for phase, window in windows if window.invalid
    ]

    def counted(
        name: str,
        kind: FamilyType,
        words: str,
        labels: Sequence[str],
        keys: Iterable[Sequence[str]],
    ) -> MetricFamily:
        found = Counter(tuple(key) for key in keys)
        return MetricFamily(
            name,
            kind,
            words,
            tuple(
                MetricSample(number, {"study": record.name, **dict(zip(labels, key, strict=True))})
                for key, number in sorted(found.items())
            ),
        )

    yield counted(
        "tuner_blocks",
        "gauge",
        "Blocks by phase and state.",
        ("phase", "state"),
        ((block.phase, block.state) for block in record.blocks),
    )
    yield counted(
        "tuner_windows",
        "counter",
        "Measured windows by phase.",
        ("phase",),
        ((phase,) for phase, _ in windows),
    )
    yield counted(
        "tuner_windows_invalid",
        "counter",
        "Invalid windows by phase and first reason.",
        ("phase", "reason"),
        invalid,
    )
    yield counted(
        "tuner_trials",
        "gauge",
        "Configurations of the search by state.",
        ("state",),
        ((trial.state,) for trial in record.trials),
    )


def _estimates(study: StudyResult) -> Iterator[MetricFamily]:
    labels = {"study": study.record.name, "objective": study.objective.text}
    bests = [trial.best_so_far for trial in study.trials]
    found = study.estimate
    values = {
        "tuner_search_best_ratio": bests[-1] if bests else float("nan"),
        "tuner_estimate_ratio": found.ratio if found else float("nan"),
        "tuner_estimate_low_ratio": found.low if found else float("nan"),
        "tuner_estimate_high_ratio": found.high if found else float("nan"),
    }
    words = {
        "tuner_search_best_ratio": "Best ratio of the search so far; no claim.",
        "tuner_estimate_ratio": "Ratio of the confirmation so far; no claim before its end.",
        "tuner_estimate_low_ratio": "Lower end of that ratio's confidence interval.",
        "tuner_estimate_high_ratio": "Upper end of that ratio's confidence interval.",
    }
    for name, value in values.items():
        yield MetricFamily(name, "gauge", words[name], (MetricSample(value, labels),), "ratio")
