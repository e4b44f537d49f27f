"""The tables of a study, the same in every form of its report: a head, and its rows.

A column of the report is added here, and to ``contest_tables`` for a contest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tuner.judge.arms import Figure
from tuner.judge.confirmation import Missing
from tuner.judge.results import StudyResult
from tuner.report.facts import baseline_names
from tuner.stats.words import p_in_words
from tuner.words.figures import UNKNOWN, figure, interval, ratio

FIGURES_HEAD = ("figure", "baseline", "tuned", "ratio", "95 % interval")
_RAW = ", raw"


def figure_rows(entries: Sequence[Figure]) -> list[tuple[str, ...]]:
    """Return figures of both arms, such as percentiles or resources."""
    return [
        (
            figure_name(entry),
            figure(entry.baseline, entry.unit),
            figure(entry.candidate, entry.unit),
            ratio(entry.ratio),
            interval(entry.change) if entry.change else UNKNOWN,
        )
        for entry in entries
    ]


def figure_name(entry: Figure) -> str:
    """Return the name of a figure in a report; a raw one of windows is not one of all requests."""
    if entry.whole or not entry.name.endswith(_RAW):
        return entry.name
    return f"{entry.name.removesuffix(_RAW)} of a typical window{_RAW}"


def p_column(entries: Sequence[Figure]) -> tuple[str, list[str]]:
    """Return the head and the cells of a column with the p-value of each figure.

    In a study that may stop early only the objective's counts the looks.
    """
    changes = [entry.change for entry in entries]
    kinds = {change.p_kind for change in changes if change}
    if len(kinds) == 1:
        return f"{kinds.pop()} p", [bare_p(c.p_value) if c else UNKNOWN for c in changes]
    cells = [f"{c.p_kind} {bare_p(c.p_value)}" if c else UNKNOWN for c in changes]
    return "p", cells


WANTED_HEAD = ("wanted", "verdict", "ratio or value", "95 % interval")


def wanted_rows(study: StudyResult) -> list[tuple[str, str, str, str]]:
    """Return each of two objectives and every constraint: name, verdict, figure, interval."""
    rows = []
    for claim in study.objectives:
        found = claim.verdict.estimate
        kind = f"{claim.verdict.kind} (adjusted {p_in_words(claim.adjusted_p)})"
        rows.append((claim.objective.words, kind, ratio(found.ratio), interval(found)))
    for limit in study.constraints:
        value, low, high = limit.figures
        rows.append((limit.constraint.text, limit.state, value, f"{low} to {high}"))
    return rows


FINALISTS_HEAD = ("finalist", "verdict", "ratio", "simultaneous 95 % interval", "p, Holm")


def finalist_rows(study: StudyResult) -> tuple[tuple[str, ...], ...]:
    """Return each of several finalists against the baseline."""
    return tuple(
        (
            entry.claim.arm,
            str(entry.verdict.kind),
            ratio(entry.verdict.estimate.ratio),
            interval(entry.verdict.estimate),
            bare_p(entry.adjusted_p),
        )
        for entry in study.finalists
    )


OTHERS_HEAD = ("tuned against", "verdict", "ratio", "simultaneous 95 % interval", "p, Holm")


def other_rows(study: StudyResult) -> list[tuple[str, ...]]:
    """Return the candidate against each further baseline, under ``OTHERS_HEAD``."""
    rows: list[tuple[str, ...]] = []
    for name, entry in zip(baseline_names(study)[1:], study.others, strict=False):
        if isinstance(entry, Missing):
            rows.append((name, entry.reason, "", "", ""))
            continue
        found = entry.verdict.estimate
        p_value = bare_p(entry.adjusted_p)
        rows.append((name, str(entry.verdict.kind), ratio(found.ratio), interval(found), p_value))
    return rows


LOOKS_HEAD = ("blocks", "e-value", "95 % interval, valid at any look")


def looks_words(study: StudyResult) -> str:
    """Return the words for the table of looks: the e-value that rejects, and the last interval."""
    protocol = study.record.protocol
    if protocol is None or not study.looks:
        return ""
    level = (protocol.looks_level or protocol.alpha) / len(protocol.candidates)
    words = f"an e-value of {1 / level:.3g} rejects “no difference”, whenever it is reached"
    if protocol.looks_level and study.looks[-1].blocks == protocol.blocks:
        return f"{words}; the last interval is that of the exact test"
    return words


def look_rows(study: StudyResult) -> list[tuple[str, ...]]:
    """Return what could be said after each block of a sequential confirmation."""
    return [
        (
            str(look.blocks),
            f"{look.e_value:.3g}",
            f"{ratio(look.low)} to {ratio(look.high)}" if look.high < math.inf else "none yet",
        )
        for look in study.looks
    ]


def bare_p(value: float) -> str:
    """Return a p for a column that says so: without ``p =``."""
    return p_in_words(value).removeprefix("p ").removeprefix("= ")
