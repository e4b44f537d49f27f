"""Sections of a study in every form of its report: hosts, finalists, baselines, ablation."""

from __future__ import annotations

from tuner.judge.results import StudyResult
from tuner.judge.taken_apart import (
    HEAD,
    ablation_note,
    ablation_rows,
    ablation_sentence,
    left_out_sentence,
)
from tuner.report.hosts_section import hosts_section
from tuner.report.section import Section, Table
from tuner.report.study_tables import FINALISTS_HEAD, OTHERS_HEAD, finalist_rows, other_rows


def study_sections(study: StudyResult) -> list[Section]:
    """Return the sections that the study has figures for."""
    found = (hosts_section(study), _finalists(study), _other_baselines(study), _ablation(study))
    return [section for section in found if section is not None]


def _finalists(study: StudyResult) -> Section | None:
    if not study.finalists:
        return None
    table = Table(
        FINALISTS_HEAD, finalist_rows(study), coded=True, claimed=(study.candidate or "",)
    )
    lead = (
        "Confirmed in the same blocks. The intervals hold for all of them at once, so the best may"
        " be picked; p is adjusted by Holm for their number."
    )
    return Section("Finalists", "finalists", lead, tables=(table,))


def _other_baselines(study: StudyResult) -> Section | None:
    rows = tuple(other_rows(study))
    if not rows:
        return None
    lead = (
        "Measured in the same blocks. Secondary claims: p is adjusted by Holm for their number, and"
        " the intervals hold at once."
    )
    table = Table(OTHERS_HEAD, rows)
    return Section("Against the other baselines", "baselines", lead, "Baselines", tables=(table,))


def _ablation(study: StudyResult) -> Section | None:
    if study.ablation is None:
        return None
    rows = tuple(row.cells for row in ablation_rows(study))
    notes = (ablation_note(study) if rows else "", left_out_sentence(study))
    return Section(
        "Why it won",
        "ablation",
        ablation_sentence(study),
        "Why",
        tables=(Table(HEAD, rows, coded=True),) if rows else (),
        notes=tuple(note for note in notes if note),
    )
