"""``tuner doctor --config``: what a configuration has plainly wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from tuner.app.printing import print_json
from tuner.errors import HostError
from tuner.hosts import local
from tuner.lint.check import rules
from tuner.lint.finding import Finding, lint_facts
from tuner.machine.facts import ServerFacts
from tuner.reading.printable import printable
from tuner.servers import catalog
from tuner.words.terminal import say_styled

EXIT_WRONG = 1
"""Exit code where something is plainly wrong."""

_NEWEST = (99,)
"""Stands for a server that is not here: then no rule about old versions is put."""


def lint_command(config: Path, server: str | None, *, as_json: bool) -> None:
    """Print what is wrong; end with ``EXIT_WRONG`` if something is.

    Raises:
        DefinitionError: the file cannot be read, or is not a configuration.
        HostError: only the server's program reads the file, and it is not here.
    """
    found = findings(config, server)
    wrong = [one for one in found if one.severity == "wrong"]
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        for line in lines(found):
            say_styled(line)
        summary = f"{len(wrong)} plainly wrong, {len(found) - len(wrong)} doubtful"
        click.echo(f"{config}: {summary if found else 'nothing is plainly wrong'}")
    if wrong:
        raise click.exceptions.Exit(EXIT_WRONG)


def findings(config: Path, server: str | None = None) -> tuple[Finding, ...]:
    """Return the lint findings of a configuration for this server and this host.

    Args:
        config: the main file.
        server: its name; None: by the file's name.
    """
    name = server or catalog.server_of_file(config)
    chosen = rules(name)
    found = _found_server(name, needed=chosen.needs_program)
    return chosen.lint_file(config, lint_facts(local.facts(), found), found.binary)


def lines(found: Sequence[Finding]) -> Iterator[str]:
    """Yield each finding in a few lines, as a terminal shows them."""
    for one in found:
        colour = "red" if one.severity == "wrong" else "yellow"
        severity = click.style(one.severity, fg=colour)
        yield f"{printable(one.where)}: {severity}: {printable(one.what)} [{one.rule}]"
        yield f"    {printable(one.place)}"
        yield f"    why      {printable(one.why)}"
        yield f"    way out  {printable(one.remedy)}"
        yield f"    see      {one.link}"


def _found_server(name: str, *, needed: bool) -> ServerFacts:
    """Return the server of this host, or a stand-in where its program is not needed.

    Raises:
        HostError: there is none, and it is needed.
    """
    try:
        return catalog.server(name).detect()
    except HostError:
        if needed:
            raise
        return ServerFacts(name, "", ".".join(map(str, _NEWEST)), (), "")
