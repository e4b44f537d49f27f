"""tuner's own search on a recorded table: its code, on the lab with the figures of the table."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import optuna
from numpy.typing import NDArray

from benchmarks.goal import HORIZON_S, Step
from benchmarks.replay import EACH_S, World, draw
from benchmarks.simulated_bench import simulated_bench
from tuner.generators.generator import Endpoint, WindowSpec
from tuner.goals.goals import Goals
from tuner.hosts.deployer import InstanceSpec, InstanceState
from tuner.judge.plan import plan_blocks
from tuner.measurement.window import RawWindow
from tuner.phases.bench import Silence
from tuner.phases.search import SearchSpec, run_search
from tuner.record.model import Calibration
from tuner.search.schedule import winner
from tuner.space.configuration import Configuration
from tuner.store.store import Store
from tuner.testing.lab import (
    Effect,
    Instance,
    SimulatedHost,
    values_of,
)
from tuner.workload.workload import Workload

_STUDY_S = 600.0
"""tuner's search is that of a ten-minute study, extended to the horizon."""


@dataclass
class ReplayHost(SimulatedHost):
    """A simulated host with the truth of a table, and its residuals as noise."""

    world: World | None = None
    _minute: float = field(default=0.0, init=False)
    _drawn: float = field(default=0.0, init=False)
    """Noise of the window that is being measured."""
    _rows: dict[str, int] = field(default_factory=dict, init=False)
    """The table's row by address."""

    def next_deployment(self) -> int:
        """Begin a deployment of ``SimulatedHost``; the minute has its own level."""
        self._minute = draw(self._rng, self._known.minute_residuals)
        return super().next_deployment()

    def start(self, spec: InstanceSpec, deployment: int) -> InstanceState:
        """Implement ``SimulatedHost.start``."""
        self.now_s += EACH_S
        state = super().start(spec, deployment)
        address = next(a for a, i in self.running.items() if i.spec is spec)
        row = self._known.row(Configuration.of(self._known.space.name, values_of(spec)))
        self._rows[address] = row
        level = float(self._rng.normal(0.0, self._known.start_sd))
        effect = Effect(float(self._known.truth[row]), capacity_per_s=1e9)
        self.running[address] = Instance(spec, effect, level, state.pids[0])
        return state

    def measure(
        self,
        workload: Workload,
        endpoint: Endpoint,
        spec: WindowSpec,
        level: float | None = None,  # noqa: ARG002 - the table has the noise of separate windows
    ) -> RawWindow:
        """Measure like ``SimulatedHost``, with the noise of a similar row."""
        self._drawn = self._known.window_noise(
            self._rng, self._rows[endpoint.address], spec.duration_s
        )
        return super().measure(workload, endpoint, spec)

    def next_level(self) -> float:
        """Implement ``SimulatedHost.next_level``."""
        return self._minute + self._drawn

    def _latencies(self, count: int, ln_median_ns: float) -> NDArray[np.float64]:
        """Return the same distribution in every window: all noise is the table's."""
        shape = np.linspace(0.5, 1.5, count)
        self._rng.shuffle(shape)
        return np.asarray(shape * math.exp(ln_median_ns))

    @property
    def _known(self) -> World:
        assert self.world is not None  # noqa: S101 - a default only for the dataclass's sake
        return self.world


@dataclass
class Watch(Silence):
    """Progress that records the recommendation after every block."""

    world: World
    host: ReplayHost
    store: Store | None = None
    goals: Goals = field(default_factory=lambda: Goals.of("p99"))
    steps: list[Step] = field(default_factory=list)
    begun_s: float = 0.0

    def step(self, text: str, left_s: float) -> None:
        """Implement ``Progress.step``."""
        del text, left_s
        assert self.store is not None  # noqa: S101 - set before the search begins
        record = self.store.record()
        trials = [trial for trial in record.trials if trial.origin != "baseline"]
        best = winner(trials, self.goals)
        row = 0
        if best is not None and min(best.losses.values(), default=0.0) < 0:
            row = self.world.row(record.configurations[best.digest].configuration)
        looks = sum(len(trial.losses) for trial in trials)
        self.steps.append(Step(self.host.now_s - self.begun_s, looks, row))


def ours(world: World, seed: int, time_s: float = HORIZON_S) -> list[Step]:
    """Run tuner's own search."""
    host = ReplayHost(seed=seed, world=world, tail_share=0.0, most_samples=4_000)
    baseline = Configuration.of(world.space.name, world.table.rows[0].values)
    goals = Goals.of("p99")
    store = Store.create(
        optuna.storages.InMemoryStorage(), host.header("replay", baseline, "p99"), host.clock
    )
    store.add_configuration(host.describe(baseline))
    watch = Watch(world, host, store, goals)
    bench = simulated_bench(host, store, watch, baseline, world.table.workload)
    rate_per_s = world.table.rate_per_s
    calibration = _calibration(world, rate_per_s)
    store.set_calibration(calibration)
    watch.begun_s = host.now_s
    run_search(
        bench,
        SearchSpec(world.space, (), baseline, (), time_s, None),
        calibration,
        plan_blocks(goals, rate_per_s, _STUDY_S),
    )
    return watch.steps


def _calibration(world: World, rate_per_s: float) -> Calibration:
    """Return a calibration with the table's noise of a difference."""
    sigma = math.sqrt(2 * (world.start_sd**2 + world.window_sd**2 / 12))
    return Calibration(
        capacity_per_s=rate_per_s / 0.7,
        generator_bound=False,
        rate_per_s=rate_per_s,
        rate_source="the table's",
        sigma_d=sigma,
        sigma_d_upper=1.3 * sigma,
        degrees_of_freedom=6,
        half_width=sigma,
        minimum_detectable_effect=sigma,
        correlation=0.0,
        warnings=(),
    )
