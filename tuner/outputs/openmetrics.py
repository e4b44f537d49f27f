"""OpenMetrics text, which Prometheus and its tools read (OpenMetrics 1.0).

Metric families have base units (seconds, bytes) in their names; names and texts are label values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tuner.judge.results import StudyResult
from tuner.outputs.number_text import number_text
from tuner.outputs.observed import arm_values, figure_changes
from tuner.reading.printable import printable
from tuner.stats.verdict import VerdictKind

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
FamilyType = Literal["gauge", "counter", "info", "stateset"]

_UNITS: Mapping[str, tuple[str, float]] = {
    "µs": ("seconds", 1e-6),
    "s": ("seconds", 1.0),
    "/s": ("per_second", 1.0),
    "requests/s": ("per_second", 1.0),
    "MiB": ("bytes", 2.0**20),
    "MiB/s": ("bytes_per_second", 2.0**20),
    "share": ("ratio", 1.0),
}
"""Unit in names of families, and factor, by the unit in the report."""


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One value with its labels."""

    value: float
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """One metric with all of its samples."""

    name: str
    """Name with the unit at its end, without ``_total`` and ``_info``."""
    type: FamilyType
    help: str
    samples: tuple[MetricSample, ...]
    unit: str = ""


def render_openmetrics(families: Iterable[MetricFamily]) -> str:
    """Return an exposition; unknown values and families without a sample are left out."""
    lines: list[str] = []
    for family in families:
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        samples = [
            f"{family.name}{suffix}{_labels(sample.labels)} {number_text(sample.value)}"
            for sample in family.samples
            if math.isfinite(sample.value)
        ]
        if samples:
            lines += [f"# TYPE {family.name} {family.type}"]
            lines += [f"# UNIT {family.name} {family.unit}"] if family.unit else []
            lines += [f"# HELP {family.name} {_escaped(family.help)}", *samples]
    return "\n".join([*lines, "# EOF"]) + "\n"


def study_families(studies: Sequence[StudyResult]) -> tuple[MetricFamily, ...]:
    """Return the outcome of studies: facts, verdicts, figures of arms, and ratios."""
    return (*_facts(studies), *_figures(studies), *_changes(studies))


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(text: str) -> str:
    # `printable` leaves a backslash alone and makes escapes of its own, so both are escaped here.
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')


def _facts(studies: Sequence[StudyResult]) -> Iterator[MetricFamily]:
    records = [study.record for study in studies]
    yield MetricFamily(
        "tuner_study",
        "info",
        "A study, with its server, host and objective.",
        tuple(
            MetricSample(
                1,
                {
                    "study": study.record.name,
                    "status": study.status,
                    "objective": study.objective.text,
                    "server": study.record.server.name,
                    "server_version": study.record.server.version,
                    "host": study.record.host.hostname,
                    "tuner_version": study.record.tuner_version,
                },
            )
            for study in studies
        ),
    )
    for what, instants in (
        ("started", [record.started_unix_s for record in records]),
        ("ended", [record.ended_unix_s or math.nan for record in records]),
    ):
        yield MetricFamily(
            f"tuner_study_{what}_timestamp_seconds",
            "gauge",
            f"Time at which the study {what}, since the epoch.",
            tuple(
                MetricSample(instant, {"study": record.name})
                for record, instant in zip(records, instants, strict=True)
            ),
            unit="seconds",
        )
    yield MetricFamily(
        "tuner_verdict",
        "stateset",
        "Verdict of a study.",
        tuple(
            MetricSample(
                float(study.verdict.kind is kind),
                {"study": study.record.name, "tuner_verdict": str(kind)},
            )
            for study in studies
            if study.verdict is not None
            for kind in VerdictKind
        ),
    )


def _figures(studies: Sequence[StudyResult]) -> Iterator[MetricFamily]:
    found: dict[str, list[MetricSample]] = {}
    for study in studies:
        for each in arm_values(study):
            unit, factor = _UNITS.get(each.unit, ("", 1.0))
            labels = {"study": each.study, "arm": each.arm, "figure": each.figure}
            found.setdefault(unit, []).append(MetricSample(each.value * factor, labels))
    for unit, samples in found.items():
        name = f"tuner_figure_{unit}" if unit else "tuner_figure"
        words = "Figure of an arm over the blocks that count, by its name in the report."
        yield MetricFamily(name, "gauge", words, tuple(samples), unit)


def _changes(studies: Sequence[StudyResult]) -> Iterator[MetricFamily]:
    changes = [change for study in studies for change in figure_changes(study)]
    for name, words, attribute in (
        ("tuner_change_ratio", "Ratio of an arm's figure to that of another arm.", "ratio"),
        ("tuner_change_low_ratio", "Lower end of the ratio's confidence interval.", "low"),
        ("tuner_change_high_ratio", "Upper end of the ratio's confidence interval.", "high"),
    ):
        yield MetricFamily(
            name,
            "gauge",
            words,
            tuple(
                MetricSample(
                    getattr(change.estimate, attribute),
                    {
                        "study": change.study,
                        "arm": change.arm,
                        "against": change.against,
                        "figure": change.figure,
                    },
                )
                for change in changes
            ),
            unit="ratio",
        )
