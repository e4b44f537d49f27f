"""``tuner export``: the configuration that a study recommends."""

from __future__ import annotations

from pathlib import Path

import click

from tuner.cli import results
from tuner.cli.session import STUDIES, open_store
from tuner.report.result import evaluate

_EPILOG = """
\b
Examples:
  tuner export quickstart
  tuner export quickstart --output /tmp/nginx
  tuner export quickstart --candidate
  tuner export quickstart --minimal
"""


@click.command(epilog=_EPILOG)
@click.argument("name")
@click.option("--storage", metavar="URL", help="Optuna storage [SQLite in studies/NAME/].")
@click.option("--output", metavar="FOLDER", type=Path, help="Where to write [studies/NAME/best].")
@click.option("--candidate", is_flag=True, help="The candidate, even if not shown to be better.")
@click.option("--minimal", is_flag=True, help="Only what `tuner ablate` found to be needed.")
def command(
    name: str, *, storage: str | None, output: Path | None, candidate: bool, minimal: bool
) -> None:
    """Write the configuration that the study NAME recommends.

    That is the tuned one if the verdict is "better", and the baseline otherwise. With --minimal it
    is the smallest difference that keeps the gain, in a folder of its own (studies/NAME/minimal).
    """
    study = evaluate(open_store(name, storage).record())
    folder = output or STUDIES / name / ("minimal" if minimal else "best")
    for path in results.write_export(study, folder, candidate=candidate, minimal=minimal):
        click.echo(path)
