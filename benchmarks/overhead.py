"""The overhead of the Python side: start time, memory, scrapes, and time without measurement.

Memory is that of a whole study on the simulated lab (tuner/testing), whose report is written too:
the same code as in a real one, without Ansible, which is a process of its own and ends before any
window. The same study is asked for its metrics every 15 seconds of its own clock, as Prometheus
would ask a study of ten minutes with ``--metrics``. Shares of wall-clock are read from the record
of a real study.

    python -m benchmarks.overhead --study studies/quickstart
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from benchmarks import finding, options
from benchmarks.finding import Finding, at_least, at_most, median_of
from tuner.record.model import Block, Phase
from tuner.store.listing import list_names
from tuner.store.store import Store, sqlite_url

STARTS = 15
START_AIM_S = 0.5
MEMORY_AIM_MB = 200
SHARE_AIMS: dict[Phase, float] = {"search": 0.75, "confirm": 0.85}

_NOTHING = "pass"
_STATUS = "print(open('/proc/self/status').read())"


def run(chosen: options.Options, study: Path | None) -> list[Finding]:
    """Measure start, memory and scrapes; shares of a recorded study, if one is given."""
    found = [*_start(chosen.runs or STARTS), *_memory(), *_scrapes()]
    if study is not None:
        found += _shares(study)
    return found


def _start(runs: int) -> list[Finding]:
    """Return the wall-clock times of ``tuner --help`` and of an empty Python program, in turn."""
    help_s: list[float] = []
    nothing_s: list[float] = []
    for _ in range(runs):
        nothing_s.append(_took_s("-c", _NOTHING))
        help_s.append(_took_s("-m", "tuner", "--help"))
    ratios = [ours / bare for ours, bare in zip(help_s, nothing_s, strict=True)]
    return [
        median_of("start: tuner --help / python -c pass", ratios),
        median_of("start: tuner --help", help_s, unit=" s", aim=at_most(START_AIM_S)),
    ]


def _took_s(*arguments: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def _memory() -> list[Finding]:
    """Return the peak memory of a study with its report, and of an empty Python program."""
    (bare_mb,) = _peaks_mb("-c", _STATUS)
    study_mb, report_mb = _peaks_mb("-m", "benchmarks.simulated_study")
    return [
        Finding("memory: peak of a study until its report / python's", study_mb / bare_mb),
        Finding(
            "memory: peak of a study until its report", study_mb, " MB", at_most(MEMORY_AIM_MB)
        ),
        Finding("memory: peak of a study with its report / python's", report_mb / bare_mb),
        Finding(
            "memory: peak of a study with its report", report_mb, " MB", at_most(MEMORY_AIM_MB)
        ),
    ]


def _peaks_mb(*arguments: str) -> list[float]:
    """Return the peak resident memory at each time that a Python process reports it."""
    peaks = _printed(r"^VmHWM:\s+(\d+) kB$", *arguments)
    return [int(peak) * 1024 / 1e6 for (peak,) in peaks]


def _scrapes() -> list[Finding]:
    """Return the processor time of a study with scrapes of its metrics, and of one scrape."""
    pattern = r"^([\d.]+) s, ([\d.]+) s, (\d+) scrapes$"
    ((took, scraping, count),) = _printed(pattern, "-m", "benchmarks.simulated_study", "--scraped")
    took_s, scraping_s = float(took), float(scraping)
    return [
        Finding(
            "metrics: processor time of a study scraped every 15 s / unscraped",
            took_s / (took_s - scraping_s),
        ),
        Finding("metrics: processor time of a scrape", scraping_s / int(count), " s"),
    ]


def _printed(pattern: str, *arguments: str) -> list[tuple[str, ...]]:
    """Return the groups of a pattern wherever the output of a Python process has it."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    found = [each.groups() for each in re.finditer(pattern, done.stdout, re.MULTILINE)]
    if done.returncode != 0 or not found:
        raise click.ClickException(f"{' '.join(arguments)} failed:\n{done.stderr or done.stdout}")
    return found


def _shares(folder: Path) -> list[Finding]:
    """Return the share of measured windows in the wall-clock time of each phase."""
    url = sqlite_url(folder)
    # SQLite would create a missing file.
    names = list_names(url) if (folder / "record.db").is_file() else []
    if not names:
        raise click.ClickException(f"{folder} holds no study's record")
    blocks = Store.open(url, names[0]).record().blocks
    found = []
    for phase, aim in SHARE_AIMS.items():
        mine = [block for block in blocks if block.phase == phase]
        if mine:
            found.append(Finding(f"{phase}: share in windows", _share(mine), "", at_least(aim)))
    return found


def _share(blocks: Sequence[Block]) -> float:
    """Return measured time / wall-clock time from the first block to the last.

    Warm-ups, deployments, proposals and gaps between windows count as not measured.
    """
    measured_s = sum(window.duration_s for block in blocks for window in block.windows)
    start_s = min(block.started_unix_s for block in blocks)
    end_s = max(block.ended_unix_s for block in blocks)
    return measured_s / (end_s - start_s)


@click.command()
@options.study
@options.only_runs
def main(chosen: options.Options, study: Path | None) -> None:
    """Measure the overhead of the Python side."""
    finding.show(run(chosen, study))


if __name__ == "__main__":
    main()
