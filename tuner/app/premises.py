"""Premises of a study: its hosts, and the access to them.

``ThisMachine`` and ``Fleet`` implement them, and ``resolve`` chooses. All other modules of this
room use ``Premises``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tuner.app.lent_service import TargetService
from tuner.generators.generator import LoadGenerator
from tuner.hosts.ansible import AnsibleDeployer, KernelLoan
from tuner.hosts.host_locks import HostLocks
from tuner.machine.facts import CoreSplit, HostFacts, ServerFacts
from tuner.machine.placement import BY_RULES, WantedCpus
from tuner.measurement.instrument import Load
from tuner.own.target import Target
from tuner.phases.bench import ReadLog
from tuner.phases.resource_watch import ReadCounters
from tuner.servers.server import Server
from tuner.space.kernel import KernelState

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Lab:
    """A study's folders and ports, on any host."""

    deployer: AnsibleDeployer
    work: Path
    """Folder on this machine for prepared files."""
    address: str
    """Address on which instances listen."""
    backend_address: str
    free_ports: Callable[[int], Sequence[int]]
    """Returns free ports on the target."""
    backend_ports: Callable[[int], Sequence[int]]
    read_counters: ReadCounters
    """Reader of the kernel's counters of server, backend and a local generator."""
    read_log: ReadLog
    """Reader of the end of a log on the target."""
    native_backend: Callable[[], str]
    """Returns a path at which the backend's host can run ``tuner-loadgen``."""
    runnable: Callable[[str], str] = str
    """Returns a path at which the account of the instances can run a program."""


class Premises(Protocol):
    """The hosts of a study, and the access to them."""

    @property
    def host(self) -> HostFacts:
        """Facts of the serving host."""
        ...

    @property
    def generates_there(self) -> bool:
        """True if the generator runs on the serving host."""
        ...

    @property
    def words(self) -> str:
        """Names of target and generator; empty if both are this machine."""
        ...

    @property
    def target(self) -> Target:
        """Host of the user's own configuration."""
        ...

    def cores(self, *, backend: bool, wanted: WantedCpus = BY_RULES) -> CoreSplit:
        """Split the CPUs between server, generator and backend.

        Raises:
            DefinitionError: the CPUs that the user names leave none for the others.
        """
        ...

    def generator_cpus(self, cores: int) -> tuple[int, ...]:
        """Return CPUs for a generator on several cores; fewer if a host of it is too small."""
        ...

    def generator_notes(self, cores: CoreSplit, /) -> Sequence[str]:
        """Return notes on the CPUs of generators on other hosts than the serving one."""
        ...

    def refusal_to_poll(self, cpus: Collection[int]) -> str:
        """Return why these CPUs of the serving host cannot poll while idle; empty if they can."""
        ...

    def polling(self) -> AbstractContextManager[None]:
        """Let idle CPUs of the serving host poll instead of halting.

        Raises:
            HostError: the host does not allow it any more.
        """
        ...

    def take_cores(self, turn: HostLocks, cores: CoreSplit) -> None:
        """Lock these cores for this command.

        Raises:
            HostError: another study has locked them.
        """
        ...

    def detect(self, server: Server, binary: str = "") -> ServerFacts:
        """Return the server on the target.

        Args:
            server: adapter of the server.
            binary: path of its program; empty for the installed one.

        Raises:
            DefinitionError: ``binary`` is not such a program.
            HostError: it is missing.
        """
        ...

    def detect_backend(self, server: ServerFacts) -> ServerFacts:
        """Return the server behind a proxy: the one under test if it is suitable.

        Raises:
            HostError: it is missing.
        """
        ...

    def kernel(self, names: Collection[str]) -> KernelState:
        """Return the target's kernel settings by name.

        Raises:
            DefinitionError: none of the settings can be changed there.
        """
        ...

    def generator(self, load: Load, cores: CoreSplit) -> LoadGenerator:
        """Return the load generator.

        Raises:
            InstrumentError, DefinitionError: it is missing, or does not support these hosts.
        """
        ...

    def lab(self, folder: Path, loan: KernelLoan | None) -> contextlib.AbstractContextManager[Lab]:
        """Return a lab for a study, which is always removed at the end.

        Args:
            folder: folder of the study.
            loan: terms for changes of kernel settings; None for no changes.
        """
        ...

    def service(self) -> TargetService:
        """Return the target's own service, for tuning in place.

        Raises:
            DefinitionError: these hosts do not support it.
        """
        ...
