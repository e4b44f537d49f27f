"""``tuner space``: show, check and explain the parameters of a space."""

from __future__ import annotations

import functools
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO, TypeVar, cast

import click

from tuner.app import server_binary
from tuner.app.printing import print_json
from tuner.cli import complete, options
from tuner.cli.space_text import as_data, explain_lines, show_lines
from tuner.errors import DefinitionError, HostError
from tuner.hosts import local
from tuner.hosts.deployer import InstanceSpec
from tuner.machine.facts import DEFAULT_SERVER, SERVER_NAMES, ServerFacts
from tuner.machine.placement import place
from tuner.paths import temporary
from tuner.reading.located import did_you_mean, read_yaml
from tuner.render.reach import edges
from tuner.servers.catalog import server as server_of
from tuner.servers.trial import refusal, trial_ground
from tuner.space.configuration import Configuration
from tuner.space.facts import space_facts
from tuner.space.kernel import BUILT_IN, LAYER, checked
from tuner.space.space import BASELINES, Space, bind_space, spaces
from tuner.stats.words import counted
from tuner.words.terminal import OwnCodes, output_width, say_fitted
from tuner.workload.workload import (
    BACKEND_PROTOCOLS,
    BackendProtocol,
    Workload,
    load_workload,
)

_F = TypeVar("_F", bound=Callable[..., Any])

_EPILOG = """
\b
Examples:
  tuner space show nginx/static
  tuner space show nginx/static --workload https --json
  tuner space show nginx/static --assume 1.29.7
  tuner space check nginx/static --server-binary ./new/nginx
  tuner space check my.yaml
  tuner space check nginx/proxy --workload proxy --samples 400
  tuner space explain sendfile_max_chunk
  tuner schema space > space.schema.json
"""

_EVERYTHING = ("http_ssl", "http_v2", "http_v3", "threads")
_NEW_OPENSSL = "built with OpenSSL 3.5.0"
_MOST_REASONS = 5


@dataclass(frozen=True, slots=True)
class _Facts:
    """The options for the facts that a space is bound to."""

    workload: str | None = None
    force: Sequence[str] = ()
    assume: str | None = None
    program: str | None = None


@dataclass(frozen=True, slots=True)
class _Bound:
    space: Space
    server: ServerFacts
    workload: Workload
    assumed: bool


def _binding(function: _F) -> _F:
    """Add the options of ``_Facts``."""
    for option in (
        options.program,
        click.option(
            "--assume",
            metavar="VERSION",
            help="Assume this version of the server with every module [the installed one].",
        ),
        click.option(
            "--force",
            multiple=True,
            metavar="PARAMETER",
            help="Include this parameter although it is on the never-list.",
            shell_complete=complete.never,
        ),
        click.option(
            "--workload",
            metavar="NAME|FILE",
            help="Bind the space to this workload [static or proxy].",
            shell_complete=complete.workloads,
        ),
    ):
        function = option(function)
    return function


@click.group(epilog=_EPILOG)
def command() -> None:
    """Show, check and explain spaces, the parameters of a search."""


@command.command("show", epilog=_EPILOG)
@click.argument("name", metavar="NAME|FILE", shell_complete=complete.spaces)
@_binding
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def show(name: str, *, as_json: bool, **given: Any) -> None:
    """Show a space as it applies to this host, server and workload.

    Prints ranges, the defaults of each baseline, the searched parameters, and the excluded ones
    with the reason.
    """
    bound = _bind(name, _Facts(**given))
    if as_json:
        print_json(as_data(bound.space, bound.server, bound.workload))
        return
    width = output_width()
    for line in show_lines(
        bound.space, bound.server, bound.workload, assumed=bound.assumed, width=width
    ):
        say_fitted(line, width)


