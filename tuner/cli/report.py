"""``tuner report``: a study's report again, from its record alone."""

from __future__ import annotations

import click

from tuner.cli import results
from tuner.cli.options import output
from tuner.cli.progress import TerminalProgress
from tuner.cli.session import STUDIES, open_store

_EPILOG = """
\b
Examples:
  tuner report quickstart
  tuner report quickstart --json
"""


@click.command(epilog=_EPILOG)
@click.argument("name")
@click.option("--storage", metavar="URL", help="Optuna storage [SQLite in studies/NAME/].")
@output
def command(name: str, storage: str | None, as_json: bool, quiet: bool) -> None:
    """Write report.html, report.md and best/ of the study NAME again, from its record alone."""
    folder = STUDIES / name
    record = open_store(name, storage).record()
    results.write(record, folder, TerminalProgress(quiet=quiet))
    results.show(record, folder, as_json=as_json)
