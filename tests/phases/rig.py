"""A whole study on the simulated lab, with everything that tests want to vary as an option."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import optuna

from tests.spaces import load_space
from tuner.goals.goals import Goals, goals_of
from tuner.judge.plan import Design
from tuner.measurement.stalls import CYCLES
from tuner.phases.bench import Bench, Silence
from tuner.phases.study import SATURATION_GATES, StudySpec, run_study
from tuner.record.model import Block, Phase, Record
from tuner.space.configuration import Configuration, Value
from tuner.store.store import Storage, Store
from tuner.testing.lab import (
    Effect,
    Faults,
    SimulatedDeployer,
    SimulatedGenerator,
    SimulatedHost,
)
from tuner.testing.simulate import Noise, SimulatedStalls
from tuner.workload.wire import Wire
from tuner.workload.workload import Workload

SPACE = load_space(str(Path(__file__).with_name("space.yaml")))
STOCK = SPACE.baseline("stock")
HAND = SPACE.baseline("hand")
NAME = "simulated"
WORKLOAD = Workload("simulated", "", Wire(), (), 32, "poisson", 2.0, (), None)

NOISY = Noise(ar_sd=0.02, restart_sd=0.02)
QUIET = Noise(ar_sd=0.01, restart_sd=0.005, burst_probability=0.0)
"""A host so quiet that one look is within a few per cent of the truth."""


def fast_is_better(values: Mapping[str, Value]) -> Effect:
    """``fast`` takes 40 % away, and a large ``boost`` some more; nothing else matters."""
    boost = float(values.get("boost", 0))
    gain = 0.5 + 0.02 * math.log(max(1.0, boost)) if values["fast"] else 0.0
    return Effect(ln_latency=-gain, capacity_per_s=4_000.0)


def all_the_same(_: Mapping[str, Value]) -> Effect:
    """Nothing matters."""
    return Effect(capacity_per_s=4_000.0)


@dataclass
class Notes(Silence):
    """Progress that keeps its messages."""

    notes: list[str] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Implement ``Progress.note``."""
        self.notes.append(text)

    def phase(self, title: str, expected_s: float) -> None:  # noqa: ARG002 - the port's name
        """Implement ``Progress.phase``."""
        self.phases.append(title)


@dataclass
class GetsNoisy(Notes):
    """Progress of a host whose cores begin to stall when a phase begins."""

    host: SimulatedHost = field(default_factory=SimulatedHost)
    at: str = ""
    """Part of the phase's title."""

    def phase(self, title: str, expected_s: float) -> None:
        """Implement ``Progress.phase``."""
        super().phase(title, expected_s)
        if self.at in title:
            self.host.stalls = SimulatedStalls(per_s=100.0, mean_us=10_000.0)


@dataclass
class Rig:
    """One simulated host with one study on it.

    A second ``run`` resumes the study from its storage, as another process would.
    """

    host: SimulatedHost
    storage: Storage = field(default_factory=optuna.storages.InMemoryStorage)
    objective: str | tuple[str, ...] = "p99"
    wanted: Mapping[str, Any] = field(default_factory=dict)
    """More of the definition: slo, constraint, choose."""
    baseline: Configuration = STOCK
    others: tuple[Configuration, ...] = ()
    exclusive: bool = False
    polls: bool = False
    """True if idle CPUs poll."""
    names: tuple[str, ...] = ()
    """Names of the baselines, as the user gave them."""
    progress: Notes = field(default_factory=Notes)
    spec: StudySpec = field(
        default_factory=lambda: StudySpec(
            space=SPACE,
            allow=(),
            known_good=(HAND,),
            rate_per_s=None,
            time_s=60.0,
            trials=None,
            effect=0.05,
            server_cores=1,
        )
    )
    begun: bool = False

    def store(self) -> Store:
        """Return the record: begun at the first call, opened and recovered at every later one."""
        if not self.begun:
            header = self.host.header(NAME, self.baseline, self.objective, **self.wanted)
            if self.names:
                named = {**header.definition, "baseline": list(self.names)}
                header = replace(header, definition=named)
            store = Store.create(self.storage, header, self.host.clock)
            for configuration in (self.baseline, *self.others):
                store.add_configuration(self.host.describe(configuration))
            self.begun = True
            return store
        store = Store.open(self.storage, NAME, self.host.clock)
        self.progress.notes += store.recover()
        return store

    @property
    def goals(self) -> Goals:
        """Return the goals of the study."""
        return goals_of(self._definition)

    @property
    def _definition(self) -> dict[str, Any]:
        return {"objective": self.objective, **self.wanted}

    def bench(self, store: Store | None = None) -> Bench:
        """Return a bench as the command line would build it."""
        store = store or self.store()
        return Bench(
            deployer=SimulatedDeployer(self.host),
            generator=SimulatedGenerator(self.host),
            store=store,
            progress=self.progress,
            baseline=self.baseline,
            make_instance=self.host.instance,
            describe=self.host.describe,
            free_ports=self.host.free_ports,
            workload=WORKLOAD,
            goals=self.goals,
            rule=CYCLES,
            gates=SATURATION_GATES,
            seed=self.host.seed,
            clock=self.host.clock,
            others=self.others,
            exclusive=self.exclusive,
            polling=nullcontext if self.polls else None,
            code=dict(store.record().code),
        )

    def run(self) -> Record:
        """Run what is not in the record yet, to the end; the record."""
        run_study(self.bench(), self.spec)
        return self.record()

    def record(self) -> Record:
        """Return the record as any reader sees it."""
        return Store.open(self.storage, NAME).record()


def rig(*, faults: Faults | None = None, **changes: Any) -> Rig:
    """Return a rig; changes go to the host, the study or the rig, wherever they belong."""
    host = {k: changes.pop(k) for k in list(changes) if k in _HOST}
    spec = {k: changes.pop(k) for k in list(changes) if k in StudySpec.__slots__}
    options = {"truth": fast_is_better, "noise": QUIET, "tail_share": 0.0, **host}
    made = Rig(SimulatedHost(faults=faults or Faults(), **options), **changes)
    made.spec = replace(made.spec, **spec)
    return made


_HOST = (
    *("seed", "truth", "noise", "stalls", "median_us", "tail_share", "most_samples", "slot_bias"),
    *("cores", "generator_per_s", "program"),
)


def blocks(record: Record, phase: Phase, state: str | None = None) -> list[Block]:
    """Return the blocks of a phase, in order of time."""
    return [
        block
        for block in record.blocks
        if block.phase == phase and (state is None or block.state == state)
    ]


def states_of(storage: Storage) -> dict[str, set[str]]:
    """States of the trials of both Optuna studies."""
    return {
        name: {
            trial.state.name for trial in optuna.load_study(study_name=name, storage=storage).trials
        }
        for name in (NAME, f"{NAME}/blocks")
    }


def watched(**changes: Any) -> Rig:
    """Return a study that is long enough for looks before its last block."""
    long: dict[str, Any] = {
        "design": Design(sequential=True),
        "noise": NOISY,
        "effect": 0.04,
        "time_s": 1_200.0,
    }
    return rig(objective="p50", **(long | changes))
