"""Target, generators and backend on the hosts of an inventory."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import socket
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import click

from tuner.app import server_binary
from tuner.app.cpu_notes import generator_notes
from tuner.app.fleet_generators import FleetGenerators, refuse_target_among
from tuner.app.lent_service import TargetService, services_of
from tuner.app.premises import LOOPBACK, Lab
from tuner.app.undisturbed import undisturbed
from tuner.errors import HostError
from tuner.generators.generator import LoadGenerator
from tuner.hosts import counters, local, remote
from tuner.hosts.ansible import AnsibleDeployer, KernelLoan
from tuner.hosts.host_locks import HostLocks
from tuner.hosts.in_place_deployer import owner_of
from tuner.hosts.inventory import Host, Inventory, read_inventory
from tuner.hosts.playbooks import Playbooks
from tuner.machine.facts import CoreSplit, HostFacts, ServerFacts
from tuner.machine.placement import (
    BY_RULES,
    WantedCpus,
    place,
    place_backend,
    place_generator,
    place_server,
)
from tuner.machine.topology import Topology
from tuner.measurement.instrument import Load
from tuner.own.target import Target
from tuner.paths import loadgen_binary, temporary
from tuner.servers import backend as lab_backend
from tuner.servers.program import elsewhere
from tuner.servers.server import Server
from tuner.space.kernel import KernelState


class Fleet:
    """Target, generators and backend of an inventory.

    Args:
        inventory: the hosts.
        serves: the server that the target must have already; empty: none.
    """

    def __init__(self, inventory: Inventory, *, serves: str = "") -> None:
        refuse_target_among(inventory)
        self._inventory = inventory
        self._serves = serves
        self._turn: tuple[HostLocks, CoreSplit] | None = None
        self._connections = remote.Connections(inventory)
        self._path = str(Path(inventory.path).resolve())
        try:
            self._facts = self._look()
        except BaseException:
            self._connections.close()
            raise
        self._generators = FleetGenerators(inventory, self._connections, self._facts)

    @property
    def host(self) -> HostFacts:
        """Implement ``Premises.host``."""
        return self._facts[self._inventory.target.name].host

    @property
    def generates_there(self) -> bool:
        """Implement ``Premises.generates_there``."""
        return self._generators.generate_there

    @property
    def words(self) -> str:
        """Implement ``Premises.words``."""
        hosts = self._inventory
        backend = f", backend {hosts.backend.name}" if hosts.backends else ""
        names = [host.name for host in hosts.generators]
        load = f"generator{'s' if names[1:] else ''} {', '.join(names)}"
        return f"target {hosts.target.name}, {load}{backend}"

    @property
    def target(self) -> Target:
        """Implement ``Premises.target``."""
        return self._connections.agent(self._inventory.target)

    def cores(self, *, backend: bool, wanted: WantedCpus = BY_RULES) -> CoreSplit:
        """Implement ``Premises.cores``; different hosts share no cores."""
        hosts = self._inventory
        target = self.host.layout
        apart = bool(hosts.backends)
        here = replace(wanted, backend=()) if apart else wanted
        if self.generates_there:
            split = place(target, backend=backend and not apart, wanted=here)
        else:
            # CPUs that the user names must be there on each of the hosts.
            generator, *_ = [place_generator(self._layout(h), wanted) for h in hosts.generators]
            server, behind = place_server(target, backend=backend and not apart, wanted=here)
            split = CoreSplit(generator, server, behind, shared=False)
        if not (backend and apart):
            return split
        theirs = place_backend(self._layout(hosts.backend), wanted)
        return replace(split, backend=theirs, backend_apart=True)

    def generator_cpus(self, cores: int) -> tuple[int, ...]:
        """Implement ``Premises.generator_cpus``."""
        return self._generators.usable_cpus(cores)

    def generator(self, load: Load, cores: CoreSplit) -> LoadGenerator:
        """Implement ``Premises.generator``."""
        return self._generators.open(load, cores)

    def generator_notes(self, cores: CoreSplit, /) -> Sequence[str]:
        """Implement ``Premises.generator_notes``."""
        if self.generates_there:
            return ()
        return [
            f"{host.name}: {note}"
            for host in self._inventory.generators
            for note in generator_notes(self._layout(host), self._generators.cpus_on(host, cores))
        ]

    def _layout(self, host: Host) -> Topology:
        return self._facts[host.name].host.layout

    def refusal_to_poll(self, cpus: Collection[int]) -> str:
        """Implement ``Premises.refusal_to_poll``."""
        return self._connections.agent(self._inventory.target).refusal_to_poll(cpus)

    def polling(self) -> AbstractContextManager[None]:
        """Implement ``Premises.polling``."""
        return self._connections.agent(self._inventory.target).polling()

    def take_cores(self, turn: HostLocks, cores: CoreSplit) -> None:
        """Implement ``Premises.take_cores``; each host's agent holds the locks there."""
        self._turn = turn, cores
        hosts = self._inventory
        wanted: dict[str, set[int]] = {}
        for host, cpus in (
            *((host, self._generators.cpus_on(host, cores)) for host in hosts.generators),
            (hosts.target, cores.server),
            (hosts.backend, cores.backend),
        ):
            wanted.setdefault(host.name, set()).update(cpus)
        for host in hosts.in_use:
            agent = self._connections.agent(host)
            if wanted.get(host.name):
                turn.take_cores(wanted[host.name], agent.take_cores, host.name)

    def detect(self, server: Server, binary: str = "") -> ServerFacts:
        """Implement ``Premises.detect``."""
        return self._detect(server, self._inventory.target, binary)

    def detect_backend(self, server: ServerFacts) -> ServerFacts:
        """Implement ``Premises.detect_backend``."""
        kind = lab_backend.SERVER
        if server.name == kind.name and not self._inventory.backends:
            return server
        return self._detect(kind, self._inventory.backend)

    def _detect(self, server: Server, host: Host, binary: str = "") -> ServerFacts:
        with elsewhere(self._connections.agent(host)):
            try:
                return server_binary.detect(server, binary)
            except HostError as error:
                raise HostError(f"{host.name}: {error}") from error

    def kernel(self, names: Collection[str]) -> KernelState:
        """Implement ``Premises.kernel``."""
        with _ansible_folder() as work:
            playbooks = Playbooks(work, self._path, self._connections.settings)
            return remote.look(playbooks, self._inventory.target, names)

    @contextlib.contextmanager
    def lab(self, folder: Path, loan: KernelLoan | None) -> Iterator[Lab]:
        """Implement ``Premises.lab``."""
        hosts = self._inventory
        if self._turn:
            # With several fleets in one command, the one with the locks may be closed.
            self.take_cores(*self._turn)
        place, work = lab_folder(folder), (folder / "work").resolve()
        deployer = _deployer(hosts, place, work, self._connections, loan)
        claim = local.claim(folder, place, work, kernel=loan is not None, inventory=self._path)
        try:
            yield Lab(
                deployer,
                work,
                hosts.target.address,
                hosts.backend.address if hosts.backends else LOOPBACK,
                lambda count: self._ports(hosts.target, hosts.target.address, count),
                lambda count: self._ports(
                    hosts.backend, hosts.backend.address if hosts.backends else LOOPBACK, count
                ),
                counters.RemoteCounters(
                    *map(self._connections.agent, (hosts.target, hosts.backend))
                ),
                self._connections.agent(hosts.target).log_end,
                lambda: self._native_backend(place),
            )
        finally:
            with undisturbed():
                try:
                    deployer.remove()
                except HostError as error:
                    # The claim stays, so that the next command retries.
                    click.echo(f"note: the lab could not be removed: {error}", err=True)
                else:
                    local.release(claim)
                self._connections.close()
                shutil.rmtree(work, ignore_errors=True)

    def service(self) -> TargetService:
        """Implement ``Premises.service``."""
        return TargetService(self._inventory, self._connections, self.host)

    def _native_backend(self, place: Path) -> str:
        """Return a copy of tuner-loadgen in the lab, which every account can run."""
        host = self._inventory.backend
        copy = str(place / "programs" / "tuner-loadgen")
        command = ("install", "-D", "-m", "0755", self._facts[host.name].loadgen, copy)
        code, out, err = self._connections.agent(host).run_command(command)
        if code:
            said = err.strip() or out.strip()
            raise HostError(f"{host.name}: tuner-loadgen cannot be copied to {copy}: {said}")
        return copy

    def _ports(self, host: Host, address: str, count: int) -> Sequence[int]:
        return self._connections.agent(host).free_ports(address, count)

    def _look(self) -> dict[str, remote.RemoteFacts]:
        """Return facts of all hosts, after installing missing programs."""
        found = self._provisioned()
        for host in self._inventory.in_use:
            seen = self._connections.agent(host).topology()
            facts = replace(found[host.name].host, topology=seen)
            found[host.name] = replace(found[host.name], host=facts)
        return found

    def _provisioned(self) -> dict[str, remote.RemoteFacts]:
        hosts, binary = self._inventory, loadgen_binary()
        with _ansible_folder() as work:
            playbooks = Playbooks(work, self._path, self._connections.settings)
            found = dict(remote.read_facts(playbooks, hosts.in_use))
            missing = [h for h in hosts.in_use if h.name not in found]
            if missing:
                raise HostError(f"no facts of {', '.join(h.name for h in missing)}")
            wanted = remote.checksum(binary)
            measuring = (hosts.target, *hosts.generators, hosts.backend)
            stale = [h for h in measuring if found[h.name].loadgen_sha256 != wanted]
            # Nothing is installed for a service that is tuned in place.
            program = self._serves or lab_backend.SERVER.name
            serving = (hosts.target,) if self._serves else (hosts.target, hosts.backend)
            bare = [h for h in serving if found[h.name].programs[program] is None]
            if self._serves and bare:
                raise HostError(
                    f"{hosts.target.name} has no {program}, so there is nothing to tune in place"
                )
            if not stale and not bare:
                return found
            for host in measuring:
                remote.refuse_machine(binary, host.name, found[host.name].machine)
            names = ", ".join(dict.fromkeys(host.name for host in (*stale, *bare)))
            click.echo(f"provision  {names}", err=True)
            remote.provision(
                playbooks, servers=serving, hosts=measuring, loadgen=binary, program=program
            )
            return dict(remote.read_facts(playbooks, hosts.in_use)) if bare else found


