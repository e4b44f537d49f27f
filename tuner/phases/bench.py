"""The bench: ports and fixed choices that all phases share.

Every phase is a function of a bench and of what the phases before it found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tuner.goals.goals import Goals
from tuner.goals.objective import Objective
from tuner.hosts.deployer import Deployer, InstanceSpec
from tuner.load.generator import LoadGenerator
from tuner.measurement.stalls import StallRule
from tuner.measurement.window import Gates
from tuner.phases.watch import ReadCounters
from tuner.record.model import ConfigurationRecord
from tuner.space.configuration import Configuration
from tuner.store.store import Store
from tuner.workload.workload import Workload

MakeInstance = Callable[[str, Configuration, int], InstanceSpec]
"""(label, configuration, port) → what the host must start."""


ReadLog = Callable[[str], bytes]
"""From the absolute path of a log on the target to its last lines; none: nothing is there."""


class Progress(Protocol):
    """A listener for the progress of phases; the edge decides how it looks."""

    def phase(self, title: str, expected_s: float) -> None:
        """A phase begins, and takes about so long."""
        ...

    def step(self, text: str, left_s: float) -> None:
        """Something happened; about so much of the phase is left."""
        ...

    def note(self, text: str) -> None:
        """Something the user should know."""
        ...

    def window(self, text: str) -> None:
        """A window ended; called between windows, so it must be short."""
        ...

    def best(self, text: str) -> None:
        """Show the leading configuration, with its uncertainty."""
        ...


class Silence:
    """Progress that nobody watches."""

    def phase(self, title: str, expected_s: float) -> None:
        """Implement ``Progress.phase``."""

    def step(self, text: str, left_s: float) -> None:
        """Implement ``Progress.step``."""

    def note(self, text: str) -> None:
        """Implement ``Progress.note``."""

    def window(self, text: str) -> None:
        """Implement ``Progress.window``."""

    def best(self, text: str) -> None:
        """Implement ``Progress.best``."""


def at_once(_: float) -> None:
    """A pause of no length, for hosts whose time is not ours."""


@dataclass(frozen=True, slots=True)
class Bench:
    """The ports and the choices that hold for the whole study."""

    deployer: Deployer
    generator: LoadGenerator
    store: Store
    progress: Progress
    baseline: Configuration
    make_instance: MakeInstance
    describe: Callable[[Configuration], ConfigurationRecord]
    """A configuration with its text as it would be exported."""
    free_ports: Callable[[int], Sequence[int]]
    """So many free ports on the target."""
    workload: Workload
    goals: Goals
    rule: StallRule | None
    gates: Gates
    seed: int
    clock: Callable[[], float]
    """Unix time in seconds, as the store has it."""
    pause: Callable[[float], None] = at_once
    """Waits so many seconds for a host that does not answer; by default not at all."""
    beside: tuple[Configuration, ...] = ()
    """Further baselines, which the confirmation measures beside the first one."""
    read_counters: ReadCounters | None = None
    """Reads what the kernel counts of processes and host; None where it cannot be read."""
    read_log: ReadLog | None = None
    """Reads what a server says of failed requests; None where it cannot be read."""
    backend_pids: tuple[int, ...] = ()
    """Processes of the workload's backend, as far as they are on this machine."""
    exclusive: bool = False
    """True if only one instance can live at a time, since each has the whole host to itself."""
    deaths: dict[str, set[tuple[int, str]]] = field(default_factory=dict)
    """By configuration, the deployments in which its server ended without being asked to."""
    address: str = "127.0.0.1"
    """Address of the instances as the generator reaches them."""

    @property
    def objective(self) -> Objective:
        """The objective; of two, the first."""
        return self.goals.first
