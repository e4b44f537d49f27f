"""A target's own service in place of a lab: read, lent for a study, restored."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from tuner.app.undisturbed import undisturbed
from tuner.errors import DefinitionError, HostError
from tuner.hosts import local
from tuner.hosts.home import ServiceHome
from tuner.hosts.in_place_deployer import SERVICE, InPlaceDeployer, owner_of
from tuner.hosts.inventory import Inventory
from tuner.hosts.playbooks import Playbooks
from tuner.hosts.remote import Connections
from tuner.hosts.service import SERVICE_FOLDER, Services
from tuner.machine.facts import HostFacts
from tuner.own.files import Files
from tuner.own.service import Socket
from tuner.phases.bench import ReadLog
from tuner.phases.resource_watch import ReadCounters
from tuner.servers.ground import TargetGround


@dataclass(frozen=True, slots=True)
class LentService:
    """A service while it is lent to a study."""

    deployer: InPlaceDeployer
    address: str
    """Address for the load generator."""
    port: int
    cpus: tuple[int, ...]
    read_counters: ReadCounters | None = None
    read_log: ReadLog | None = None

    def free_ports(self, count: int) -> Sequence[int]:
        """Return the service's own port for each instance; only one runs at a time."""
        return (self.port,) * count

    def runnable(self, program: str) -> str:
        """Return the program itself: the service runs it already."""
        return program

    def ground(self, binary: str) -> TargetGround:
        """Return the layout of the host, without folders of a lab."""
        root = Path("/")
        return TargetGround(
            binary=binary,
            instances_dir=root,
            backends_dir=root,
            site_dir=root,
            cpus=self.cpus,
            backend_cpus=(),
            upstreams=(),
            address=self.address,
        )


class TargetService:
    """The service of an inventory's target.

    Args:
        inventory: the hosts.
        connections: connections to them, closed after the loan.
        host: facts of the target.

    Raises:
        DefinitionError: the load would come from the target itself, or its files cannot be changed.
    """

    def __init__(self, inventory: Inventory, connections: Connections, host: HostFacts) -> None:
        self._inventory = inventory
        self._connections = connections
        self._host = host
        name = inventory.target.name
        if inventory.generator.name == name:
            raise DefinitionError(
                f"the service uses all cores of {name}, so the load must come from another host;"
                " add one to the group generators",
                path="--in-place",
            )
        if host.user != "root":
            raise DefinitionError(
                f"a service's files belong to root, but Ansible runs as {host.user} on {name}; set"
                " ansible_become",
                path="--in-place",
            )

    def files(self) -> Files:
        """Return the files of the host, if they are its own.

        Raises:
            HostError: a temporary change of them has not ended.
        """
        target = self._inventory.target
        agent = self._connections.agent(target)
        state = f"{SERVICE_FOLDER}/saved.json"
        if agent.matches(state):
            owner = json.loads(agent.read(state))["owner"]
            self._connections.close()
            raise HostError(
                f"{owner} has changed the service's files on {target.name}; wait until it has"
                " ended, or restore them: tuner rollback, or on the host: python3"
                f" {SERVICE_FOLDER}/guard.py {SERVICE_FOLDER} restore"
            )
        return agent

    def home(self, program: str) -> ServiceHome:
        """Return the host with the environment of its service.

        Args:
            program: path of that program.

        Raises:
            HostError: as ``files``; or the service does not run.
        """
        self.files()
        target = self._inventory.target
        try:
            return ServiceHome(self._connections.agent(target), program)
        except HostError as error:
            self._connections.close()
            raise HostError(f"{target.name}: {error}") from error

    @contextlib.contextmanager
    def unchanged(self, socket: Socket) -> Iterator[str]:
        """Yield the address and port of the service, and close the connections at the end.

        Args:
            socket: socket of the service.
        """
        try:
            yield f"{socket.address or self._inventory.target.address}:{socket.port}"
        finally:
            self._connections.close()

    @contextlib.contextmanager
    def lent(
        self, folder: Path, server: str, socket: Socket, lease_s: float
    ) -> Iterator[LentService]:
        """Yield the service for a study, and always restore it at the end.

        Args:
            folder: folder of the study.
            server: default name of the service, which the inventory may override.
            socket: socket of the service.
            lease_s: time after the last sign of life at which the target restores it.
        """
        target, work = self._inventory.target, (folder / "work").resolve()
        deployer = InPlaceDeployer(
            services_of(self._inventory, self._connections, work),
            target,
            owner=owner_of(folder),
            service=str(target.variables.get(SERVICE, server)),
            lease_s=lease_s,
        )
        path = str(Path(self._inventory.path).resolve())
        claim = local.claim(folder, work, work, inventory=path, in_place=True)
        try:
            yield LentService(
                deployer, socket.address or target.address, socket.port, self._host.cpus
            )
        finally:
            with undisturbed():
                try:
                    deployer.stop()
                except HostError as error:
                    # The claim stays, so that the next command retries.
                    click.echo(
                        f"note: the service on {target.name} could not be restored from here; it"
                        f" restores itself within {lease_s:.0f} s: {error}",
                        err=True,
                    )
                else:
                    local.release(claim)
                self._connections.close()
                shutil.rmtree(work, ignore_errors=True)


def services_of(inventory: Inventory, connections: Connections, work: Path) -> Services:
    """Return the adapter that changes the services of an inventory's hosts.

    Args:
        inventory: the hosts.
        connections: connections to them.
        work: folder on this machine for files to send, created if missing.
    """
    work.mkdir(parents=True, exist_ok=True)
    path = str(Path(inventory.path).resolve())
    return Services(Playbooks(work, path, connections.settings), work)
