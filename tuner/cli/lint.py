"""``tuner doctor --config``: find mistakes in a configuration."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import click

from tuner.app import server_binary
from tuner.app.printing import print_json
from tuner.app.writing import writing
from tuner.errors import HostError
from tuner.hosts import local
from tuner.lint.check import rules
from tuner.lint.finding import Finding, Measurable, lint_facts
from tuner.lint.sarif import sarif as sarif_log
from tuner.machine.facts import DEFAULT_SERVER, ServerFacts
from tuner.own.server import OwnOptions
from tuner.reading.printable import printable
from tuner.servers import catalog
from tuner.words.terminal import say_styled

EXIT_WRONG = 1
"""Exit code if something is wrong."""

_MOST_PLACES = 8
_NEWEST = (99,)
"""Version of a server that is not installed, so that no rule about old versions applies."""


def lint_command(
    wishes: OwnOptions,
    server: str | None,
    *,
    program: str = "",
    as_json: bool,
    sarif: Path | None = None,
) -> None:
    """Print the findings; exit with ``EXIT_WRONG`` if something is wrong.

    Args:
        wishes: the configuration.
        server: name of the server; None: guessed from the file's name.
        program: path of its program; empty for the installed one.
        as_json: whether to print JSON.
        sarif: SARIF file to write.

    Raises:
        DefinitionError: the file cannot be read, or is not a configuration.
        HostError: only the server's program can read the file, and it is not installed.
    """
    found = findings(wishes, server, program)
    numbers = Counter(finding.severity for finding in found)
    if sarif is not None:
        _write(sarif, found)
    if as_json:
        print_json([asdict(finding) for finding in found])
    else:
        for line in lines(found):
            say_styled(line)
        summary = f"{numbers['wrong']} wrong, {numbers['costs']} costs, {numbers['style']} style"
        click.echo(f"{wishes.config}: {summary if found else 'no mistakes found'}")
    if numbers["wrong"]:
        raise click.exceptions.Exit(EXIT_WRONG)


def findings(
    wishes: OwnOptions, server: str | None = None, program: str = ""
) -> tuple[Finding, ...]:
    """Return the lint findings of a configuration for this server and this host.

    Args:
        wishes: the main file of the configuration.
        server: name of the server; None: guessed from the file's name.
        program: path of its program; empty for the installed one.
    """
    name = server or catalog.server_of_file(Path(wishes.config))
    chosen = rules(name)
    server_here = _found_server(name, program, needed=chosen.needs_program)
    found = chosen.lint_file(wishes, lint_facts(local.facts(), server_here), server_here.binary)
    return _with_measurements(found, wishes, name, program)


def _with_measurements(
    found: Sequence[Finding], wishes: OwnOptions, server: str, program: str
) -> tuple[Finding, ...]:
    """Return the findings with the commands and the effects of their settings."""
    known = rules(server).measurable
    effects: Mapping[str, tuple[str, ...]] = {}
    if any(finding.rule in known for finding in found):
        from tuner.app.measured_settings import measured_settings

        effects = measured_settings(wishes.config)
    return tuple(
        replace(
            finding,
            measure=_command(wishes, server, program, known[finding.rule]),
            measured=effects.get(known[finding.rule].name, ()),
        )
        if finding.rule in known
        else finding
        for finding in found
    )


def _command(wishes: OwnOptions, server: str, program: str, parameter: Measurable) -> str:
    """Return the command of a study of one parameter."""
    words = ["tuner", "optimize", *(["--server", server] if server != DEFAULT_SERVER else [])]
    words += [server_binary.OPTION, program] if program else []
    words += ["--config", wishes.config, "--only", parameter.name]
    words += ["--allow", parameter.name] * parameter.trade
    words += [word for copy in wishes.prefix for word in ("--prefix", copy)]
    words += ["--env-file", wishes.env_file] if wishes.env_file else []
    return shlex.join(words)


def lines(found: Sequence[Finding]) -> Iterator[str]:
    """Yield the lines of each finding for a terminal."""
    for finding in found:
        colour = {"wrong": "red", "costs": "yellow", "style": "cyan"}[finding.severity]
        severity = click.style(finding.severity, fg=colour)
        yield f"{printable(finding.where)}: {severity}: {printable(finding.what)} [{finding.rule}]"
        yield f"    {printable(finding.place)}"
        if finding.also:
            more = len(finding.also) - _MOST_PLACES
            others = ", ".join(map(printable, finding.also[:_MOST_PLACES]))
            yield f"    also     {others}{f' and {more} more' if more > 0 else ''}"
        yield f"    why      {printable(finding.why)}"
        yield f"    remedy   {printable(finding.remedy)}"
        yield from (f"    measured {printable(words)}" for words in finding.measured)
        if finding.measure:
            yield f"    measure  {printable(finding.measure)}"
        yield f"    see      {finding.link}"


def _write(path: Path, found: Sequence[Finding]) -> None:
    """Write the findings for a code review."""
    data = sarif_log(found, Path.cwd())
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def _found_server(name: str, program: str, *, needed: bool) -> ServerFacts:
    """Return the named program or the installed server, or a stand-in if no program is needed.

    Raises:
        DefinitionError: ``program`` is not such a server.
        HostError: the server is needed and not installed.
    """
    try:
        return server_binary.detect(catalog.server(name), program)
    except HostError:
        if needed:
            raise
        return ServerFacts(name, "", ".".join(map(str, _NEWEST)), (), "")
