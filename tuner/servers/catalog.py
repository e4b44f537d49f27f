"""Which servers there are."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.errors import DefinitionError
from tuner.servers import nginx
from tuner.servers.port import Server

SERVERS: Mapping[str, Server] = {"nginx": nginx}
"""By name: those of ``tuner.facts.SERVER_NAMES``, which definitions are checked against."""


def server(name: str) -> Server:
    """The server of that name.

    Raises:
        DefinitionError: there is none.
    """
    if name not in SERVERS:
        raise DefinitionError(
            f"unknown server {name!r}; allowed: {', '.join(SERVERS)}", path="--server"
        )
    return SERVERS[name]
