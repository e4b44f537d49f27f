"""The port for servers: what tuner needs of each.

Each module of this folder is an adapter with the protocol's names. ``docs/servers.md`` shows how to
add one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from tuner.hosts.deployer import InstanceSpec
from tuner.machine.facts import ServerFacts
from tuner.render.render import EXPORT, Placement
from tuner.render.syntax import Syntax
from tuner.servers.ground import TargetGround
from tuner.servers.usual_place import UsualPlace
from tuner.space.configuration import Configuration
from tuner.space.space import Space
from tuner.workload.wire import Wire


class Server(Protocol):
    """One kind of server: detection, configuration, proof that it is live, and export."""

    @property
    def name(self) -> str:
        """Name for users and for its folders in ``templates/`` and ``spaces/``."""
        ...

    @property
    def syntax(self) -> Syntax:
        """Syntax of its configuration."""
        ...

    @property
    def file_name(self) -> str:
        """Name of its configuration file."""
        ...

    @property
    def usual_place(self) -> UsualPlace:
        """Usual paths and service name."""
        ...

    def detect(self, binary: str | None = None) -> ServerFacts:
        """Find the program, and return its version and features.

        Raises:
            HostError: it is missing (the message names the package) or does not answer.
        """
        ...

    def refuses(self, server: ServerFacts, wire: Wire) -> str:
        """Return why this build lacks a workload's protocol, in words; empty if it has it."""
        ...

    def instance(
        self,
        label: str,
        configuration: Configuration,
        space: Space,
        ground: TargetGround,
        port: int,
    ) -> InstanceSpec:
        """Return a configuration as an isolated instance on its own port.

        Raises:
            DefinitionError: the configuration cannot be written.
        """
        ...

    def export_text(
        self, configuration: Configuration, space: Space, placement: Placement = EXPORT
    ) -> str:
        """Return the configuration for deployment, with usual paths and ports.

        Raises:
            DefinitionError: the configuration cannot be written, or does not fit the placement.
        """
        ...


@runtime_checkable
class ExportsMore(Protocol):
    """A server with further files of an export."""

    def export_files(
        self,
        configuration: Configuration,
        space: Space,
        server: ServerFacts,
        placement: Placement = EXPORT,
    ) -> Mapping[str, str]:
        """Return further files of an export by name."""
        ...
