"""The program that the user names for a server (``--server-binary``)."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.errors import DefinitionError, HostError
from tuner.machine.facts import ServerFacts
from tuner.record.model import Record
from tuner.servers.program import named_program
from tuner.servers.server import Server
from tuner.store.signature import made_here

KEY = "server_binary"
"""Name of the option in a definition."""
OPTION = "--server-binary"


def detect(server: Server, binary: str) -> ServerFacts:
    """Return the facts of the program that the user names, or of the installed server.

    Args:
        server: adapter of the server.
        binary: path of the program; empty for the installed one.

    Raises:
        DefinitionError: the path is not that of such a program.
        HostError: no server is installed.
    """
    if not binary:
        return server.detect()
    program = named_program(binary, OPTION)
    try:
        return server.detect(program)
    except HostError as error:
        said = str(error).partition("\n")[0]
        raise DefinitionError(f"{said}; name a program of {server.name}", path=OPTION) from None


def own_definition(record: Record) -> Mapping[str, object]:
    """Return the definition in a record, without a program that somebody else named.

    A record from elsewhere may name any program of this machine, and detecting a server runs it.
    The server is then the installed one.
    """
    if made_here(record) == "elsewhere":
        return {key: value for key, value in record.definition.items() if key != KEY}
    return record.definition
