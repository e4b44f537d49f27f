"""The outcome of a study for a terminal: what happened, what to change, what to know."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.judge.results import StudyResult
from tuner.judge.taken_apart import ablation_sentence
from tuner.report.facts import BESIDE_HEAD, beside_rows, changes_title, wanted_rows
from tuner.words.figures import PHASE_NAMES, figure, interval, ratio, setting

_ALSO_SHOWN = ("p50", "p99.9", "server CPU per request", "server memory (RSS)")


def verdict_lines(study: StudyResult) -> list[str]:
    """Return the summary as lines without styling; the first one is the outcome in one sentence."""
    lines = [study.sentence]
    lines += [study.replication.sentence] if study.replication else []
    lines += [study.hosts.everywhere] if study.hosts else []
    for title, part in (
        ("", columns(wanted_rows(study)) if wanted_rows(study) else []),
        ("", _arms(study)),
        ("", columns([BESIDE_HEAD, *beside_rows(study)]) if study.beside else []),
        (changes_title(study), _changes(study)),
        ("", [ablation_sentence(study)]),
        ("Please note", [f"- {warning}" for warning in study.warnings]),
        ("", [time_share(study)]),
    ):
        if any(part):
            lines += ["", *([title] if title else []), *(f"  {line}" for line in part)]
    return lines


def time_share(study: StudyResult) -> str:
    """Return the share of time spent measuring, in words; empty before search and confirmation."""
    parts = [
        f"{100 * time.share:.0f} % of the {PHASE_NAMES[time.phase]}"
        for time in study.times
        if time.phase in {"search", "confirm"} and time.elapsed_s > 0
    ]
    return f"Measuring took {' and '.join(parts)}." if parts else ""


def _arms(study: StudyResult) -> list[str]:
    shown = [
        entry
        for place, entry in enumerate(study.figures)
        if place == 0 or entry.name in _ALSO_SHOWN
    ]
    rows: list[tuple[str, ...]] = [("", "baseline", "tuned", "ratio", "95 % interval")]
    rows += [
        (
            entry.name,
            figure(entry.baseline, entry.unit),
            figure(entry.candidate, entry.unit),
            ratio(entry.change.ratio) if entry.change else "",
            interval(entry.change) if entry.change else "",
        )
        for entry in shown
    ]
    return columns(rows) if shown else []


def _changes(study: StudyResult) -> list[str]:
    return columns(
        [
            (change.name, setting(change.baseline), "→", setting(change.tuned))
            for change in study.changes
        ]
    )


def columns(rows: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """Return the rows of a table: the first ``left`` columns left-aligned, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
