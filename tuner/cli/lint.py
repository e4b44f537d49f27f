"""``tuner doctor --config``: find mistakes in a configuration."""

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
"""Exit code if something is wrong."""

_NEWEST = (99,)
"""Version of a server that is not installed, so that no rule about old versions applies."""


def lint_command(config: Path, server: str | None, *, as_json: bool) -> None:
    """Print the findings; exit with ``EXIT_WRONG`` if something is wrong.

    Raises:
        DefinitionError: the file cannot be read, or is not a configuration.
        HostError: only the server's program can read the file, and it is not installed.
    """
    found = findings(config, server)
    wrong = [finding for finding in found if finding.severity == "wrong"]
    if as_json:
        print_json([asdict(finding) for finding in found])
    else:
        for line in lines(found):
            say_styled(line)
        summary = f"{len(wrong)} wrong, {len(found) - len(wrong)} doubtful"
        click.echo(f"{config}: {summary if found else 'no mistakes found'}")
    if wrong:
        raise click.exceptions.Exit(EXIT_WRONG)


def findings(config: Path, server: str | None = None) -> tuple[Finding, ...]:
    """Return the lint findings of a configuration for this server and this host.

    Args:
        config: main file of the configuration.
        server: name of the server; None: guessed from the file's name.
    """
    name = server or catalog.server_of_file(config)
    chosen = rules(name)
    found = _found_server(name, needed=chosen.needs_program)
    return chosen.lint_file(config, lint_facts(local.facts(), found), found.binary)


def lines(found: Sequence[Finding]) -> Iterator[str]:
    """Yield the lines of each finding for a terminal."""
    for finding in found:
        colour = "red" if finding.severity == "wrong" else "yellow"
        severity = click.style(finding.severity, fg=colour)
        yield f"{printable(finding.where)}: {severity}: {printable(finding.what)} [{finding.rule}]"
        yield f"    {printable(finding.place)}"
        yield f"    why      {printable(finding.why)}"
        yield f"    remedy   {printable(finding.remedy)}"
        yield f"    see      {finding.link}"


def _found_server(name: str, *, needed: bool) -> ServerFacts:
    """Return the installed server, or a stand-in if its program is not needed.

    Raises:
        HostError: the server is needed and not installed.
    """
    try:
        return catalog.server(name).detect()
    except HostError:
        if needed:
            raise
        return ServerFacts(name, "", ".".join(map(str, _NEWEST)), (), "")
