"""``tuner studies``: list the shipped studies and those in this folder."""

from __future__ import annotations

import click
import msgspec

from tuner.app.outcomes import outcomes
from tuner.app.printing import print_json
from tuner.definition.experiment import list_experiments
from tuner.definition.study import list_studies
from tuner.paths import STUDIES
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
            "published": found.published.source if found.published else "",
        }
        for found in list_experiments()
    ]
    here = outcomes(STUDIES, lambda line: click.echo(line, err=True))
    if as_json:
        print_json(
            {"shipped": shipped, "experiments": experiments, "here": msgspec.to_builtins(here)}
        )
        return
    click.echo("Shipped (tuner optimize --study NAME):")
    for row in shipped:
        click.echo(f"  {row['name']:<20} {row['summary']}")
    click.echo("\nExperiments (tuner run NAME):")
    for known in list_experiments():
        servers = ", ".join(known.servers)
        click.echo(f"  {known.name:<28} {known.summary}; {servers}; {duration(known.time_s)}")
    click.echo("\nHere (tuner report NAME):" if here else f"\nHere: none in {STUDIES}/ yet")
    for outcome in here:
        say_fitted(f"  {outcome.name:<20} {outcome.kind:<12} {outcome.sentence}")
