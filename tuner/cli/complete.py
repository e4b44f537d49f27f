"""Completion of values in shells: names of studies, workloads, spaces, parameters and servers.

Completion runs at every press of the key, so each function reads names only, and imports what it
needs when it is called. A wrong file gives no names and no message. docs/editors.md shows how to
install it.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from tuner.errors import TunerError
from tuner.paths import recorded_studies

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
_Rows = Iterable[tuple[str, str]]
"""Values with a sentence on each, which may be empty."""

_SUMMARY = re.compile(r"^summary: *(.*)$", re.MULTILINE)


def _completer(files: str = "") -> Callable[[Callable[[click.Context], _Rows]], Completer]:
    """Return a decorator that makes a completer of a function that yields values.

    Args:
        files: suffix of files that are values too; empty for none.
    """

    def decorate(function: Callable[[click.Context], _Rows]) -> Completer:
        @functools.wraps(function)
        def complete(
            ctx: click.Context, _parameter: click.Parameter, incomplete: str
        ) -> list[CompletionItem]:
            found: list[CompletionItem] = []
            with contextlib.suppress(TunerError, OSError):
                found += [
                    CompletionItem(value, help=about or None)
                    for value, about in function(ctx)
                    if value.startswith(incomplete)
                ]
            if not files:
                return found
            with contextlib.suppress(OSError):
                found += [CompletionItem(name) for name in _files(incomplete, files)]
            # A path in another folder: the shell completes it.
            return found or [CompletionItem(incomplete, type="file")]

        return complete

    return decorate


def files(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete a path of a file."""
    return [CompletionItem(incomplete, type="file")]


