"""Properties of the user's server that no configuration changes."""

from __future__ import annotations

from typing import ClassVar

from tuner.machine.facts import ServerFacts
from tuner.render.syntax import Syntax
from tuner.servers.server import Server
from tuner.servers.usual_place import UsualPlace
from tuner.workload.wire import Wire


class OfKind:
    """The part of ``tuner.servers.server.Server`` that no configuration changes."""

    __slots__ = ()
    kind: ClassVar[Server]
    """The adapter."""

    @property
    def name(self) -> str:
        """Implement ``Server``."""
        return self.kind.name

    @property
    def syntax(self) -> Syntax:
        """Implement ``Server``."""
        return self.kind.syntax

    @property
    def usual_place(self) -> UsualPlace:
        """Implement ``Server``."""
        return self.kind.usual_place

    def detect(self, binary: str | None = None) -> ServerFacts:
        """Implement ``Server``."""
        return self.kind.detect(binary)

    def refuses(self, server: ServerFacts, wire: Wire) -> str:
        """Implement ``Server``."""
        return self.kind.refuses(server, wire)
