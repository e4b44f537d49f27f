"""Files that a study leaves behind: report and export, and its last words."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from tuner import paths
from tuner.app.printing import print_json
from tuner.app.progress import TerminalProgress
from tuner.app.signing import signed
from tuner.app.writing import writing
from tuner.definition.study import StudyDefinition
from tuner.export import PATCH_NAME, export_files
from tuner.judge.results import StudyResult, evaluate
from tuner.paths import inside
from tuner.record.check import reading
from tuner.record.model import Record
from tuner.report.data import as_data
from tuner.store.store import Store


@contextlib.contextmanager
def kept(store: Store, folder: Path, progress: TerminalProgress, again: str) -> Iterator[None]:
    """Show how the study goes, and write report and export when it ends, however it ends.

    Args:
        store: its record.
        folder: of its results.
        progress: where it is shown.
        again: the command that resumes it; see ``resumption``.
    """
    try:
        with progress.live(), signed(store, progress):
            yield
    except BaseException:
        try:
            write(store.record(), folder, progress)
        except Exception as error:  # noqa: BLE001 - what ended the study must not be hidden
            progress.note(f"the report could not be written: {error}; see 'tuner report'")
        progress.command(f"go on with: {again}")
        raise
    write(store.record(), folder, progress)


def resumption(definition: StudyDefinition, *command: str) -> str:
    """Return the command that resumes an interrupted study.

    Args:
        definition: of the study.
        command: with the arguments by which it is found again.
    """
    words = (*command, "--resume", "--name", definition.name)
    return same_storage(definition.storage, *words)


def same_storage(storage: str | None, *command: str) -> str:
    """Return a command line to be run again, without the storage's URL.

    Args:
        storage: as given by ``--storage``; its URL may hold a password.
        command: with its arguments.
    """
    line = shlex.join(["tuner", *command])
    return line if storage is None else f"{line}, and the same --storage"


def write(record: Record, folder: Path, progress: TerminalProgress) -> StudyResult:
    """Write report and export next to the record; safe to call on a partial record."""
    from tuner.report.html import render_html
    from tuner.report.markdown import render_markdown

    progress.note("writing the report")
    study = evaluate(record)
    with reading(f"the record of {record.name!r}"):
        pages = {"report.html": render_html(study), "report.md": render_markdown(study)}
    files = export_files(study)
    # A patch that an earlier recommendation left would be applied by mistake.
    if PATCH_NAME not in files:
        with writing(folder):
            inside(folder, f"best/{PATCH_NAME}").unlink(missing_ok=True)
    write_files(folder, {**pages, **{f"best/{name}": text for name, text in files.items()}})
    return study


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> list[Path]:
    """Write files by their names below a folder; return their paths.

    Raises:
        HostError: the folder cannot be written to.
        StoreError: a name leads out of the folder.
    """
    with writing(folder):
        return paths.write_files(folder, files)


def show(record: Record, folder: Path, *, as_json: bool, junit: Path | None = None) -> StudyResult:
    """Say the outcome on standard output, and to a CI server if asked."""
    from tuner.report.text import verdict_lines

    study = evaluate(record)
    if junit is not None:
        write_junit([study], junit)
    with reading(f"the record of {record.name!r}"):
        data = as_data(study, folder) if as_json else None
        lines = verdict_lines(study)
    if data is not None:
        print_json(data)
        return study
    for line in lines:
        click.echo(line)
    click.echo(f"report   {folder / 'report.html'}")
    if (folder / "best").is_dir():
        click.echo(f"config   {folder / 'best'}/")
    return study


def write_junit(studies: list[StudyResult], path: Path) -> None:
    """Write what a CI server reads."""
    from tuner.report.junit import render_junit

    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render_junit(studies), encoding="utf-8")
