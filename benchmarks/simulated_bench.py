"""A bench on the simulated lab: everything but the host is what a study measures with."""

from __future__ import annotations

from tuner.goals.goals import Goals
from tuner.measurement.stalls import StallRule
from tuner.phases.bench import Bench, Progress
from tuner.phases.study import SATURATION_GATES
from tuner.space.configuration import Configuration
from tuner.store.store import Store
from tuner.testing.lab import SimulatedDeployer, SimulatedGenerator, SimulatedHost
from tuner.workload.workload import load_workload


def simulated_bench(
    host: SimulatedHost,
    store: Store,
    progress: Progress,
    baseline: Configuration,
    workload: str = "static",
) -> Bench:
    """Return the bench of a study of p99 on a simulated host, with the host's seed and clock."""
    return Bench(
        deployer=SimulatedDeployer(host),
        generator=SimulatedGenerator(host),
        store=store,
        progress=progress,
        baseline=baseline,
        make_instance=host.instance,
        describe=host.describe,
        free_ports=host.free_ports,
        workload=load_workload(workload),
        goals=Goals.of("p99"),
        rule=StallRule(),
        gates=SATURATION_GATES,
        seed=host.seed,
        clock=host.clock,
    )
