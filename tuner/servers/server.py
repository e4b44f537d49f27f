"""The port: what tuner needs of a server, whichever it is.

A module of this folder is an adapter: its names are the protocol's. ``docs/servers.md`` shows how
one is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

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
    """One kind of server: found, asked, given a configuration, proved live, exported."""

    @property
    def name(self) -> str:
        """As users call it, and as its folders in ``templates/`` and ``spaces/`` are called."""
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
        """Find the program and ask what it is and can do.

        Raises:
            HostError: there is none, with what to install; or it does not answer.
        """
        ...

    def refuses(self, server: ServerFacts, wire: Wire) -> str:
        """Why this build cannot speak what a workload asks, in words; empty if it can."""
        ...

    def instance(
        self,
        label: str,
        configuration: Configuration,
        space: Space,
        ground: TargetGround,
        port: int,
    ) -> InstanceSpec:
        """Return a configuration as an isolated instance on a port of its own.

        Raises:
            DefinitionError: the configuration cannot be written.
        """
        ...

    def export_text(
        self, configuration: Configuration, space: Space, placement: Placement = EXPORT
    ) -> str:
        """The configuration as a user would deploy it: usual paths and ports, no trace of a lab.

        Raises:
            DefinitionError: the configuration cannot be written, or does not fit the placement.
        """
        ...

    def export_files(
        self,
        configuration: Configuration,
        space: Space,
        server: ServerFacts,
        placement: Placement = EXPORT,
    ) -> Mapping[str, str]:
        """Return further files of an export by name; mostly none."""
        ...
