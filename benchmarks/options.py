"""Options that benchmarks share, and the messages of their errors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tuner.errors import TunerError

_Command = Callable[..., None]

study = click.option(
    "--study",
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of a finished study, for its shares of wall-clock.",
)
_runs = click.option("--runs", type=click.IntRange(min=1), help="Runs of each tool.")
_seconds = click.option(
    "--seconds", "duration_s", type=click.IntRange(min=1), help="Length of a window."
)
_peers = click.option(
    "--peers",
    "peers_dir",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    help="Folder with programs to compare with, before the PATH.",
)


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the user; None selects a benchmark's default."""

    peers_dir: str | None = None
    runs: int | None = None
    duration_s: int | None = None


def common(function: _Command) -> _Command:
    """Add the options of windows to a command, which gets them as ``chosen``."""

    @_peers
    @_runs
    @_seconds
    @functools.wraps(function)
    def called(
        peers_dir: str | None, runs: int | None, duration_s: int | None, **others: Any
    ) -> None:
        _plainly(function, Options(peers_dir, runs, duration_s), **others)

    return called


def only_runs(function: _Command) -> _Command:
    """Add the options of a benchmark without windows."""

    @_runs
    @functools.wraps(function)
    def called(runs: int | None, **others: Any) -> None:
        _plainly(function, Options(runs=runs), **others)

    return called


def _plainly(function: _Command, chosen: Options, **others: Any) -> None:
    """Print tuner's own errors in a line, as its command line does."""
    try:
        function(chosen, **others)
    except TunerError as error:
        raise click.ClickException(str(error)) from error
