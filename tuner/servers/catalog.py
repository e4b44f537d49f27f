"""The catalog of servers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import cast

from tuner.errors import DefinitionError
from tuner.machine.facts import SERVER_NAMES
from tuner.servers.server import Server

SERVERS: Mapping[str, Server] = {
    name: cast("Server", import_module(f"tuner.servers.{name}")) for name in SERVER_NAMES
}
"""By name: the module of that name is the adapter."""


def server(name: str) -> Server:
    """Return the server of that name.

    Raises:
        DefinitionError: there is none.
    """
    if name not in SERVERS:
        raise DefinitionError(
            f"unknown server {name!r}; allowed: {', '.join(SERVERS)}", path="--server"
        )
    return SERVERS[name]
