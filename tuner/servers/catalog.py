"""The catalog of servers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import PurePath
from types import ModuleType
from typing import cast

from tuner.errors import DefinitionError
from tuner.machine.facts import DEFAULT_SERVER, SERVER_NAMES
from tuner.servers.server import Server

SERVERS: Mapping[str, Server] = {
    name: cast("Server", import_module(f"tuner.servers.{name}")) for name in SERVER_NAMES
}
"""Servers by name; the module of that name is the adapter."""


def modules(pattern: str) -> dict[str, ModuleType]:
    """Return the modules of a pattern by server; servers without one are left out.

    Args:
        pattern: full name of the module, with ``{}`` for the server's name.
    """
    found = {}
    for name in SERVER_NAMES:
        module = pattern.format(name)
        try:
            found[name] = import_module(module)
        except ModuleNotFoundError as error:
            # An existing module that lacks another one is a defect.
            if not f"{module}.".startswith(f"{error.name}."):
                raise
    return found


def server_of_file(path: PurePath) -> str:
    """Return the name of the server that a configuration file is for, by the file's name."""
    claimed = (name for name, each in SERVERS.items() if each.usual_place.claims(path))
    return next(claimed, DEFAULT_SERVER)


def server(name: str) -> Server:
    """Return a server by name.

    Raises:
        DefinitionError: the name is unknown.
    """
    if name not in SERVERS:
        raise DefinitionError(
            f"unknown server {name!r}; allowed: {', '.join(SERVERS)}", path="--server"
        )
    return SERVERS[name]
