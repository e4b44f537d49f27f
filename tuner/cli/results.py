"""What a study leaves behind: report, export, and what is said at the end."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tuner.cli.progress import TerminalProgress
from tuner.export import export_files
from tuner.record import Record
from tuner.report.result import StudyResult, evaluate
from tuner.store import Store


@contextlib.contextmanager
def kept(store: Store, folder: Path, progress: TerminalProgress) -> Iterator[None]:
    """Write report and export when the study ends, however it ends."""
    try:
        yield
    except BaseException:
        try:
            write(store.record(), folder, progress)
        except Exception as error:  # noqa: BLE001 - what ended the study must not be hidden
            progress.note(f"the report could not be written: {error}; see 'tuner report'")
        raise
    write(store.record(), folder, progress)


def write(record: Record, folder: Path, progress: TerminalProgress) -> None:
    """Write report and export beside the record; safe to call on a partial record."""
    from tuner.report.html import render_html
    from tuner.report.markdown import render_markdown

    progress.note("writing the report")
    study = evaluate(record)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.html").write_text(render_html(study), encoding="utf-8")
    (folder / "report.md").write_text(render_markdown(study), encoding="utf-8")
    write_export(study, folder / "best")


def write_export(
    study: StudyResult, folder: Path, *, candidate: bool = False, minimal: bool = False
) -> list[Path]:
    """Write the configuration to be used; the paths written."""
    written = []
    for name, text in export_files(study, candidate=candidate, minimal=minimal).items():
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / name
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def show(record: Record, folder: Path, *, as_json: bool) -> StudyResult:
    """Say the outcome on standard output."""
    from tuner.report.text import verdict_lines

    study = evaluate(record)
    if as_json:
        click.echo(json.dumps(as_data(study, folder), indent=2))
        return study
    for line in verdict_lines(study):
        click.echo(line)
    click.echo(f"report   {folder / 'report.html'}")
    if (folder / "best").is_dir():
        click.echo(f"config   {folder / 'best'}/")
    return study


def as_data(study: StudyResult, folder: Path) -> dict[str, Any]:
    """The outcome for scripts; figures that are not there are null."""
    verdict, found = study.verdict, study.estimate
    return {
        "schema_version": study.record.schema_version,
        "study": study.record.name,
        "status": study.status,
        "sentence": study.sentence,
        "objective": study.objective.text,
        "verdict": str(verdict.kind) if verdict else None,
        "ratio": found.ratio if found else None,
        "ratio_low": found.low if found else None,
        "ratio_high": _finite(found.high) if found else None,
        "p_value": found.p_value if found else None,
        "blocks": found.n if found else 0,
        "objectives": [
            {
                "objective": claim.objective.text,
                "verdict": str(claim.verdict.kind),
                "ratio": claim.verdict.estimate.ratio,
                "ratio_low": claim.verdict.estimate.low,
                "ratio_high": _finite(claim.verdict.estimate.high),
                "adjusted_p": claim.adjusted_p,
            }
            for claim in study.objectives
        ],
        "constraints": [
            {
                "constraint": claim.constraint.text,
                "state": claim.state,
                "value": _finite(claim.value),
                "low": _finite(claim.low),
                "high": _finite(claim.high),
            }
            for claim in study.constraints
        ],
        "always_valid": found.always_valid if found else None,
        "finalists": [
            {
                "candidate": entry.digest,
                "verdict": str(entry.verdict.kind),
                "ratio": entry.verdict.estimate.ratio,
                "ratio_low": entry.verdict.estimate.low,
                "ratio_high": _finite(entry.verdict.estimate.high),
                "p_value_holm": entry.adjusted_p,
            }
            for entry in study.finalists
        ],
        "beside": [
            {
                "baseline": entry.baseline,
                "verdict": str(entry.verdict.kind) if entry.verdict else None,
                "ratio": entry.verdict.estimate.ratio if entry.verdict else None,
                "ratio_low": entry.verdict.estimate.low if entry.verdict else None,
                "ratio_high": _finite(entry.verdict.estimate.high) if entry.verdict else None,
                "p_value_holm": _finite(entry.adjusted_p),
                "blocks_failed": entry.failed,
                "reason": entry.reason or None,
            }
            for entry in study.beside
        ],
        "margin": verdict.margin if verdict else None,
        "minimum_detectable_effect": verdict.minimum_detectable_effect if verdict else None,
        "baseline": study.record.baseline,
        "candidate": study.candidate,
        "changes": [
            {"parameter": change.name, "baseline": change.baseline, "tuned": change.tuned}
            for change in study.changes
        ],
        "replicated": study.replication.agrees if study.replication else None,
        "warnings": list(study.warnings),
        "record": str(folder / "record.db"),
        "report": str(folder / "report.html"),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