@command.command("explain", epilog=_EPILOG)
@click.argument("parameter", shell_complete=complete.parameters)
@click.option(
    "--space",
    "name",
    metavar="NAME|FILE",
    help="Look in this space only [all spaces].",
    shell_complete=complete.spaces,
)
@_binding
def explain(parameter: str, *, name: str | None, **given: Any) -> None:
    """Explain a parameter: its effect, its range on this host, and its trade-off."""
    facts = _Facts(**given)
    if facts.program and not name:
        raise DefinitionError(
            "is the program of one server; name its space: --space", path=server_binary.OPTION
        )
    known: set[str] = set()
    explained = False
    for candidate in (name,) if name else (*spaces(), BUILT_IN):
        try:
            # Which protocol a location speaks is known only with the user's own configuration.
            bound = _bind(candidate, facts, upstream=BACKEND_PROTOCOLS)
        except HostError:
            # The space's server is not installed, which matters only for a named space.
            if name:
                raise
            continue
        space = bound.space
        known |= {p.name for p in space.parameters} | space.gone.keys()
        for line in explain_lines(space, bound.server, parameter):
            explained = True
            say_fitted(line, output_width())
    if not explained:
        where = name or "any space of an installed server"
        raise DefinitionError(
            f"there is no parameter {parameter!r} in {where}{did_you_mean(parameter, known)}",
            path="PARAMETER",
        )


@command.command("check", epilog=_EPILOG)
@click.argument("name", metavar="FILE|NAME", shell_complete=complete.spaces)
@_binding
@click.option(
    "--samples",
    type=click.IntRange(0, 100_000),
    default=40,
    show_default=True,
    help="Validate this number of random configurations.",
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    metavar="N",
    help="Seed the random configurations.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Print no progress.")
def check(name: str, *, samples: int, seed: int, as_json: bool, quiet: bool, **given: Any) -> None:
    """Check a space and validate its configurations with the real server.

    Reports a mistake in the file with its line. Then renders the three baselines and random
    configurations, with every trade-off allowed, and validates them. Exits with code 2 if the
    server refuses one.
    """
    facts = _Facts(**given)
    if facts.assume is not None:
        raise DefinitionError("validation requires an installed server", path="--assume")
    bound = _bind(name, facts)
    if bound.space.server == LAYER:
        count = len(checked(bound.space).parameters)
        click.echo(
            f"{bound.space.name}: {count} parameters; a study validates the values with the kernel"
            " of its target"
        )
        return
    if refused := server_of(bound.space.server).refuses(bound.server, bound.workload.wire):
        raise DefinitionError(refused, path="--workload")
    bases = {base: bound.space.baseline(base) for base in BASELINES}
    with temporary("space") as folder:
        judge = _Judge(bound, Path(folder))
        baselines = {base: judge(configuration) for base, configuration in bases.items()}
        for configuration in edges(bound.space, bases["stock"]):
            judge.write(configuration)
        drawn = [
            judge.try_draw(draw)
            for draw in _draws(bound, bases, samples=samples, seed=seed, quiet=quiet)
        ]
    reasons = Counter(_reason(message) for message in drawn if message)
    wrong = sum(reasons.values())
    if as_json:
        data = {
            "space": bound.space.name,
            "server": bound.server.words,
            "workload": bound.workload.name,
            "baselines": baselines,
            "proposed": samples,
            "refused": wrong,
            "reasons": dict(reasons),
        }
        print_json(data)
    else:
        for line in _check_lines(bound, baselines, samples, reasons):
            say_fitted(line, output_width())
    if wrong or any(baselines.values()):
        raise DefinitionError(
            f"{bound.server.name} refuses {wrong} of {samples} proposals and"
            f" {sum(map(bool, baselines.values()))} of {len(baselines)} baselines",
            path=name,
        )


class _Judge:
    """A validator of configurations, which renders them and calls the real server."""

    def __init__(self, bound: _Bound, folder: Path) -> None:
        self._space = bound.space
        self._server = server_of(bound.space.server)
        self._ground = trial_ground(bound.server, bound.workload, folder)
        self._port = local.free_ports(1)[0]

    def __call__(self, configuration: Configuration) -> str:
        """Return the server's message on a refused configuration; empty if it accepts it.

        Raises:
            DefinitionError: the configuration cannot be rendered.
        """
        return refusal(self.write(configuration))

    def write(self, configuration: Configuration) -> InstanceSpec:
        """Return the instance of a configuration.

        Raises:
            DefinitionError: the configuration cannot be rendered.
        """
        return self._server.instance("trial", configuration, self._space, self._ground, self._port)

    def try_draw(self, draw: Callable[[], Configuration]) -> str:
        """Return the message on a random configuration, which perhaps cannot be rendered."""
        try:
            return self(draw())
        except DefinitionError as error:
            return str(error)


