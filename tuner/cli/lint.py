"""``tuner doctor --config``: what a configuration has plainly wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from tuner.app.printing import print_json
from tuner.errors import HostError
from tuner.hosts import local
from tuner.lint.check import LINTED, lint_file
from tuner.lint.finding import Finding, LintFacts, lint_facts
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
        DefinitionError: the file cannot be read, or is no configuration.
        HostError: a Caddyfile, and no Caddy here that reads it.
    """
    found = findings(config, server)
    wrong = [one for one in found if one.severity == "wrong"]
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        for line in lines(found):
            say_styled(line)
        told = f"{len(wrong)} plainly wrong, {len(found) - len(wrong)} doubtful"
        click.echo(f"{config}: {told if found else 'nothing is plainly wrong'}")
    if wrong:
        raise click.exceptions.Exit(EXIT_WRONG)


def findings(config: Path, server: str | None = None) -> tuple[Finding, ...]:
    """Return the lint findings of a configuration for this server and this host.

    Args:
        config: the main file.
        server: ``nginx`` or ``caddy``; None: by the file's name.
    """
    name = server or ("caddy" if _is_caddys(config) else "nginx")
    facts, binary = _facts(name)
    return lint_file(config, name, facts, binary)


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


def _facts(name: str) -> tuple[LintFacts, str]:
    """Return the facts of this host; Nginx's files can be linted without its program."""
    if name not in LINTED:
        return lint_facts(local.facts(), ServerFacts(name, "", "", (), "")), ""
    try:
        server = catalog.server(name).detect()
    except HostError:
        if name != "nginx":
            raise
        server = ServerFacts(name, "", ".".join(map(str, _NEWEST)), (), "")
    return lint_facts(local.facts(), server), server.binary


def _is_caddys(config: Path) -> bool:
    return "caddyfile" in config.name.lower() or config.suffix == ".json"
