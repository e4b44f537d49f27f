"""The generator for minutes or hours: memory, and drift of its schedule, minute by minute.

    make endurance ARGS="--minutes 720 --rate 50000"

Each minute is a window of a plan, like those of a long study, in one process of the generator. Each
connection is closed and reopened after 100 requests. Memory is what is resident when a window ends.
Drift is the median latency of the last quarter of a minute less that of its first: if the schedule
ran at another speed than the clock, requests would wait longer and longer.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from benchmarks import finding
from benchmarks.finding import Finding, at_most
from benchmarks.lab import Lab, open_lab, preferred, setting
from tuner.paths import loadgen_binary

_CONNECTIONS = 32
_PER_CONNECTION = 100
MEMORY_AIM = 1.05
"""Limit for the most memory after the first quarter, relative to the most in it."""
DRIFT_AIM_US = 50.0
"""Limit for the median drift of a minute, µs."""


@dataclass(frozen=True, slots=True)
class Minute:
    """One window."""

    resident_mb: float
    offered: int
    completed: int
    reconnects: int
    lag_us: float
    """Median of the send lag."""
    drift_us: float

    def text(self, number: int) -> str:
        """Return a line of the table."""
        return (
            f"{number:6} {self.resident_mb:8.1f} MB {self.offered:10,} offered"
            f" {self.completed / self.offered:8.3%} answered {self.reconnects:8,} reconnects"
            f"  lag {self.lag_us:6.1f} µs  drift {self.drift_us:+7.1f} µs"
        )


def plan(lab: Lab, minutes: int, rate_per_s: float) -> dict[str, Any]:
    """Return the plan of all minutes."""
    window = {
        "instance": "server",
        "mode": "open",
        "rate_per_s": rate_per_s,
        "connections": _CONNECTIONS,
        "requests_per_connection": _PER_CONNECTION,
        "duration_s": 60.0,
        "timeout_s": 2.0,
    }
    return {
        "version": 1,
        "cpus": list(lab.cores.generator),
        # A core that spins for hours shows no more, and others may need it.
        "spin": "off",
        "requests": [{"path": "/", "expect": {"status": 200}}],
        "instances": [{"id": "server", "address": f"127.0.0.1:{lab.port}"}],
        "windows": [{**window, "id": f"m{number}", "seed": number} for number in range(minutes)],
    }


def measured(lab: Lab, minutes: int, rate_per_s: float) -> Iterator[Minute]:
    """Yield the minutes as they end."""
    file = lab.folder / "plan.json"
    file.write_text(json.dumps(plan(lab, minutes, rate_per_s)), encoding="utf-8")
    command = [str(loadgen_binary()), "plan", str(file)]
    with preferred(command, lab.cores.generator[0]) as process:
        assert process.stdout is not None  # noqa: S101 - Popen was given a pipe
        for line in process.stdout:
            found = json.loads(line)
            if "seconds" in found:
                yield _minute(found, process)


def _minute(found: dict[str, Any], process: subprocess.Popen[str]) -> Minute:
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    resident_kb = int(status.partition("VmRSS:")[2].split()[0])
    p50s = [second["p50_us"] for second in found["seconds"] if second["p50_us"] is not None]
    quarter = len(p50s) // 4
    return Minute(
        resident_kb * 1024 / 1e6,
        found["offered"],
        found["completed"],
        found["reconnects"],
        found["latency"]["send_lag"]["p50_us"],
        statistics.median(p50s[-quarter:]) - statistics.median(p50s[:quarter]),
    )


@click.command()
@click.option("--minutes", default=10, type=click.IntRange(min=4), help="Length [10].")
@click.option("--rate", default=20_000.0, help="Requests per second [20000].")
def main(minutes: int, rate: float) -> None:
    """Print memory and drift per minute, and whether they keep their limits."""
    click.echo(setting())
    found = []
    with open_lab() as lab:
        for minute in measured(lab, minutes, rate):
            found.append(minute)
            click.echo(minute.text(len(found)))
    if len(found) < minutes:
        raise click.ClickException(f"the generator ended after {len(found)} minutes")
    early = max(minute.resident_mb for minute in found[: minutes // 4])
    late = max(minute.resident_mb for minute in found[minutes // 4 :])
    drifts = [minute.drift_us for minute in found]
    finding.show(
        [
            Finding(
                "memory: most later / most in the first quarter",
                late / early,
                aim=at_most(MEMORY_AIM),
            ),
            Finding(
                "drift of a minute, median of absolute values",
                statistics.median(map(abs, drifts)),
                " µs",
                at_most(DRIFT_AIM_US),
                tuple(drifts),
            ),
        ]
    )


if __name__ == "__main__":
    main()
