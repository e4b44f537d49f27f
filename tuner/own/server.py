"""The port for the user's own configuration in a study, for any server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from tuner.errors import DefinitionError
from tuner.machine.facts import ServerFacts
from tuner.own.bound import BoundSpace
from tuner.own.service import Socket
from tuner.servers.server import ExportsMore, Server
from tuner.space.space import Space
from tuner.workload.wire import Tls
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


def over_tls(workload: Workload, *, served: bool) -> Workload:
    """Return the workload as it must be asked: over TLS where the site is ``served`` so."""
    if not served or workload.wire.tls is not None:
        return workload
    return replace(workload, wire=replace(workload.wire, tls=Tls()))


def answered_by(workload: Workload, locate: Callable[[Workload], str]) -> Iterator[str]:
    """Yield the site that answers each request of a workload alone; "" where the lab cannot.

    Args:
        workload: the workload.
        locate: returns the site of a workload of one request, or raises DefinitionError.
    """
    for request in workload.requests:
        try:
            yield locate(replace(workload, requests=(request,)))
        except DefinitionError:
            yield ""


class OwnServer(Server, ExportsMore, Protocol):
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
