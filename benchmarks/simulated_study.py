"""A study on the simulated lab, then its report; the process's peak memory after each."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from tuner.goals.goals import Goals
from tuner.judge.results import evaluate
from tuner.measurement.stalls import StallRule
from tuner.phases.bench import Bench, Silence
from tuner.phases.study import SATURATION_GATES, StudySpec, run_study
from tuner.report.html import render_html
from tuner.space.space import load_space
from tuner.store.store import Store, sqlite_url
from tuner.testing.lab import SimulatedDeployer, SimulatedGenerator, SimulatedHost
from tuner.testing.simulate import SimulatedStalls
from tuner.workload.workload import load_workload

NAME = "simulated"
TIME_S = 600.0
"""Time of the default study on the lab's clock, s."""
SAMPLES = 50_000
"""Limit for the samples of a window; a fast server gives as many in a second or two."""


def main() -> None:
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
        header = host.header(NAME, baseline, "p99")
        store = Store.create(sqlite_url(Path(name)), header, host.clock)
        store.add_configuration(host.describe(baseline))
        bench = Bench(
            deployer=SimulatedDeployer(host),
            generator=SimulatedGenerator(host),
            store=store,
            progress=Silence(),
            baseline=baseline,
            make_instance=host.instance,
            describe=host.describe,
            free_ports=host.free_ports,
            workload=load_workload("static"),
            goals=Goals.of("p99"),
            rule=StallRule(),
            gates=SATURATION_GATES,
            seed=host.seed,
            clock=host.clock,
        )
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
        run_study(bench, spec)
        click.echo(status())
        render_html(evaluate(store.record()))
        click.echo(status())


def status() -> str:
    """Return the kernel's status of this process; VmHWM is its peak resident memory.

    Unlike ru_maxrss, VmHWM leaves out what the parent held before this program was executed.
    """
    return Path("/proc/self/status").read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
