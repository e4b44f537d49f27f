"""The port: how the configurations of one kind of server are read, in a lab and on hosts.

A module ``tuner.own.NAME.reader`` is an adapter: its names are the protocol's. A server that has
none is tuned from its template only. With a module ``tuner.own.NAME.service`` in its place, which
has the names of ``ServiceReader``, the result is applied to the own files of hosts all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tuner.own.bound import BoundSpace
from tuner.own.files import Files
from tuner.own.home import Home
from tuner.own.server import OwnConfiguration, OwnOptions
from tuner.own.target import Target
from tuner.reading.log_notation import LineFormat
from tuner.space.configuration import Configuration
from tuner.space.space import Space
from tuner.workload.workload import Workload


class Service(Protocol):
    """A service of another host, to be tuned in place."""

    def files(self) -> Files:
        """Return the files of the host.

        Raises:
            HostError: they are not its own at the moment.
        """
        ...

    def home(self, program: str) -> Home:
        """Return the host as the program of the service finds it.

        Raises:
            HostError: as ``files``; or the service does not run.
        """
        ...


class Placed(Protocol):
    """Parameters of a space, with their places in the files of a service."""

    @property
    def bound(self) -> BoundSpace:
        """The space with the values that the files say."""
        ...

    def texts(self, configuration: Configuration) -> dict[str, str]:
        """Return the files that a configuration changes, by path."""
        ...


@dataclass(frozen=True, slots=True)
class FoundService:
    """The configuration of a host's service as it stands there."""

    main: str
    """Path of the main file."""
    texts: Mapping[str, str]
    """Every file that it is read from, by path; bytes that are not UTF-8 as lone surrogates."""
    resolved: str
    """One text with the includes in place."""


class PlaceFinder(Protocol):
    """Finder of the places of a lab's parameters in the files of a service."""

    def __call__(
        self, found: FoundService, space: Space, *, server_name: str, tls: bool, proxied: bool
    ) -> Placed:
        """Return the places.

        Args:
            found: what ``Reader.read_service`` returned.
            space: of the lab.
            server_name: server of the configuration that is meant; empty: the default one.
            tls: whether it is asked over TLS.
            proxied: whether it must be a proxy.

        Raises:
            DefinitionError: nothing can be set in them.
        """
        ...


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands on a host about the files of a service."""

    validate: tuple[str, ...]
    """Refuses a bad configuration; its output says why."""
    adapted: tuple[str, ...] = ()
    """Prints what the service's administration must report; empty: it has none."""
    program: str = ""
    """Program of the service; the commands run with its account. Empty: as root."""


class ServiceReader(Protocol):
    """A reader of a host's service, for ``tuner apply``."""

    @property
    def place(self) -> PlaceFinder | None:
        """Finder of a lab's parameters in the files of a service; None: they cannot be."""
        ...

    def read_service(self, main: str, files: Files, home: Callable[[], Home]) -> FoundService:
        """Return the configuration of a service as it stands.

        Args:
            main: path of the main file.
            files: of the host.
            home: the host as the service's program finds it; asked only where that reads them.

        Raises:
            DefinitionError: at file and line.
        """
        ...

    def commands(self, main: str, *, usual: bool) -> Commands:
        """Return the commands about the files of a service.

        Args:
            main: path of the main file.
            usual: whether that is where the server looks for it by itself.
        """
        ...


class Reader(ServiceReader, Protocol):
    """A reader of the configurations of one kind of server."""

    @property
    def reads_with_program(self) -> bool:
        """True if the server's own program reads a configuration, so that it must be at hand."""
        ...

    @property
    def passes_grpc(self) -> bool:
        """True if the lab can answer gRPC behind it."""
        ...

    @property
    def tunes_in_place(self) -> bool:
        """True if a host's own service can be tuned (``read_in_place``)."""
        ...

    def read(
        self, wishes: OwnOptions, workload: Workload, target: Target, program: str
    ) -> OwnConfiguration:
        """Return a configuration of this machine, and what of it a workload reaches.

        Args:
            wishes: the file, and what is meant in it.
            workload: what is asked.
            target: host that serves it.
            program: of the server, on this machine; empty unless ``reads_with_program``.

        Raises:
            DefinitionError: at the user's file and line, or the option.
        """
        ...

    def sites_of(self, wishes: OwnOptions, workload: Workload, program: str) -> tuple[str, ...]:
        """Return the site that answers each request of a workload alone; "" where the lab cannot.

        Args:
            wishes: as for ``read``.
            workload: the requests.
            program: as for ``read``.

        Raises:
            DefinitionError: the configuration cannot be read.
        """
        ...

    def read_in_place(
        self, wishes: OwnOptions, workload: Workload, service: Service, program: str
    ) -> OwnConfiguration:
        """Return the configuration of a service, and what of it a workload reaches.

        Args:
            wishes: as for ``read``; the file is the host's.
            workload: of the service's own content.
            service: the service.
            program: of the service.

        Raises:
            DefinitionError: as ``read``.
            HostError: see ``Service``.
        """
        ...

    def log_formats(self, main: str, log: str) -> tuple[LineFormat, ...]:
        """Return the formats of access logs that a configuration defines, those of a log first.

        Args:
            main: path of the main file.
            log: name of the log's file, without the suffixes of rotation.

        Raises:
            DefinitionError: the configuration cannot be read, or the server has no such formats.
        """
        ...

    def access_logs(self, main: str) -> tuple[str, ...]:
        """Return the absolute paths of the access logs that a configuration writes.

        Leaves out names that the server makes up while it runs.

        Args:
            main: path of the main file.

        Raises:
            DefinitionError: the configuration cannot be read.
        """
        ...

    def version(self) -> str:
        """Return the version of this machine's server, as quickly as possible.

        Raises:
            HostError: the server is missing.
        """
        ...

    def sites(self, main: str, files: Files) -> int:
        """Return the number of sites that serve pages, without running the server.

        Args:
            main: path of the main file.
            files: of its host.

        Raises:
            DefinitionError: the configuration cannot be read.
        """
        ...
