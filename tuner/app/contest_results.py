"""Files that a run of contests leaves behind: reports and exports, and its last words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from tuner.app.printing import print_json
from tuner.app.progress import TerminalProgress
from tuner.app.results import write_files
from tuner.app.signing import signed
from tuner.errors import HostError
from tuner.judge.contest import complete
from tuner.judge.contest_results import evaluate_contest
from tuner.record.model import Record
from tuner.report.contest import contest_data, text_lines
from tuner.store.store import Store, list_names, sqlite_url
from tuner.words.terminal import fitted, output_width


def read(folder: Path) -> list[Record]:
    """The records of the contests in a run's folder, in the order in which they were begun."""
    url = sqlite_url(folder)
    records = [Store.open(url, name, writing=False).record() for name in list_names(url)]
    found = [record for record in records if record.contest is not None]
    return sorted(found, key=lambda record: record.started_unix_s)


def is_run(folder: Path, name: str) -> bool:
    """Return whether a folder holds a run of contests and no study of its own name."""
    if not (folder / "record.db").is_file():
        return False
    names = list_names(sqlite_url(folder))
    return name not in names and any(other.startswith(f"{name}.") for other in names)


def write(folder: Path, progress: TerminalProgress) -> list[Record]:
    """Write report and configurations next to the record; safe to call on a partial one."""
    records = read(folder)
    if records:
        write_pages(records, folder, progress)
    return records


def write_pages(records: Sequence[Record], folder: Path, progress: TerminalProgress) -> None:
    """Write report and configurations of a run, whose records there are some of."""
    from tuner.export.run import run_files
    from tuner.report.contest_pages import contest_html, contest_markdown

    progress.note("writing the report")
    results = [evaluate_contest(record) for record in records]
    pages = {"report.html": contest_html(results), "report.md": contest_markdown(results)}
    files = {f"configurations/{name}": text for name, text in run_files(results).items()}
    write_files(folder, {**pages, **files})


@contextlib.contextmanager
def kept(folder: Path, progress: TerminalProgress, again: str) -> Iterator[None]:
    """Show how a run goes, and write what was measured when it ends, however it ends.

    Args:
        folder: of the run.
        progress: where it is shown.
        again: the command that resumes it.
    """
    try:
        with progress.live(), _signed(folder, progress):
            yield
    except BaseException:
        try:
            # A run that was refused has left nothing.
            if (folder / "record.db").is_file():
                write(folder, progress)
                progress.command(f"go on with: {again} --resume --name {folder.name}")
        except Exception as error:  # noqa: BLE001 - what ended the run must not be hidden
            progress.note(f"the report could not be written: {error}; see 'tuner report'")
        raise
    write(folder, progress)


@contextlib.contextmanager
def _signed(folder: Path, progress: TerminalProgress) -> Iterator[None]:
    """Sign every record of a run when it ends, however it ends."""
    try:
        yield
    finally:
        url = sqlite_url(folder)
        for name in list_names(url) if (folder / "record.db").is_file() else ():
            with signed(Store.open(url, name), progress):
                pass


def show(records: Sequence[Record], folder: Path, *, as_json: bool) -> None:
    """Say the outcome on standard output."""
    if as_json:
        print_json(as_data(records, folder))
        return
    width = output_width()
    for record in records:
        for line in text_lines(evaluate_contest(record), width):
            for part in fitted(line, width):
                click.echo(part)
        click.echo("")
    click.echo(f"report   {folder / 'report.html'}")
    click.echo(f"config   {folder / 'configurations'}/")


def check(records: Sequence[Record], again: str) -> None:
    """That every contest has something to compare.

    Args:
        records: of the run.
        again: the command that resumes it.

    Raises:
        HostError: one has planned blocks, and none of them is there.
    """
    empty = [
        record.name
        for record in records
        if record.contest and record.contest.blocks and not complete(record.blocks)
    ]
    if empty:
        raise HostError(
            f"{', '.join(empty)}: no block of all arms was valid, so nothing is compared; the"
            f" report's warnings say why. Go on with: {again} --resume"
        )


def as_data(records: Sequence[Record], folder: Path) -> dict[str, Any]:
    """Return the outcome for scripts."""
    return {
        "contests": [contest_data(evaluate_contest(record)) for record in records],
        "record": str(folder / "record.db"),
        "report": str(folder / "report.html"),
    }
