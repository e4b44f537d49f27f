"""``tuner report``: write a study's report again from its record, or compare several studies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tuner.app import results
from tuner.app.document_file import write_document
from tuner.app.printing import print_json
from tuner.app.progress import TerminalProgress
from tuner.app.session import is_file_name, open_record
from tuner.cli import complete, options
from tuner.errors import DefinitionError
from tuner.judge.results import evaluate
from tuner.outputs.formats import DocumentFormat, document_choice
from tuner.paths import STUDIES
from tuner.record.model import Record
from tuner.report.data import as_data, schema
from tuner.report.tidy_columns import TableName

if TYPE_CHECKING:
    from tuner.report.pictures import Format

_EPILOG = """
\b
Examples:
  tuner report quickstart
  tuner report quickstart --json
  tuner report quickstart --charts svg
  tuner report quickstart --junit build/tuner.xml
  tuner report quickstart --format csv --table blocks --out blocks.csv
  tuner report nginx caddy
  tuner report studies/results/caddy-static/record.json.gz
"""


@click.command(epilog=_EPILOG)
@click.argument("names", nargs=-1, metavar="NAME...", shell_complete=complete.records)
@options.storage
@click.option(
    "--charts",
    type=click.Choice(["svg", "png"]),
    multiple=True,
    help="Write each chart to a file in charts/ too; may be repeated.",
)
@click.option(
    "--junit",
    metavar="FILE",
    type=Path,
    help="Write JUnit XML for a CI server.",
    shell_complete=complete.files,
)
@click.option(
    "--output",
    metavar="FOLDER",
    type=Path,
    help="Write to FOLDER [studies/NAME, or ./report-NAME for an exported record].",
    shell_complete=complete.folders,
)
@click.option("--schema", "as_schema", is_flag=True, help="Print the JSON schema of --json.")
@options.document
@options.output
def command(
    names: tuple[str, ...],
    *,
    storage: str | None,
    charts: tuple[Format, ...],
    junit: Path | None,
    output: Path | None,
    as_schema: bool,
    document: DocumentFormat | None,
    table: TableName | None,
    arm: str | None,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write report.html, report.md and best/ of the study NAME again, from its record alone.

    NAME may also be a run of several contests, or an exported record (record.json.gz), whose report
    goes to report-NAME/ in the current folder. Several names give one page that compares the
    studies: side-by-side.html and .md in the current folder, or in that of --output. With --format,
    prints one document for another tool and writes no report.
    """
    if as_schema:
        print_json(schema())
        return
    if not names:
        raise DefinitionError("name a study; 'tuner studies' lists those here", path="NAME")
    if (choice := document_choice(document, table, arm, out)) is not None:
        if charts or junit or output or as_json:
            raise DefinitionError(
                "prints one document; leave out --charts, --junit, --output and --json",
                path="--format",
            )
        write_document(choice, _records(names, storage))
        return
    progress = TerminalProgress(quiet=quiet)
    opened = _records(names, storage)
    records = [record for record, _ in opened]
    if len(opened) > 1 and not all(record.contest for record in records):
        _side_by_side(opened, output or Path(), junit, as_json=as_json)
        return
    folder = opened[0][1] if opened else STUDIES / names[0]
    if junit is not None and all(record.contest for record in records):
        raise DefinitionError(
            "a run makes no claim that could fail a build; use tuner compare --fail-if",
            path="--junit",
        )
    folder = output or folder
    studies = results.write(records, folder, progress) if records else []
    if charts and studies:
        results.draw(studies, folder / "charts", charts)
    results.show(studies, folder, as_json=as_json, junit=junit)


def _records(names: Sequence[str], storage: str | None) -> list[tuple[Record, Path]]:
    """Return the named records, or all of a run's contests, each with its folder."""
    folder = STUDIES / names[0]
    if storage is None and len(names) == 1 and results.is_run(folder, names[0]):
        return [(record, folder) for record in results.read_run(folder)]
    return [_open(name, storage) for name in names]


def _open(name: str, storage: str | None) -> tuple[Record, Path]:
    """Return the record and the report's folder of a study or of an exported record."""
    record = open_record(name, storage)
    if is_file_name(name):
        from tuner.export.run import safe

        # The file's folder may hold the report that was exported with it, and studies/ a study of
        # the same name.
        called = record.name.rpartition(".")[0] if record.contest else record.name
        return record, Path(f"report-{safe(called)}")
    return record, STUDIES / name


def _side_by_side(
    opened: list[tuple[Record, Path]], folder: Path, junit: Path | None, *, as_json: bool
) -> None:
    from tuner.report.side import render_side_html, render_side_markdown, side_lines

    studies = [evaluate(record) for record, _ in opened]
    if junit is not None:
        results.write_junit(studies, junit)
    written = results.write_files(
        folder,
        {
            "side-by-side.html": render_side_html(studies),
            "side-by-side.md": render_side_markdown(studies),
        },
    )
    if as_json:
        found = [as_data(study, own) for study, (_, own) in zip(studies, opened, strict=True)]
        print_json(found)
        return
    for line in side_lines(studies):
        click.echo(line)
    for path in written:
        click.echo(f"report   {path}")
