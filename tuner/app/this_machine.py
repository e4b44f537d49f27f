"""Server and generator on this machine."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from tuner.app import server_binary
from tuner.app.lent_service import TargetService
from tuner.app.premises import LOOPBACK, Lab
from tuner.app.undisturbed import undisturbed
from tuner.errors import DefinitionError, HostError
from tuner.generators.generator import LoadGenerator
from tuner.generators.h2load import H2loadGenerator
from tuner.generators.native import NativeGenerator
from tuner.generators.wrk2 import Wrk2Generator
from tuner.hosts import counters, idle_polling, kernel, local
from tuner.hosts.ansible import AnsibleDeployer, KernelLoan
from tuner.hosts.host_locks import HostLocks
from tuner.hosts.log_end import log_end
from tuner.hosts.sweep import stop_lab
from tuner.machine.facts import CoreSplit, HostFacts, ServerFacts
from tuner.machine.placement import BY_RULES, WantedCpus, generator_cpus, place
from tuner.measurement.instrument import Load
from tuner.measurement.stalls import StallRule
from tuner.own.target import THIS_MACHINE, Target
from tuner.paths import loadgen_binary
from tuner.servers import backend as lab_backend
from tuner.servers.server import Server
from tuner.space.kernel import KernelState


class ThisMachine:
    """Server and generator on this machine, each on its own cores."""

    def __init__(self) -> None:
        self._host = local.facts()

    @property
    def host(self) -> HostFacts:
        """Implement ``Premises.host``."""
        return self._host

    @property
    def generates_there(self) -> bool:
        """Implement ``Premises.generates_there``."""
        return True

    @property
    def words(self) -> str:
        """Implement ``Premises.words``."""
        return ""

    @property
    def target(self) -> Target:
        """Implement ``Premises.target``."""
        return THIS_MACHINE

    def cores(self, *, backend: bool, wanted: WantedCpus = BY_RULES) -> CoreSplit:
        """Implement ``Premises.cores``."""
        return place(self._host.layout, backend=backend, wanted=wanted)

    def generator_cpus(self, cores: int) -> tuple[int, ...]:
        """Implement ``Premises.generator_cpus``."""
        return generator_cpus(self._host.layout, cores, apart=False)

    def generator_notes(self, _cores: CoreSplit, /) -> Sequence[str]:
        """Implement ``Premises.generator_notes``."""
        return ()

    def refusal_to_poll(self, cpus: Collection[int]) -> str:
        """Implement ``Premises.refusal_to_poll``."""
        return idle_polling.refusal(cpus)

    @contextlib.contextmanager
    def polling(self) -> Iterator[None]:
        """Implement ``Premises.polling``."""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(idle_polling.polling())
            except OSError as error:
                raise HostError(f"idle CPUs cannot poll any more: {error}") from error
            yield

    def take_cores(self, turn: HostLocks, cores: CoreSplit) -> None:
        """Implement ``Premises.take_cores``: the turn has locked this machine's cores already."""

    def detect(self, server: Server, binary: str = "") -> ServerFacts:
        """Implement ``Premises.detect``."""
        return server_binary.detect(server, binary)

    def detect_backend(self, server: ServerFacts) -> ServerFacts:
        """Implement ``Premises.detect_backend``."""
        kind = lab_backend.SERVER
        return server if server.name == kind.name else kind.detect()

    def kernel(self, names: Collection[str]) -> KernelState:
        """Implement ``Premises.kernel``."""
        return kernel.look(names)

    def generator(self, load: Load, cores: CoreSplit) -> LoadGenerator:
        """Implement ``Premises.generator``."""
        if load == "wrk2":
            return Wrk2Generator(cores)
        if load == "h2load":
            return H2loadGenerator(cores)
        return NativeGenerator(loadgen_binary(), cores, StallRule())

    def service(self) -> TargetService:
        """Implement ``Premises.service``."""
        raise DefinitionError(
            "tunes the service of a host of an inventory (--inventory)", path="--in-place"
        )

    @contextlib.contextmanager
    def lab(self, folder: Path, loan: KernelLoan | None) -> Iterator[Lab]:
        """Implement ``Premises.lab``."""
        place, work = local.lab_folder(folder), (folder / "work").resolve()
        claim = local.claim(folder, place, work, kernel=loan is not None)

        def started(programs: Iterable[str], pids: Iterable[int]) -> None:
            nonlocal claim
            claim = local.with_started(claim, programs, pids)
            local.keep(claim)

        deployer = AnsibleDeployer(place, work, user=local.lab_user(), loan=loan, started=started)
        try:
            ports = local.free_ports
            yield Lab(
                *(deployer, work, LOOPBACK, LOOPBACK, ports, ports, counters.read, log_end),
                lambda: local.runnable(str(loadgen_binary()), place),
                runnable=lambda program: local.runnable(program, place),
            )
        finally:
            with undisturbed():
                try:
                    deployer.stop()
                except (HostError, OSError):
                    # The disk may be full; this way needs no space.
                    stop_lab(claim)
                shutil.rmtree(place, ignore_errors=True)
                shutil.rmtree(work, ignore_errors=True)
                local.release(claim)
