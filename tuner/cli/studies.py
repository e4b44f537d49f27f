"""``tuner studies``: list the shipped studies and those in this folder."""

from __future__ import annotations

from pathlib import Path

import click

from tuner.app.printing import print_json
from tuner.app.session import STUDIES
from tuner.definition.experiment import list_experiments
from tuner.definition.study import list_studies
from tuner.errors import TunerError
from tuner.judge.kinds import kind_of
from tuner.judge.results import evaluate
from tuner.record.check import reading
from tuner.record.model import Record
from tuner.store.store import Store, list_names, sqlite_url
from tuner.words.terminal import duration, say_fitted


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(as_json: bool) -> None:
    """List the shipped studies and experiments, and the results in studies/ of this folder.

    Lists an unreadable record with the reason and still exits with code 0.
    """
    shipped = [{"name": s.name, "summary": s.summary} for s in list_studies()]
    experiments = [
        {
            "name": found.name,
            "summary": found.summary,
            "servers": list(found.servers),
            "cases": [case.name for case in found.cases],
            "time_s": found.time_s,
            "published": found.published.source,
        }
        for found in list_experiments()
    ]
    here = [
        outcome
        for record in sorted(STUDIES.glob("*/record.db"))
        for outcome in _outcomes(record.parent)
    ]
    if as_json:
        print_json({"shipped": shipped, "experiments": experiments, "here": here})
        return
    click.echo("Shipped (tuner optimize --study NAME):")
    for row in shipped:
        click.echo(f"  {row['name']:<20} {row['summary']}")
    click.echo("\nPublished experiments (tuner run NAME):")
    for known in list_experiments():
        servers = ", ".join(known.servers)
        click.echo(f"  {known.name:<28} {known.summary}; {servers}; {duration(known.time_s)}")
    click.echo("\nHere (tuner report NAME):" if here else f"\nHere: none in {STUDIES}/ yet")
    for row in here:
        say_fitted(f"  {row['name']:<20} {row['kind']:<12} {row['sentence']}")


def _outcomes(folder: Path) -> list[dict[str, str]]:
    """Return the outcomes of the studies in a folder; an unreadable record is one outcome."""
    url = sqlite_url(folder)
    try:
        names = list_names(url)
    except TunerError as error:
        return [_unreadable(folder.name, error)]
    return [_outcome(name, url) for name in names]


def _unreadable(name: str, error: TunerError) -> dict[str, str]:
    return {"name": name, "kind": "unknown", "status": "unreadable", "sentence": str(error)}


def _outcome(name: str, url: str) -> dict[str, str]:
    """Return a study's outcome; an unreadable one does not hide the others."""
    try:
        record = Store.open(url, name, writing=False).record()
        with reading(f"the record of {name!r}"):
            kind = kind_of(record)
            status, sentence = _status(record)
    except TunerError as error:
        return _unreadable(name, error)
    return {"name": name, "kind": kind, "status": status, "sentence": sentence}


def _status(record: Record) -> tuple[str, str]:
    """Return the status of a record, and its outcome in a sentence."""
    study = evaluate(record)
    return study.status, study.sentence
