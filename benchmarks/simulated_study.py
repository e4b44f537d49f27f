"""A study on the simulated lab, then its report; the process's peak memory after each.

With ``--scraped`` the study is asked for its metrics over HTTP while it runs, and the last line has
the processor time: that of the study with its scrapes, that of the scrapes, and their number.
"""

from __future__ import annotations

import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import click

from benchmarks.simulated_bench import simulated_bench
from tuner.app.metrics_server import study_metrics
from tuner.app.progress import RunProgress
from tuner.definition.study import load_study
from tuner.judge.results import evaluate
from tuner.phases.study import StudySpec, run_study
from tuner.report.html import render_html
from tuner.space.space import load_space
from tuner.store.store import Store, sqlite_url
from tuner.testing.lab import SimulatedHost
from tuner.testing.simulate import SimulatedStalls

NAME = "simulated"
TIME_S = 600.0
"""Time of the default study on the lab's clock, s."""
SAMPLES = 50_000
"""Limit for the samples of a window; a fast server gives as many in a second or two."""
EVERY_S = 15.0
"""Time between two scrapes on the lab's clock, s: that of Prometheus's example file."""
_AT = "metrics at "


class Scraped(RunProgress):
    """Progress that asks for the metrics after windows, every 15 seconds of the lab's clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock
        self._next_s = clock() + EVERY_S
        self._url = ""
        self.count = 0
        self.cpu_s = 0.0

    def note(self, text: str) -> None:
        """Learn the address of the metrics."""
        if text.startswith(_AT):
            self._url = text.removeprefix(_AT)

    def window(self, text: str) -> None:  # noqa: ARG002 - the port's signature
        """Ask for the metrics if it is time."""
        if self._clock() < self._next_s:
            return
        self._next_s = self._clock() + EVERY_S
        begun_s = time.process_time()
        # The thread that answers belongs to this process too.
        with urllib.request.urlopen(self._url) as answer:  # noqa: S310 - our own address
            answer.read()
        self.cpu_s += time.process_time() - begun_s
        self.count += 1


@click.command()
@click.option("--scraped", is_flag=True, help="Ask for the metrics while the study runs.")
def main(*, scraped: bool) -> None:
    """Run the study as the command line would, on a host that does not exist."""
    host = SimulatedHost(stalls=SimulatedStalls(), most_samples=SAMPLES)
    space = load_space(
        "nginx/static",
        server_cores=1,
        connections=32,
        memory_bytes=8 << 30,
        server_version=(1, 22, 1),
        modules=(),
    )
    baseline = space.baseline("stock")
    with tempfile.TemporaryDirectory(prefix="tuner-bench-") as name:
        progress = Scraped(host.clock) if scraped else RunProgress()
        header = host.header(NAME, baseline, "p99")
        store = Store.create(sqlite_url(Path(name)), header, host.clock)
        store.add_configuration(host.describe(baseline))
        bench = simulated_bench(host, store, progress, baseline)
        spec = StudySpec(
            space=space,
            allow=(),
            known_good=(space.baseline("hand"),),
            rate_per_s=None,
            time_s=TIME_S,
            trials=None,
            effect=0.05,
            server_cores=1,
        )
        definition = load_study("static", {"name": NAME})
        address = "127.0.0.1:0" if scraped else None
        begun_s = time.process_time()
        with study_metrics(address, definition, Path(name), progress):
            run_study(bench, spec)
        took_s = time.process_time() - begun_s
        click.echo(status())
        render_html(evaluate(store.record()))
        click.echo(status())
    if isinstance(progress, Scraped):
        click.echo(f"{took_s:.3f} s, {progress.cpu_s:.3f} s, {progress.count} scrapes")


def status() -> str:
    """Return the kernel's status of this process; VmHWM is its peak resident memory.

    Unlike ru_maxrss, VmHWM leaves out what the parent held before this program was executed.
    """
    return Path("/proc/self/status").read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
