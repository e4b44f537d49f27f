"""The hosts of an inventory, with channels for reading and changing their services."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tuner.hosts.agent import Agent
from tuner.hosts.home import ServiceHome
from tuner.hosts.inventory import Host, Inventory
from tuner.hosts.playbooks import Playbooks
from tuner.hosts.remote import Connections
from tuner.hosts.service import Services
from tuner.paths import temporary


@dataclass(frozen=True, slots=True)
class Reached:
    """Connected hosts."""

    services: Services
    connections: Connections

    def agent(self, host: Host) -> Agent:
        """Return the channel to a host, opened at its first request."""
        return self.connections.agent(host)

    def home(self, host: Host, program: str) -> ServiceHome:
        """Return a host with the environment of its service.

        Raises:
            HostError: the service does not run.
        """
        return ServiceHome(self.agent(host), program)


@contextlib.contextmanager
def reached(hosts: Inventory) -> Iterator[Reached]:
    """Connect to the targets of an inventory, and disconnect at the end of the context."""
    connections = Connections(hosts, hosts.targets)
    try:
        with temporary("apply") as folder:
            path = str(Path(hosts.path).resolve())
            playbooks = Playbooks(Path(folder), path, connections.settings)
            yield Reached(Services(playbooks, Path(folder)), connections)
    finally:
        connections.close()
