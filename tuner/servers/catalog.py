"""Which servers there are."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.errors import DefinitionError
from tuner.servers import caddy, nghttpx, nginx
from tuner.servers.port import Server

SERVERS: Mapping[str, Server] = {"nginx": nginx, "caddy": caddy, "nghttpx": nghttpx}
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
