"""Several studies side by side: a table, and their ratios with intervals in one picture.

Each ratio is against the study's own baseline under its own workload, so the picture says which
studies gained, not which configuration is the best of all. Where the studies differ in what they
must share to be compared, the page says so first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tuner.judge.results import StudyResult
from tuner.report.apart import apart
from tuner.report.facts import baseline_name
from tuner.report.html import page
from tuner.report.markdown import document, plain, plain_table
from tuner.report.text import columns
from tuner.words.figures import UNKNOWN, figure, interval, moment, ratio

HEAD = (
    *("study", "verdict", "ratio", "95 % interval", "baseline", "tuned", "blocks"),
    *("objective", "server", "workload", "host", "begun"),
)


def rows(studies: Sequence[StudyResult]) -> list[tuple[str, ...]]:
    """Return a row for every study under ``HEAD``."""
    return [_row(study) for study in studies]


def differences(studies: Sequence[StudyResult]) -> list[str]:
    """In what the studies differ that makes their ratios different questions; empty if nothing."""
    found = []
    for name, of in _SHARED:
        values = list(dict.fromkeys(of(study) for study in studies))
        if len(values) > 1:
            found.append(f"The {name} differs: {', '.join(values)}.")
    return found


def side_lines(studies: Sequence[StudyResult]) -> list[str]:
    """Return the table for a terminal, without what is too wide for one."""
    shown = [HEAD[:7], *(row[:7] for row in rows(studies))]
    lines = columns(shown, left=2)
    notes = differences(studies)
    return [*lines, "", *notes] if notes else lines


def render_side_markdown(studies: Sequence[StudyResult]) -> str:
    """Return the studies side by side as Markdown."""
    parts = [
        "# Studies side by side",
        plain_table(HEAD, rows(studies)),
        *(f"- {plain(line)}" for line in differences(studies)),
        f"*{_NOTE}*",
    ]
    return document(parts)


def render_side_html(studies: Sequence[StudyResult]) -> str:
    """Return the studies side by side as one self-contained HTML file."""
    chart = apart("tuner.report.charts_of_studies", "forest_chart", studies)
    specs = {} if chart is None else {"forest": chart}
    context = {
        "sections": [("table", "Table"), ("single", "Single studies")],
        "head": HEAD,
        "rows": [
            (study.verdict.kind.value if study.verdict else "none", row)
            for study, row in zip(studies, rows(studies), strict=True)
        ],
        "differences": differences(studies),
        "note": _NOTE,
        "studies": studies,
    }
    return page("side.html.j2", specs, context)


_NOTE = (
    "Each ratio is tuned ÷ baseline of its own study. The intervals are not adjusted for the number"
    " of studies."
)


def _row(study: StudyResult) -> tuple[str, ...]:
    found = study.estimate
    # Over several hosts the ratio is their mean, and the figures are those of one.
    claim = study.figures[0] if study.figures and not study.hosts else None
    record = study.record
    return (
        record.name,
        str(study.verdict.kind) if study.verdict else f"none: {study.status}",
        ratio(found.ratio) if found else UNKNOWN,
        interval(found) if found else UNKNOWN,
        figure(claim.baseline, claim.unit) if claim else UNKNOWN,
        figure(claim.candidate, claim.unit) if claim else UNKNOWN,
        str(found.n) if found else "0",
        study.goals.words,
        record.server.words,
        str(record.definition.get("workload", UNKNOWN)),
        record.host.hostname,
        moment(record.started_unix_s)[:10],
    )


def _rate(study: StudyResult) -> str:
    calibration = study.record.calibration
    return figure(calibration.rate_per_s if calibration else math.nan, "/s")


_SHARED: tuple[tuple[str, Callable[[StudyResult], str]], ...] = (
    ("objective", lambda study: study.goals.words),
    ("server", lambda study: study.record.server.words),
    ("workload", lambda study: str(study.record.definition.get("workload", UNKNOWN))),
    ("baseline", baseline_name),
    ("host", lambda study: study.record.host.hostname),
    ("offered rate", _rate),
)
