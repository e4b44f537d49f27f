"""The files and the final output of a command, for a study or a run of contests.

A study has a folder with a record of its name. A run has the records of its contests, and of the
searches for their arms, in one folder.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tuner import paths
from tuner.app.printing import print_json
from tuner.app.progress import RunProgress
from tuner.app.signing import signed
from tuner.app.writing import writing
from tuner.definition.study import StudyDefinition
from tuner.errors import HostError
from tuner.export import PATCH_NAME, export_files
from tuner.judge.contest import complete
from tuner.judge.contest_results import ContestResult
from tuner.judge.results import StudyResult, evaluate
from tuner.paths import has_record, inside
from tuner.record.check import reading
from tuner.record.model import Record
from tuner.report.data import results_data
from tuner.store.listing import list_names, open_all
from tuner.store.store import Store, sqlite_url
from tuner.words.terminal import output_width, say_fitted

if TYPE_CHECKING:
    from tuner.report.pictures import Format


class Kept:
    """The results of a command, once they have been written."""

    studies: Sequence[StudyResult] = ()

    @property
    def study(self) -> StudyResult:
        """The result of a command for a single study."""
        (found,) = self.studies
        return found


@contextlib.contextmanager
def kept(
    store: Store | None, folder: Path, progress: RunProgress, resume_with: str
) -> Iterator[Kept]:
    """Show progress, and always sign and write the results at the end of a command.

    It yields the results, which are empty until the end: a long record takes seconds to read.

    Args:
        store: record of the study; None for a run with its records in ``folder``.
        folder: folder of the results.
        progress: display of the progress.
        resume_with: command that resumes it; see ``resumption``.
    """
    found = Kept()

    def stores() -> list[Store]:
        return _stores(folder, writing=True) if store is None else [store]

    def written() -> None:
        records = read_run(folder) if store is None else [store.record_for_report()]
        if records:
            found.studies = write(records, folder, progress)

    try:
        with progress.live(), signed(stores, progress):
            yield found
    except BaseException:
        # A refused run has no files.
        if store is not None or has_record(folder):
            try:
                written()
            except Exception as error:  # noqa: BLE001 - what ended the command must not be hidden
                progress.note(f"the report could not be written: {error}; see 'tuner report'")
            progress.command(f"resume with: {resume_with}")
        raise
    written()


def resumption(definition: StudyDefinition, *command: str) -> str:
    """Return the command that resumes an interrupted study.

    Args:
        definition: definition of the study.
        command: command with the arguments that identify the study.
    """
    words = (*command, "--resume", "--name", definition.name)
    return same_storage(definition.storage, *words)


def same_storage(storage: str | None, *command: str) -> str:
    """Return a command line for a repetition, without the storage's URL.

    Args:
        storage: value of ``--storage``; its URL may have a password.
        command: command with its arguments.
    """
    line = shlex.join(["tuner", *command])
    return line if storage is None else f"{line}, and the same --storage"


def write(records: Sequence[Record], folder: Path, progress: RunProgress) -> list[StudyResult]:
    """Write report and configurations next to the record; safe to call on a partial record.

    Args:
        records: records of a study, or of a run's contests.
        folder: folder of the results.
        progress: display of the progress.
    """
    progress.note("writing the report")
    studies = [evaluate(record) for record in records]
    with reading(f"the record of {records[0].name!r}"):
        pages = _pages(studies)
    files = _configurations(studies)
    if not contests_of(studies):
        # Files of an earlier recommendation could be used by mistake.
        with writing(folder):
            for name in {PATCH_NAME, *export_files(studies[0], candidate=True)}:
                if f"best/{name}" not in files:
                    inside(folder, f"best/{name}").unlink(missing_ok=True)
    write_files(folder, {**pages, **files})
    return studies


def contests_of(studies: Iterable[StudyResult]) -> list[ContestResult]:
    """Return the contests among the results; empty for a study."""
    return [study.contest for study in studies if study.contest is not None]


def _pages(studies: Sequence[StudyResult]) -> dict[str, str]:
    from tuner.report.html import render_html
    from tuner.report.markdown import render_markdown

    return {"report.html": render_html(*studies), "report.md": render_markdown(*studies)}


def _configurations(studies: Sequence[StudyResult]) -> dict[str, str | bytes]:
    if contests := contests_of(studies):
        from tuner.export.run import run_files

        return {f"configurations/{name}": text for name, text in run_files(contests).items()}
    (study,) = studies
    if not study.has_recommendation:
        return {}
    return {f"best/{name}": text for name, text in export_files(study).items()}


def draw(studies: Sequence[StudyResult], folder: Path, formats: Sequence[Format]) -> None:
    """Write each chart to a file in every format."""
    from tuner.report.charts import for_files
    from tuner.report.pictures import write_pictures

    specs, titles = for_files(studies)
    with writing(folder):
        write_pictures(specs, titles, folder, formats)


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> list[Path]:
    """Write files by their names below a folder; return their paths.

    Raises:
        HostError: the folder is not writable.
        StoreError: a name leads out of the folder.
    """
    with writing(folder):
        return paths.write_files(folder, files)


def show(
    studies: Sequence[StudyResult], folder: Path, *, as_json: bool, junit: Path | None = None
) -> None:
    """Print the outcome, and write it for a CI server if asked.

    Args:
        studies: a study, or a run's contests.
        folder: folder of the results.
        as_json: whether to print JSON.
        junit: JUnit file to write.
    """
    if junit is not None:
        write_junit(studies, junit)
    with reading(f"the record of {studies[0].record.name!r}" if studies else "the records"):
        data = results_data(studies, folder) if as_json else None
        lines = _lines(studies)
    if data is not None:
        print_json(data)
        return
    for line in lines:
        say_fitted(line)
    click.echo(f"report   {folder / 'report.html'}")
    if contests_of(studies) or not studies:
        click.echo(f"config   {folder / 'configurations'}/")
    elif studies[0].has_recommendation:
        click.echo(f"config   {folder / 'best'}/")
    elif studies[0].verdict is not None:
        name = studies[0].record.name
        say_fitted(f"config   none is recommended; what was tried: tuner export {name} --candidate")


def _lines(studies: Sequence[StudyResult]) -> list[str]:
    """Return the results in words; an empty line follows each of several."""
    from tuner.report.text import result_lines

    found = [result_lines(study, output_width()) for study in studies]
    return found[0] if len(found) == 1 else [line for each in found for line in (*each, "")]


def write_junit(studies: Sequence[StudyResult], path: Path) -> None:
    """Write a JUnit file for a CI server."""
    from tuner.report.junit import render_junit

    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render_junit(studies), encoding="utf-8")


# --- runs of contests ----------------------------------------------------------------------------


def read_run(folder: Path) -> list[Record]:
    """Return the records of a run's contests, in the order of their start."""
    records = [store.record() for store in _stores(folder, writing=False)]
    found = [record for record in records if record.contest is not None]
    return sorted(found, key=lambda record: record.started_unix_s)


def names_in(folder: Path) -> list[str]:
    """Return the names of the studies in a folder; empty without a record."""
    return list_names(sqlite_url(folder)) if has_record(folder) else []


def is_run(folder: Path, name: str) -> bool:
    """Return whether a folder has a run of contests, and no study of its own name."""
    names = names_in(folder)
    return name not in names and any(other.startswith(f"{name}.") for other in names)


def check_run(records: Sequence[Record], command: str) -> None:
    """Raise HostError if a contest has planned blocks but no complete one.

    Args:
        records: records of the run.
        command: command that resumes the run with ``--resume``.
    """
    empty = [
        record.name
        for record in records
        if record.contest and record.contest.blocks and not complete(record.blocks)
    ]
    if empty:
        raise HostError(
            f"{', '.join(empty)}: no block is valid for all arms, so there is no comparison; the"
            f" report's warnings list the reasons; resume with: {command} --resume"
        )


def _stores(folder: Path, *, writing: bool) -> list[Store]:
    """Return all records of a folder."""
    url = sqlite_url(folder)
    return list(open_all(url, writing=writing)) if has_record(folder) else []