def lab_folder(study: Path) -> Path:
    """Return the folder on another host for the instances of this machine's study."""
    identity = f"{socket.gethostname()}:{study.resolve()}"
    return Path("/var/tmp") / f"tuner-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"  # noqa: S108 - made with a fixed mode


def _deployer(
    hosts: Inventory,
    place: Path,
    work: Path,
    connections: remote.Connections,
    loan: KernelLoan | None,
) -> AnsibleDeployer:
    return AnsibleDeployer(
        place,
        work,
        # If Ansible is not root there, its own account runs them.
        user="nobody",
        inventory=str(Path(hosts.path).resolve()),
        target=hosts.target.name,
        backend=hosts.backend.name,
        settings=connections.settings,
        loan=loan,
    )


def restore_stray(stray: local.Claim) -> None:
    """Remove the leftovers of a dead study on the hosts of its inventory.

    Raises:
        HostError, DefinitionError: that is impossible now.
    """
    place, work = Path(stray.lab), Path(stray.work)
    inventory = read_inventory(stray.inventory)
    connections = remote.Connections(inventory)
    try:
        if stray.in_place:
            services_of(inventory, connections, work).restore(
                [inventory.target], owner_of(Path(stray.study))
            )
            return
        loan = KernelLoan() if stray.kernel else None
        _deployer(inventory, place, work, connections, loan).remove()
    finally:
        connections.close()


@contextlib.contextmanager
def _ansible_folder() -> Iterator[Path]:
    """Yield a temporary folder for Ansible's own files, before the study's exists."""
    with temporary("ansible") as name:
        yield Path(name)
