"""Time and memory of a long study as its record grows, on the simulated lab.

    python -m benchmarks.growth --trials 10000
    python -m benchmarks.growth --hours 24

Only the host is simulated: proposals, schedule, SQLite record, verdict and report are those of
``tuner optimize``, at 20,000 requests/s. The lab's clock passes at once, and a window keeps 8,000
of its samples, which shortens the arithmetic of a window and no line of the record. The program
prints a line for each 250 trials, then the ratios of the last to the first lines and the cost of
the report. ``--report`` measures the report of an exported record of ``--trials`` trials, made from
a short one, and ``--studies 1000`` measures ``tuner studies``.
"""

from __future__ import annotations

import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import click

from benchmarks import finding
from benchmarks.finding import Finding, at_most
from benchmarks.simulated_bench import simulated_bench
from tuner.app.progress import RunProgress
from tuner.phases.study import StudySpec, run_study
from tuner.record.file import write_record
from tuner.record.model import Record
from tuner.space.configuration import Configuration
from tuner.space.space import load_space
from tuner.store.store import Store, sqlite_url
from tuner.testing.lab import Effect, SimulatedHost
from tuner.testing.sample_record import sample_record
from tuner.testing.simulate import Noise, SimulatedStalls

NAME = "growth"
RATE_PER_S = 20_000.0
_SAMPLES = 8_000
_TILE = 32
_EVERY = 250
"""Trials between two lines."""
REPORT_AIM_S = 10.0
STUDIES_AIM_S = 1.0
BLOCK_AIM = 3.0
"""Limit for the processor time of a block with all trials, relative to the first ones."""
MEMORY_AIM_KB = 40.0
"""Limit for resident memory by trial: its own values and its windows in a block, and no copies."""


@dataclass(frozen=True, slots=True)
class Line:
    """The cost of the blocks since the line before."""

    trials: int
    blocks: int
    block_ms: float
    """Mean processor time of a block, ms."""
    resident_mb: float

    def text(self) -> str:
        """Return the line."""
        return (
            f"{self.trials:7,} trials {self.blocks:6,} blocks {self.block_ms:8.0f} ms each"
            f" {self.resident_mb:7.0f} MB"
        )


class Watched(RunProgress):
    """Progress that notes the processor time of the search's blocks."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self.lines: list[Line] = []
        self._blocks = self._before = 0
        self._begun_s = time.process_time()

    def step(self, text: str, left_s: float) -> None:  # noqa: ARG002 - the port's signature
        """Count a block of the search; print a line when enough trials were tried."""
        words = text.partition(": ")[2].split()
        if not text.startswith("search block"):
            return
        self._blocks += 1
        trials = int(words[0].replace(",", ""))
        if trials < (self.lines[-1].trials if self.lines else 0) + _EVERY:
            return
        now_s = time.process_time()
        took_ms = 1e3 * (now_s - self._begun_s) / (self._blocks - self._before)
        self.lines.append(Line(trials, self._blocks, took_ms, resident_mb()))
        click.echo(self.lines[-1].text())
        self._before, self._begun_s = self._blocks, now_s


def resident_mb() -> float:
    """Return the resident memory of this process, MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


def record_study(folder: Path, *, hours: float, trials: int | None) -> list[Line]:
    """Run the study on the simulated lab, with its record in a folder."""

    def truth(values: object) -> Effect:
        return Effect(ln_latency=(hash(str(values)) % 100) / 400 - 0.1, capacity_per_s=30_000)

    host = SimulatedHost(
        truth=truth,
        noise=Noise(ar_sd=0.05, restart_sd=0.02),
        stalls=SimulatedStalls(),
        most_samples=_SAMPLES,
    )
    space = load_space(
        "nginx/proxy",
        server_cores=2,
        connections=32,
        memory_bytes=8 << 30,
        server_version=(1, 22, 1),
        modules=("threads",),
    )
    baseline = space.baseline("stock")
    header = host.header(NAME, baseline, "p99")
    store = Store.create(sqlite_url(folder), header, host.clock)
    store.add_configuration(host.describe(baseline))
    progress = Watched(store)
    bench = simulated_bench(host, store, progress, baseline)
    spec = StudySpec(
        space=space,
        allow=(),
        known_good=(space.baseline("hand"),),
        rate_per_s=RATE_PER_S,
        time_s=hours * 3600,
        trials=trials,
        effect=0.05,
        server_cores=2,
    )
    run_study(bench, spec)
    return progress.lines


@click.command()
@click.option("--hours", default=24.0, help="Length of the study on the lab's clock [24].")
@click.option("--trials", type=int, help="Most configurations [by time only].")
@click.option("--report", is_flag=True, help="Measure the report of a long record instead.")
@click.option("--studies", type=int, help="Measure `tuner studies` over this many instead.")
def main(*, hours: float, trials: int | None, report: bool, studies: int | None) -> None:
    """Measure how a study's cost grows with its record."""
    if report:
        finding.show(_reported(trials or 3_000))
        return
    folder = Path(tempfile.mkdtemp(prefix="tuner-growth-"))
    try:
        if studies:
            finding.show(_listed(folder, studies))
            return
        lines = record_study(folder, hours=hours, trials=trials)
        finding.show(_found(lines, folder))
    finally:
        shutil.rmtree(folder)


