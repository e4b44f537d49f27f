"""The port for the user's own configuration in a study, for any server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tuner.machine.facts import ServerFacts
from tuner.own.bound import BoundSpace
from tuner.own.service import Socket
from tuner.servers.server import Server
from tuner.space.space import Space
from tuner.workload.workload import Request, Workload


@dataclass(frozen=True, slots=True)
class OwnOptions:
    """The user's options about their configuration."""

    config: str
    server_name: str = ""
    root: str = ""
    prefix: tuple[str, ...] = ()
    """``/etc/nginx=FOLDER``: copies of folders that the configuration names."""
    env_file: str = ""
    """File with the variables that the configuration names."""
    keep_upstreams: bool = False


class OwnServer(Server, Protocol):
    """The user's server behind the port of servers: instances and exports of the user's files."""

    @property
    def bound(self) -> BoundSpace:
        """The space with the user's values."""
        ...

    @property
    def site(self) -> str:
        """The tuned site of the configuration, with its file and line."""
        ...

    def answering(self, request: Request) -> str:
        """Return the part of the configuration that answers a request, with its file and line."""
        ...


@runtime_checkable
class InPlaceServer(OwnServer, Protocol):
    """The user's server where it is: instances are the host's own service with other files."""

    @property
    def socket(self) -> Socket:
        """Return the socket at which the service is reached."""
        ...


class OwnConfiguration(Protocol):
    """A configuration that was read, and what of it a workload reaches."""

    @property
    def workload(self) -> Workload:
        """As it must be asked here: over TLS where the server speaks nothing else."""
        ...

    def adapt(self, space: Space, server: ServerFacts) -> tuple[OwnServer, tuple[str, ...]]:
        """Return the adapter of the server, and what the lab does otherwise.

        Raises:
            DefinitionError: the server refuses the configuration, or nothing in it can be tuned.
        """
        ...
