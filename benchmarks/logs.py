"""The time to read an access log, against a plain iteration over its lines, and the memory.

Both run in the same minutes, in processes of their own, so the ratio holds for other hosts too. The
log is invented: a site with pages, searches, assets with hashes, and shop pages with numbers.

    python -m benchmarks.logs --lines 1260000
"""

from __future__ import annotations

import random
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click

from benchmarks import finding
from benchmarks.finding import Finding, at_most, median_of
from benchmarks.lab import setting

_PLAIN = "import sys\nfor line in open(sys.argv[1], 'rb'): pass"
_RUNS = 3
MOST_RATIO = 120.0
"""Limit for reading, relative to the plain iteration."""
MOST_MEMORY_MB = 84.0
_AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0"
_WORDS = ("alpha", "beta", "delta", "forest", "market", "river", "stone", "summer", "winter")


def invented(lines: int) -> Iterator[str]:
    """Yield lines of the combined format, the same in every run."""
    draw = random.Random(7)  # noqa: S311 - an example
    unix_s = 1_760_000_000.0
    for _ in range(lines):
        unix_s += draw.expovariate(6)
        moment = datetime.fromtimestamp(unix_s, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
        status = draw.choices((200, 304, 404, 301, 206), (85, 6, 4, 4, 1))[0]
        size = 0 if status == 304 else int(draw.lognormvariate(8, 1.5))
        yield (
            f'192.0.2.{draw.randint(1, 250)} - - [{moment}] "GET {_target(draw)} HTTP/1.1" {status}'
            f' {size} "https://shop.test/" "{_AGENT}"\n'
        )


def _target(draw: random.Random) -> str:
    kind = draw.random()
    if kind < 0.4:
        return "/" + draw.choice(("", "about", "contact", "css/site.css", "js/app.js", "img/a.png"))
    if kind < 0.6:
        return f"/product/{draw.randint(1, 40_000)}"
    if kind < 0.75:
        return f"/img/{draw.getrandbits(64):016x}.jpg"
    if kind < 0.9:
        return "/blog/" + "-".join(draw.choices(_WORDS, k=4))
    return f"/search?q={draw.choice(_WORDS)}&page={draw.randint(1, 9)}"


def _cpu_s(*command: str) -> float:
    """Return the CPU time of a command, which other work on the host lengthens least."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(lines: int) -> list[Finding]:
    """Read the log and iterate over it, in turn."""
    with tempfile.TemporaryDirectory(prefix="tuner-logs-") as folder:
        log = Path(folder) / "access.log"
        with log.open("w") as file:
            file.writelines(invented(lines))
        reading = (sys.executable, "-m", "tuner", "workload", "from-log", str(log), "--quiet")
        pairs = [
            (_cpu_s(*reading), _cpu_s(sys.executable, "-c", _PLAIN, str(log))) for _ in range(_RUNS)
        ]
        memory_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    ratios = tuple(read / plain for read, plain in pairs)
    microseconds = statistics.median(read for read, _ in pairs) / lines * 1e6
    return [
        Finding("reading a log: CPU time of a line", microseconds, "µs"),
        median_of("reading a log / iterating over its lines", ratios, aim=at_most(MOST_RATIO)),
        Finding("reading a log: memory", memory_mb, "MB", at_most(MOST_MEMORY_MB)),
    ]


@click.command()
@click.option("--lines", default=300_000, show_default=True, help="Invent a log of N lines.")
def main(lines: int) -> None:
    """Measure the reading of an access log."""
    click.echo(setting())
    finding.show(run(lines))


if __name__ == "__main__":
    main()