def tiled_record(trials: int) -> Record:
    """Return the record of a study with this many trials: the search of a short one, repeated.

    Each repetition has configurations and blocks of its own.
    """
    short = sample_record("better", trials=_TILE)
    search = [block for block in short.blocks if block.phase == "search"]
    first, rest = search[0].number, [b for b in short.blocks if b.number > search[-1].number]
    span_s = search[-1].ended_unix_s - search[0].started_unix_s
    configurations = dict(short.configurations)
    found = [*short.trials]
    blocks = [block for block in short.blocks if block.number <= search[-1].number]
    for copy in range(1, math.ceil(trials / _TILE)):
        digests = {}
        for trial in short.trials[1:]:
            one = short.configurations[trial.digest]
            made = Configuration.of(one.space, {**one.values, "copy": copy})
            digests[trial.digest] = made.digest
            configurations[made.digest] = replace(one, digest=made.digest, values=made.values)
        numbers = {t.number: t.number + copy * len(short.trials) for t in short.trials[1:]}
        shift = copy * len(search)
        found += [
            replace(
                t,
                number=numbers[t.number],
                digest=digests[t.digest],
                losses={block + shift: loss for block, loss in t.losses.items()},
            )
            for t in short.trials[1:]
        ]
        blocks += [
            replace(
                block,
                number=block.number + shift,
                index=block.index + shift,
                started_unix_s=block.started_unix_s + copy * span_s,
                ended_unix_s=block.ended_unix_s + copy * span_s,
                instances=tuple(
                    replace(
                        i, digest=digests.get(i.digest, i.digest), trial=numbers.get(i.trial, 0)
                    )
                    if i.trial is not None
                    else i
                    for i in block.instances
                ),
            )
            for block in search
        ]
    later = len(blocks) - first - len(search)
    moved_s = (len(blocks) / max(1, first + len(search)) - 1) * span_s
    blocks += [
        replace(
            block,
            number=block.number + later,
            started_unix_s=block.started_unix_s + moved_s,
            ended_unix_s=block.ended_unix_s + moved_s,
        )
        for block in rest
    ]
    return replace(short, configurations=configurations, trials=tuple(found), blocks=tuple(blocks))


def _reported(trials: int) -> list[Finding]:
    """Return the cost of reading and reporting a long record, in processes of their own."""
    found = []
    for number in (trials // 10, trials):
        with tempfile.TemporaryDirectory(prefix="tuner-growth-") as name:
            path = Path(name) / "record.json.gz"
            write_record(tiled_record(number), path)
            found += _report(path)
    return found


def _found(lines: list[Line], folder: Path) -> list[Finding]:
    if len(lines) < 2:
        raise click.ClickException(f"less than {2 * _EVERY} trials show no growth")
    first, last = lines[0], lines[-1]
    more_mb = last.resident_mb - first.resident_mb
    return [
        Finding(
            f"processor time of a block: {last.trials:,} trials / {first.trials:,}",
            last.block_ms / first.block_ms,
            aim=at_most(BLOCK_AIM),
        ),
        Finding(
            "memory by trial",
            1e3 * more_mb / (last.trials - first.trials),
            " kB",
            at_most(MEMORY_AIM_KB),
        ),
        Finding("record", (folder / "record.db").stat().st_size / 1e6, " MB"),
        *_report(folder),
    ]


_REPORT = """
import sys, time
from pathlib import Path
from tuner.judge.results import evaluate
from tuner.record.file import read_record
from tuner.report.html import render_html
from tuner.store.store import Store, sqlite_url
path = Path(sys.argv[1])
begun = time.perf_counter()
if path.is_dir():
    record = Store.open(sqlite_url(path), sys.argv[2], writing=False).record()
else:
    record = read_record(path)
read = time.perf_counter()
render_html(evaluate(record))
ended = time.perf_counter()
peak = Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0]
print(len(record.trials), read - begun, ended - read, int(peak) * 1024 / 1e6)
"""


def _report(path: Path) -> list[Finding]:
    """Return the time of reading a record and of its report, in a process of its own.

    Args:
        path: an exported record, or the folder of a study.
    """
    done = subprocess.run(
        [sys.executable, "-c", _REPORT, str(path), NAME],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise click.ClickException(done.stderr.strip().splitlines()[-1])
    trials, read_s, report_s, peak_mb = map(float, done.stdout.split())
    question = f"{trials:,.0f} trials"
    return [
        Finding(f"{question}: reading the record", read_s, " s"),
        Finding(f"{question}: verdict and page", report_s, " s"),
        Finding(f"{question}: peak memory", peak_mb, " MB"),
        Finding(f"{question}: report", read_s + report_s, " s", at_most(REPORT_AIM_S)),
    ]


def _listed(folder: Path, studies: int) -> list[Finding]:
    """Return the time of ``tuner studies`` over copies of a short study: at first, and later."""
    one = folder / "studies" / NAME
    one.mkdir(parents=True)
    record_study(one, hours=0.1, trials=16)
    for number in range(studies - 1):
        shutil.copytree(one, one.parent / f"{NAME}-{number:04}")
    # Files that have just changed are read again.
    time.sleep(3)
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}

    def took_s(*arguments: str) -> float:
        begun_s = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "tuner", *arguments],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        return time.perf_counter() - begun_s

    first_s = took_s("studies")
    again = [took_s("studies") for _ in range(5)]
    start_s = statistics.median(took_s("--help") for _ in range(5))
    return [
        Finding(
            f"tuner studies over {studies:,}: for the first time, a study", first_s / studies, " s"
        ),
        Finding(
            f"tuner studies over {studies:,}: again",
            statistics.median(again),
            " s",
            at_most(STUDIES_AIM_S),
            tuple(again),
        ),
        Finding("tuner --help", start_s, " s"),
    ]


if __name__ == "__main__":
    main()
