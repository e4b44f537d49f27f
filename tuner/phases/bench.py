"""The bench: ports and fixed choices for all phases.

Every phase is a function of a bench and of the results of earlier phases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

from tuner.generators.generator import LoadGenerator
from tuner.goals.goals import Goals
from tuner.goals.objective import Objective
from tuner.hosts.deployer import Deployer, InstanceSpec
from tuner.measurement.gates import Gates
from tuner.measurement.stalls import StallRule
from tuner.phases.resource_watch import ReadCounters
from tuner.record.model import ConfigurationRecord
from tuner.space.configuration import Configuration
from tuner.store.store import Store
from tuner.workload.workload import Workload

MakeInstance = Callable[[str, Configuration, int], InstanceSpec]
"""(name of the folder, configuration, port) → instance to start."""


ReadLog = Callable[[str], bytes]
"""Absolute path of a log on the target → its last lines; empty for a missing log."""


Polling = Callable[[], AbstractContextManager[None]]
"""Lets idle CPUs of the serving host poll instead of halting."""


class Progress(Protocol):
    """A listener for the progress of phases."""

    def phase(self, title: str, expected_s: float) -> None:
        """A phase begins; ``expected_s`` is its approximate duration."""
        ...

    def step(self, text: str, left_s: float) -> None:
        """A step of the phase ended; ``left_s`` is its approximate remainder."""
        ...

    def note(self, text: str) -> None:
        """Show a note to the user."""
        ...

    def window(self, text: str) -> None:
        """A window ended; called between windows, so it must be short."""
        ...

    def best(self, text: str) -> None:
        """Show the leading configuration, with its uncertainty."""
        ...


class Silence:
    """A listener that ignores all progress."""

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
    """Return at once; the pause for simulated hosts."""


@dataclass(frozen=True, slots=True)
class Bench:
    """The ports and the fixed choices of a study."""

    deployer: Deployer
    generator: LoadGenerator
    store: Store
    progress: Progress
    baseline: Configuration
    make_instance: MakeInstance
    describe: Callable[[Configuration], ConfigurationRecord]
    """Returns a configuration with its exported text."""
    free_ports: Callable[[int], Sequence[int]]
    """Returns a number of free ports on the target."""
    workload: Workload
    goals: Goals
    rule: StallRule | None
    gates: Gates
    seed: int
    clock: Callable[[], float]
    """Unix time, seconds; the store's clock."""
    pause: Callable[[float], None] = at_once
    """Waits some seconds for a host that does not answer; by default not at all."""
    others: tuple[Configuration, ...] = ()
    """Further baselines in the confirmation."""
    read_counters: ReadCounters | None = None
    """Reads the kernel's counters of processes and host; None if unreadable."""
    read_log: ReadLog | None = None
    """Reads a server's log of failed requests; None if unreadable."""
    backend_pids: tuple[int, ...] = ()
    """Processes of the workload's backend on this machine."""
    exclusive: bool = False
    """True if only one instance can run at a time, because each needs the whole host."""
    polling: Polling | None = None
    """None if idle CPUs halt."""
    slices: bool = True
    """True if the arms of a block can share windows in slices."""
    freezes: bool = False
    """True if servers are stopped while it is not their turn in a window of slices."""
    same_arrivals: bool = True
    """True if the slices of a set have the same requests in an open loop."""
    deaths: dict[str, set[tuple[int, str]]] = field(default_factory=dict)
    """Deployments in which a server ended unexpectedly, by configuration and program."""
    code: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the servers' programs and libraries in the study's blocks so far, by path."""
    address: str = "127.0.0.1"
    """Address of the instances for the generator."""
    makers: Mapping[str, MakeInstance] = field(default_factory=dict)
    """For arms of one server with different programs, ``make_instance`` by program."""

    def of_program(self, program: str) -> Bench:
        """Return the bench with instances of this program; itself if it is empty."""
        return replace(self, make_instance=self.makers[program]) if program else self

    @property
    def objective(self) -> Objective:
        """The only or first objective."""
        return self.goals.first
