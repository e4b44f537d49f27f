"""``tuner studies``: those that ship with tuner, and those in this folder."""

from __future__ import annotations

import json

import click

from tuner.cli.session import STUDIES, open_store
from tuner.errors import TunerError
from tuner.report.result import evaluate
from tuner.store import list_names, sqlite_url
from tuner.study import list_studies


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(as_json: bool) -> None:
    """List the studies that ship with tuner, and the results in studies/ of this folder."""
    shipped = [{"name": s.name, "summary": s.summary} for s in list_studies()]
    here = [
        _outcome(name)
        for record in sorted(STUDIES.glob("*/record.db"))
        for name in list_names(sqlite_url(record.parent))
    ]
    if as_json:
        click.echo(json.dumps({"shipped": shipped, "here": here}, indent=2))
        return
    click.echo("Shipped (tuner optimize --study NAME):")
    for row in shipped:
        click.echo(f"  {row['name']:<20} {row['summary']}")
    click.echo("\nHere (tuner report NAME):" if here else f"\nHere: none in {STUDIES}/ yet")
    for row in here:
        click.echo(f"  {row['name']:<20} {row['sentence']}")


def _outcome(name: str) -> dict[str, str]:
    """A study's outcome; one that cannot be read must not hide the others."""
    try:
        study = evaluate(open_store(name, None).record())
    except TunerError as error:
        return {"name": name, "status": "unreadable", "sentence": str(error)}
    return {"name": name, "status": study.status, "sentence": study.sentence}
