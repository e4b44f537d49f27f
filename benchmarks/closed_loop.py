"""A closed loop against wrk's: requests per second, and CPU time per request.

Both have one thread on the same core and the same server, in alternating pairs. CPU time is that of
the whole process, as the kernel counts it; the requests are those of the whole run, without a
warm-up.

    python -m benchmarks.closed_loop --peers DIR
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass

import click

from benchmarks import finding, options, peers
from benchmarks.finding import Finding, at_least, at_most, median_of
from benchmarks.lab import CONNECTIONS, Lab, open_lab
from tuner.paths import loadgen_binary

PAIRS = 6
DURATION_S = 5


@dataclass(frozen=True, slots=True)
class Run:
    """A run of one tool."""

    per_s: float
    cpu_us: float
    """CPU time per request."""


def run(lab: Lab, chosen: options.Options) -> list[Finding]:
    """Compare the tools in pairs, with a different tool first in each pair.

    Raises:
        click.ClickException: a tool failed.
    """
    program = peers.find("wrk", chosen.peers_dir)
    if program is None:
        click.echo("(wrk is neither in --peers nor on the PATH: left out)")
    pairs, duration_s = chosen.runs or PAIRS, chosen.duration_s or DURATION_S
    ours: list[Run] = []
    theirs: list[Run] = []
    for index in range(pairs):
        for ours_next in (True, False) if index % 2 == 0 else (False, True):
            if ours_next:
                ours.append(_ours(lab, duration_s))
            elif program is not None:
                theirs.append(_wrk(lab, program, duration_s))
    click.echo(
        f"Closed loop, one thread, {CONNECTIONS} connections, {pairs} pairs of {duration_s} s"
    )
    for name, runs in (("ours", ours), ("wrk", theirs)):
        if runs:
            per_s = statistics.median(run.per_s for run in runs)
            cpu_us = statistics.median(run.cpu_us for run in runs)
            click.echo(
                f"  {name:6} {per_s:9.0f} requests/s   {cpu_us:6.2f} µs of CPU each (medians)"
            )
    if not theirs:
        return []
    couples = list(zip(ours, theirs, strict=True))
    return [
        median_of(
            "closed loop: requests/s, ours / wrk",
            [our.per_s / its.per_s for our, its in couples],
            aim=at_least(1.0),
        ),
        median_of(
            "closed loop: CPU time per request, ours / wrk",
            [our.cpu_us / its.cpu_us for our, its in couples],
            aim=at_most(1.0),
        ),
    ]


def _ours(lab: Lab, duration_s: int) -> Run:
    outcome = lab.run(
        [
            *(str(loadgen_binary()), "run", lab.url, "--closed", "--json"),
            *("-c", str(CONNECTIONS), "-d", str(duration_s), "-w", "0"),
            *("--cpu", str(lab.cores.generator[0])),
        ]
    )
    window = json.loads(outcome.text.splitlines()[0])
    if window["errors"] or window["timeouts"]:
        raise click.ClickException(f"requests failed: {window['errors']}")
    return Run(
        window["completed"] / window["duration_s"], outcome.cpu_s / window["completed"] * 1e6
    )


def _wrk(lab: Lab, program: str, duration_s: int) -> Run:
    outcome = lab.run([program, *peers.wrk_arguments(lab.url, duration_s)])
    try:
        count, seconds = peers.read_wrk(outcome.text)
    except ValueError as error:
        raise click.ClickException(f"unexpected output of wrk:\n{outcome.text}") from error
    return Run(count / seconds, outcome.cpu_s / count * 1e6)


@click.command()
@options.common
def main(chosen: options.Options) -> None:
    """Compare a closed loop with wrk's."""
    with open_lab() as lab:
        finding.show(run(lab, chosen))


if __name__ == "__main__":
    main()
