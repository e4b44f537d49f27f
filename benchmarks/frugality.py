"""The CPU time and memory of the generator without a core of its own.

The CPU time per request is measured at a fixed rate, with sleeping instead of spinning, in turn
with wrk2. It is the kernel's figure for the whole process, with warm-up and calibration. wrk2 wakes
once a millisecond and sends all requests that are due. Ours does the same with `every:1000`, which
is compared with wrk2; with `off` it wakes for each request on time, which is shown for information.
Memory is the peak with many open connections, each with few requests.

    python -m benchmarks.frugality --peers DIR
"""

from __future__ import annotations

import json
import re
import statistics

import click

from benchmarks import finding, options, peers
from benchmarks.finding import Finding, at_most, median_of
from benchmarks.lab import CONNECTIONS, Lab, open_lab
from tuner.paths import loadgen_binary

AIMS = {"off": None, "every:1000": at_most(1)}
"""Modes of waiting, with the aim for the cost of each."""
RATES_PER_S = (1_000, 5_000, 20_000)
PAIRS = 3
DURATION_S = 12
"""Wrk2 calibrates for ten seconds; ours runs as long as it does."""
MANY = 10_000
MEMORY_AIM_MB = 64
_MEMORY_RATE_PER_S = 5_000


def run(lab: Lab, chosen: options.Options) -> list[Finding]:
    """Compare CPU time at every rate, then measure memory.

    Raises:
        click.ClickException: a tool failed.
    """
    return [*_cpu(lab, chosen), *_memory(lab)]


def _cpu(lab: Lab, chosen: options.Options) -> list[Finding]:
    program = peers.find("wrk2", chosen.peers_dir)
    if program is None:
        click.echo("(wrk2 is neither in --peers nor on the PATH: left out)")
        return []
    found = []
    for rate in RATES_PER_S:
        ours: dict[str, list[float]] = {spin: [] for spin in AIMS}
        theirs: list[float] = []
        for _ in range(chosen.runs or PAIRS):
            for spin, costs in ours.items():
                costs.append(_ours_us(lab, rate, spin))
            theirs.append(_wrk2_us(lab, program, rate))
        medians = [f"{spin} {statistics.median(costs):.1f} µs" for spin, costs in ours.items()]
        click.echo(
            f"CPU time per request at {rate}/s: {', '.join(medians)},"
            f" wrk2 {statistics.median(theirs):.1f} µs"
        )
        for spin, aim in AIMS.items():
            ratios = [mine / its for mine, its in zip(ours[spin], theirs, strict=True)]
            question = f"CPU per request at {rate}/s, {spin}: ours / wrk2"
            found.append(median_of(question, ratios, aim=aim))
    return found


def _ours_us(lab: Lab, rate_per_s: int, spin: str) -> float:
    command = [
        *(str(loadgen_binary()), "run", lab.url, "-c", str(CONNECTIONS), "-R", str(rate_per_s)),
        *("-d", str(DURATION_S), "-w", "0", "--spin", spin, "--arrival", "constant", "--json"),
    ]
    outcome = lab.run(command)
    return outcome.cpu_s / int(json.loads(outcome.text)["completed"]) * 1e6


def _wrk2_us(lab: Lab, program: str, rate_per_s: int) -> float:
    command = [
        *(program, "-t1", f"-c{CONNECTIONS}", f"-d{DURATION_S}s", f"-R{rate_per_s}", lab.url),
    ]
    outcome = lab.run(command)
    done = re.search(r"^\s*(\d+) requests in ", outcome.text, re.MULTILINE)
    if done is None:
        raise click.ClickException(f"unexpected output of wrk2:\n{outcome.text}")
    return outcome.cpu_s / int(done[1]) * 1e6


def _memory(lab: Lab) -> list[Finding]:
    """Return the peak resident memory with many open connections.

    Raises:
        click.ClickException: a connection could not be opened.
    """
    command = [
        *(str(loadgen_binary()), "run", lab.url, "-c", str(MANY), "-d", "5", "-w", "0"),
        *("-R", str(_MEMORY_RATE_PER_S), "--spin", "off", "--json"),
    ]
    outcome = lab.run(command)
    opened = int(json.loads(outcome.text)["connects"])
    if opened < MANY:
        raise click.ClickException(f"{opened} of {MANY} connections were opened")
    question = f"peak memory with {MANY:,} connections"
    return [Finding(question, outcome.peak_mb, " MB", at_most(MEMORY_AIM_MB))]


@click.command()
@options.common
def main(chosen: options.Options) -> None:
    """Measure the CPU time and memory of a generator that sleeps."""
    with open_lab() as lab:
        finding.show(run(lab, chosen))


if __name__ == "__main__":
    main()