def _draws(
    bound: _Bound, bases: dict[str, Configuration], *, samples: int, seed: int, quiet: bool
) -> Iterator[Callable[[], Configuration]]:
    """Yield functions that draw a configuration, and show a progress bar."""
    from tuner.testing.draw import draw_configuration

    rng = random.Random(seed)  # noqa: S311 - a seeded draw, no secret
    space = bound.space
    trades = [parameter.name for parameter in space.parameters if parameter.trades]
    stream = cast("TextIO", OwnCodes(sys.stderr))
    with click.progressbar(
        range(samples), label="validating", file=stream, hidden=quiet
    ) as numbers:
        for number in numbers:
            base = bases[BASELINES[number % len(BASELINES)]]
            yield functools.partial(draw_configuration, rng, space, base, trades)


def _bind(name: str, given: _Facts, *, upstream: tuple[BackendProtocol, ...] = ("http",)) -> _Bound:
    asked = load_workload(given.workload or ("proxy" if _is_proxy(name) else "static"))
    host = local.facts()
    cores = place(host.layout, backend=asked.backend is not None)
    found = _server(_server_name(name), given)
    facts = replace(space_facts(host, found, asked, len(cores.server)), upstream=upstream)
    return _Bound(bind_space(name, facts, tuple(given.force)), found, asked, bool(given.assume))


def _server(name: str, given: _Facts) -> ServerFacts:
    """Return the assumed server, the named program, or the installed server.

    Raises:
        DefinitionError: the version or the program is wrong.
        HostError: the server is not installed.
    """
    if given.assume is None:
        try:
            return server_binary.detect(server_of(name), given.program or "")
        except HostError as error:
            raise HostError(f"{error}; or pass --assume VERSION") from None
    if given.program:
        raise DefinitionError(
            "the program has a version of its own; leave out --assume", path=server_binary.OPTION
        )
    found = ServerFacts(name, "", given.assume, _EVERYTHING, _NEW_OPENSSL)
    if not found.version_tuple:
        raise DefinitionError(f"{given.assume!r} is not a version such as 1.29.7", path="--assume")
    return found


def _server_name(name: str) -> str:
    if not name.endswith((".yaml", ".yml")):
        return name.partition("/")[0] if name in spaces() else DEFAULT_SERVER
    node = read_yaml(Path(name)).entries().get("server")
    # A kernel space joins the space of any server.
    server = node.one_of((*SERVER_NAMES, LAYER)) if node else DEFAULT_SERVER
    return DEFAULT_SERVER if server == LAYER else server


def _is_proxy(name: str) -> bool:
    """Return whether the name of a space suggests a workload with a backend."""
    return "proxy" in name or "terminator" in name


def _reason(message: str) -> str:
    """Return the first error in a server's message, without the path of the temporary file."""
    lines = [line for line in message.splitlines() if "[emerg]" in line or "rror" in line]
    return (lines or message.splitlines() or [message])[0].split(" in /")[0].strip()


def _check_lines(
    bound: _Bound, baselines: dict[str, str], samples: int, reasons: Counter[str]
) -> Iterator[str]:
    from scipy.stats import beta

    space, wrong = bound.space, sum(reasons.values())
    server = bound.server.words
    trades = [parameter.name for parameter in space.parameters if parameter.trades]
    yield (
        f"{space.name}: {counted(len(space.parameters), 'parameter')},"
        f" {len(space.searched())} searched,"
        f" {len(trades)} more if allowed; workload {bound.workload.name}"
    )
    for base, message in baselines.items():
        yield f"{base:<10} {'refused: ' + _reason(message) if message else f'accepted by {server}'}"
    if samples:
        # Clopper and Pearson (1934), one-sided.
        most = 1.0 if wrong == samples else float(beta.ppf(0.95, wrong + 1, samples - wrong))
        yield (
            f"{'random':<10} {samples} proposed, {wrong} refused: {wrong / samples:.1%}"
            f" (with 95 % confidence below {most:.1%})"
        )
    for reason, count in reasons.most_common(_MOST_REASONS):
        yield f"{'':<10} {count} times: {reason}"
