"""The outcome of a study or a contest for a terminal: verdicts, figures, changes, warnings."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tuner.judge.contest_results import ContestResult
from tuner.judge.results import StudyResult
from tuner.judge.taken_apart import (
    advice,
    recommended_changes,
)
from tuner.report.contest_tables import (
    LADDER_HEAD,
    REFUSED,
    arm_table,
    claims,
    ladder_rows,
    published_rows,
)
from tuner.report.facts import changes_title, scope
from tuner.report.standings import orders
from tuner.report.study_tables import (
    FIGURES_HEAD,
    OTHERS_HEAD,
    figure_rows,
    other_rows,
    wanted_rows,
)
from tuner.words.figures import PHASE_NAMES, setting

_ALSO_SHOWN = ("p50", "p99.9", "server CPU per request", "server memory (RSS)")


def result_lines(study: StudyResult, width: float = math.inf) -> list[str]:
    """Return the summary of a study or a contest without styling, the outcome or subject first.

    Args:
        study: the result.
        width: columns of the terminal, which tables keep to; sentences may be longer.
    """
    lines = [study.sentence]
    lines += [study.replication.sentence] if study.replication else []
    lines += [study.hosts.everywhere] if study.hosts else []
    for title, part in (
        *(_of_contest(study.contest, width) if study.contest else _of_study(study, width)),
        ("Please note", [f"- {warning}" for warning in study.warnings]),
        ("", [time_share(study)]),
    ):
        if any(part):
            lines += ["", *([title] if title else []), *(f"  {line}".rstrip() for line in part)]
    return lines


_Part = tuple[str, list[str]]
"""Title and lines."""


def _of_study(study: StudyResult, width: float) -> list[_Part]:
    wanted, others = wanted_rows(study), other_rows(study)
    return [
        ("", columns(wanted, width=width)),
        ("", [*_arms(study, width), scope(study)]),
        ("", columns([OTHERS_HEAD, *others], width=width) if others else []),
        (changes_title(study), _changes(study)),
        ("", advice(study)),
    ]


def _of_contest(result: ContestResult, width: float) -> list[_Part]:
    head, rows = arm_table(result)
    ladder = [LADDER_HEAD, *ladder_rows(result)] if result.climbs else []
    return [
        ("", columns([head, *rows], width=width)),
        (
            f"Ladder, limit {result.contest.limit}; knee where p99 is twice an idle server's",
            columns(ladder, width=width),
        ),
        ("Order (< and > : shown, = : equal, ~ : nothing shown)", orders(result)),
        ("Ratios with 95 % intervals, claims adjusted by Holm (~ : nothing shown)", claims(result)),
        ("Published", [f"{' '.join(row[:2])}: {row[2]}" for row in published_rows(result)]),
    ]


def time_share(study: StudyResult) -> str:
    """Return the share of time spent measuring, in words; empty before a search or a comparison."""
    parts = [
        f"{100 * time.share:.0f} % of the {PHASE_NAMES[time.phase]}"
        for time in study.times
        if time.phase in {"search", "confirm", "contest"} and time.elapsed_s > 0
    ]
    return f"Measuring took {' and '.join(parts)}." if parts else ""


def _arms(study: StudyResult, width: float) -> list[str]:
    shown = [
        entry
        for place, entry in enumerate(study.figures)
        if place == 0 or entry.whole or entry.name in _ALSO_SHOWN
    ]
    rows = [("", *FIGURES_HEAD[1:]), *figure_rows(shown)]
    return columns(rows, width=width) if shown else []


def _changes(study: StudyResult) -> list[str]:
    return columns(
        [
            (
                change.name,
                setting(change.baseline, change.unit),
                "→",
                setting(change.tuned, change.unit),
            )
            for change in recommended_changes(study)
        ]
    )


def columns(rows: Sequence[Sequence[str]], *, left: int = 1, width: float = math.inf) -> list[str]:
    """Return the rows of a table: the first ``left`` columns left-aligned, the others right.

    Columns that do not fit come in a further table, after the first column again. The
    reason of a refused arm takes the place of all its figures.
    """
    if not rows:
        return []
    whole = [row for row in rows if not _is_refusal(row)]
    widths = [max(map(len, column)) for column in zip(*whole, strict=True)]
    widths[0] = max(len(row[0]) for row in rows)
    parts: list[list[int]] = [[]]
    for place in range(1, len(widths)):
        taken = sum(len(_GAP) + widths[other] for other in (0, *parts[-1], place))
        if parts[-1] and taken > width:
            parts.append([])
        parts[-1].append(place)
    lines = []
    for number, part in enumerate(parts):
        lines += [""] * (number > 0)
        for row in rows:
            if _is_refusal(row):
                lines += [f"{row[0].ljust(widths[0])}{_GAP}{row[1]}"] * (number == 0)
                continue
            cells = (
                row[place].ljust(widths[place]) if place < left else row[place].rjust(widths[place])
                for place in (0, *part)
            )
            lines.append(_GAP.join(cells).rstrip())
    return lines


_GAP = "  "


def _is_refusal(row: Sequence[str]) -> bool:
    return any(cell.startswith(REFUSED) for cell in row[1:2])
