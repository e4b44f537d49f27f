"""All benchmarks, with a summary of their findings; ``make bench`` runs this."""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks import (
    accuracy,
    closed_loop,
    finding,
    frugality,
    many_cores,
    options,
    overhead,
    stalls,
)
from benchmarks.lab import open_lab, setting


@click.command()
@options.common
@options.study
def main(chosen: options.Options, study: Path | None) -> None:
    """Run all benchmarks on this machine, which should do nothing else meanwhile."""
    where = setting()
    click.echo(where)
    found = accuracy.run_all(chosen, list(accuracy.WIRES))
    with open_lab() as lab:
        for title, benchmark in (
            ("Closed loop", closed_loop.run),
            ("Frugality", frugality.run),
            ("Stalls", stalls.run),
        ):
            click.secho(f"\n{title}", bold=True)
            try:
                found += benchmark(lab, chosen)
            except click.ClickException as error:
                # The findings of the others took minutes and must not be lost.
                click.echo(f"({title}: {error.message})")
    click.secho("\nMany cores", bold=True)
    try:
        found += many_cores.run(chosen)
    except click.ClickException as error:
        click.echo(f"(Many cores: {error.message})")
    click.secho("\nOverhead of the Python side", bold=True)
    found += overhead.run(chosen, study)
    click.secho(f"\nSummary: medians of ratios within a run, with their range\n{where}", bold=True)
    finding.show(found)


if __name__ == "__main__":
    main()
