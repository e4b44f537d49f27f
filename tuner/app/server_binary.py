"""The program that the user names for a server (``--server-binary``)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from tuner.definition.study import recorded_choices
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


def confirm_programs(kept: object, named: Sequence[str], *, elsewhere: bool) -> None:
    """Raise DefinitionError unless a resumed run may use the programs in its record.

    A run from elsewhere may name any program of this machine, so the user must name it too.

    Args:
        kept: programs in the record; None without any.
        named: programs that the user names now.
        elsewhere: whether the run began elsewhere.

    Raises:
        DefinitionError: the user names other programs, or none for a run from elsewhere.
    """
    known = [str(program) for program in kept] if isinstance(kept, list | tuple) else []
    if list(named) == known or not (named or elsewhere):
        return
    words = " ".join(f"{OPTION} {shlex.quote(program)}" for program in known)
    if named:
        raise DefinitionError(
            f"the run began with {words or 'the installed servers'}; name the same, or begin a new"
            " run",
            path=OPTION,
        )
    raise DefinitionError(
        f"the run was not begun here, and it names programs to start; if you trust them, add:"
        f" {words}",
        path=OPTION,
    )


def own_definition(record: Record) -> Mapping[str, object]:
    """Return the definition in a record, without a program that somebody else named.

    A record from elsewhere may name any program of this machine, and detecting a server runs it.
    The server is then the installed one.
    """
    definition = recorded_choices(record.definition)
    if made_here(record) == "elsewhere":
        definition.pop(KEY, None)
    return definition