def folders(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete a path of a folder."""
    return [CompletionItem(incomplete, type="dir")]


def words(*allowed: str, files: str = "") -> Completer:
    """Return a completer of fixed words."""

    @_completer(files)
    def complete(_ctx: click.Context) -> _Rows:
        return _named(allowed)

    return complete


@_completer()
def servers(_ctx: click.Context) -> _Rows:
    """Complete the name of a server."""
    from tuner.machine.facts import SERVER_NAMES

    return _named(SERVER_NAMES)


@_completer()
def objectives(_ctx: click.Context) -> _Rows:
    """Complete an objective."""
    from tuner.goals.objective import CAPACITY, PLAIN

    return _named(("p50", "p90", "p99", "p99.9", *PLAIN, CAPACITY))


@_completer()
def loads(_ctx: click.Context) -> _Rows:
    """Complete the name of a load generator."""
    from tuner.measurement.instrument import LOADS

    return _named(LOADS)


@_completer()
def samplers(_ctx: click.Context) -> _Rows:
    """Complete the name of a sampler."""
    from tuner.definition.sampler_names import SAMPLERS

    return _named(SAMPLERS)


@_completer()
def stalls(_ctx: click.Context) -> _Rows:
    """Complete the treatment of stalls."""
    from tuner.measurement.stalls import STALLS

    return _named(STALLS)


@_completer()
def idle_cpus(_ctx: click.Context) -> _Rows:
    """Complete the choice for idle CPUs."""
    from tuner.machine.idle import IDLE_CPUS

    return _named(IDLE_CPUS)


@_completer(files=".yaml")
def baselines(_ctx: click.Context) -> _Rows:
    """Complete a baseline."""
    from tuner.definition.study_keys import PUBLISHED
    from tuner.space.parameter import BASELINES, OWN

    return _named((*BASELINES, OWN, PUBLISHED))


@_completer(files=".yaml")
def arms(_ctx: click.Context) -> _Rows:
    """Complete an arm: a baseline, a server, a server with its baseline, or a file."""
    from tuner.machine.facts import SERVER_NAMES
    from tuner.space.parameter import BASELINES

    pairs = (f"{server}:{name}" for server in SERVER_NAMES for name in BASELINES)
    return _named((*BASELINES, *SERVER_NAMES, *pairs))


@_completer(files=".yaml")
def study_files(_ctx: click.Context) -> _Rows:
    """Complete the name or the file of a study's definition."""
    return _shipped("")


@_completer(files=".yaml")
def workloads(_ctx: click.Context) -> _Rows:
    """Complete the name or the file of a workload."""
    return _shipped("workloads")


@_completer(files=".yaml")
def experiments(_ctx: click.Context) -> _Rows:
    """Complete the name or the file of an experiment."""
    return _shipped("experiments")


@_completer(files=".yaml")
def spaces(_ctx: click.Context) -> _Rows:
    """Complete the name or the file of a space."""
    return ((name, _summary(_space_file(name))) for name in _spaces())


@_completer()
def studies(_ctx: click.Context) -> _Rows:
    """Complete the name of a study with a record in this folder."""
    return _recorded()


@_completer(files=".json.gz")
def records(_ctx: click.Context) -> _Rows:
    """Complete the name of a study with a record in this folder, or the file of a record."""
    return _recorded()


@_completer()
def cases(ctx: click.Context) -> _Rows:
    """Complete a case of the experiment on the line."""
    from tuner.definition.experiment import load_experiment

    # An option without its value ends click's parsing before it assigns arguments.
    name = next((str(each) for each in (ctx.params.get("name"), *ctx.args) if each), "")
    return ((case.name, case.workload) for case in load_experiment(name).cases) if name else ()


@_completer()
def parameters(ctx: click.Context) -> _Rows:
    """Complete a parameter of the space or the server on the line."""
    return ((name, about) for name, about, _trades in _parameters(ctx))


@_completer()
def trades(ctx: click.Context) -> _Rows:
    """Complete a parameter with a trade-off."""
    return ((name, about) for name, about, has_trade in _parameters(ctx) if has_trade)


@_completer()
def never(ctx: click.Context) -> _Rows:
    """Complete a setting on the never-list of the server on the line."""
    from tuner.space.never import names

    return _named(names(_server(ctx)))


def _named(names: Iterable[str]) -> _Rows:
    return ((name, "") for name in names)


def _recorded() -> _Rows:
    return _named(folder.name for folder in recorded_studies())


def _shipped(folder: str) -> Iterator[tuple[str, str]]:
    from tuner.paths import data_dir

    for path in sorted((data_dir("studies") / folder).glob("*.yaml")):
        yield path.stem, _summary(path)


def _summary(path: Path) -> str:
    found = _SUMMARY.search(path.read_text(encoding="utf-8"))
    return found[1] if found else ""


def _spaces() -> tuple[str, ...]:
    from tuner.space.kernel import BUILT_IN
    from tuner.space.space import spaces as names

    return (*names(), BUILT_IN)


def _space_file(name: str) -> Path:
    from tuner.paths import data_dir

    return Path(name) if name.endswith((".yaml", ".yml")) else data_dir("spaces") / f"{name}.yaml"


def _server(ctx: click.Context) -> str:
    """Return the server on the line: by its option, or by the space's name."""
    from tuner.machine.facts import DEFAULT_SERVER, SERVER_NAMES

    space = str(ctx.params.get("space") or ctx.params.get("name") or "")
    named = ctx.params.get("server") or space.partition("/")[0]
    return named if named in SERVER_NAMES else DEFAULT_SERVER


def _parameters(ctx: click.Context) -> Iterator[tuple[str, str, bool]]:
    """Yield parameters with a sentence, and True for one with a trade-off."""
    from tuner.reading.located import read_yaml
    from tuner.space.file import parameter_nodes

    space = str(ctx.params.get("space") or ctx.params.get("name") or "")
    known = _spaces()
    if space not in known and not space.endswith((".yaml", ".yml")):
        space = ""
    seen = set()
    for name in [space] if space else [each for each in known if each.startswith(_server(ctx))]:
        for parameter, node in parameter_nodes(read_yaml(_space_file(name))):
            if parameter not in seen:
                seen.add(parameter)
                keys = node.entries()
                about = keys["about"].text() if "about" in keys else ""
                yield parameter, " ".join(about.split()), "trades" in keys


def _files(incomplete: str, suffix: str) -> Iterator[str]:
    """Yield files of a suffix in the folder of an incomplete path."""
    folder, slash, start = incomplete.rpartition("/")
    above = Path(f"{folder}{slash}" or ".")
    for path in sorted(above.glob(f"*{suffix}")):
        if path.name.startswith(start):
            yield f"{folder}{slash}{path.name}"
