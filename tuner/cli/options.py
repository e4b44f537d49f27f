"""Options that several commands share; the words are the study file's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from tuner.definition.study import IN_PLACE
from tuner.machine.facts import SERVER_NAMES
from tuner.store.storage import refuse_secret

_F = TypeVar("_F", bound=Callable[..., Any])
_SERVERS = ", ".join(SERVER_NAMES)

_WORKLOAD = [
    click.option("--server", metavar="NAME", help=f"Server under test: {_SERVERS}."),
    click.option(
        "--objective",
        metavar="NAME",
        multiple=True,
        help="p99 or any percentile, throughput, capacity, cpu, memory; two for a front.",
    ),
    click.option("--slo", metavar="LIMIT", help="Of the objective capacity: 'p99<5ms'."),
    click.option(
        "--constraint",
        metavar="LIMIT",
        multiple=True,
        help="What must hold: 'memory <= 1.2x baseline', 'errors <= 0.1%'.",
    ),
    click.option("--workload", metavar="NAME|FILE", help="static, proxy, or a YAML file."),
    click.option("--space", metavar="NAME|FILE", help="Parameters to search, e.g. nginx/static."),
    click.option(
        "--layer",
        metavar="kernel|FILE",
        help="Search the kernel's network settings too (needs root; docs/kernel.md).",
    ),
    click.option("--rate", metavar="N", help="Offered rate per second [70 % of capacity]."),
    click.option("--connections", type=int, metavar="N", help="Open connections."),
    click.option("--load", metavar="NAME", help="Load generator: native, wrk2 or h2load [native]."),
    click.option(
        "--stalls",
        metavar="WHAT",
        help="Requests that stalls touch: exclude them from latencies, or keep them [exclude].",
    ),
    click.option("--time", metavar="T", help="Time for the whole run: 10m, 90s."),
    click.option("--seed", type=int, metavar="N", help="Seed of every random choice."),
]
_OWN = [
    click.option("--config", metavar="FILE", help="Your own server's configuration, to be tuned."),
    click.option("--server-name", metavar="NAME", help="Which server of it [the default one]."),
    click.option("--root", metavar="FOLDER", help="Its files, if not where it says."),
    click.option(
        "--keep-upstreams",
        is_flag=True,
        default=None,
        help="Ask the servers behind it that it names, not the lab's.",
    ),
]
_IN_PLACE = [
    click.option(
        "--in-place",
        metavar="WORDS",
        is_flag=False,
        flag_value="",
        help="Tune the target's own service instead of an instance beside it: for every window it"
        " is stopped and started with an experimental configuration, while its users are served;"
        " at the end it has its own files and state again, whatever happens (docs/fleet.md)."
        f" Needs --inventory, and these WORDS: {IN_PLACE}.",
    ),
]
_CONFIRMATION = [
    click.option(
        "--sequential",
        is_flag=True,
        default=None,
        help="Confirm until the claim is safe (always-valid test), not a fixed number of blocks.",
    ),
]
STORAGE_VARIABLE = "TUNER_STORAGE"
"""Environment variable that holds ``--storage``, so that no process list shows its password."""


def _taken(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return the storage, which is not handed on to the programs that tuner starts."""
    os.environ.pop(STORAGE_VARIABLE, None)
    source = context.get_parameter_source(parameter.name or "")
    if value is not None and source is click.core.ParameterSource.COMMANDLINE:
        refuse_secret(value)
    return value


_STORAGE = [
    click.option(
        "--storage",
        metavar="URL",
        envvar=STORAGE_VARIABLE,
        callback=_taken,
        help=f"Optuna storage [${STORAGE_VARIABLE}, or SQLite in studies/NAME/].",
    )
]
_SEARCH = [
    click.option(
        "--baseline",
        metavar="NAME|FILE",
        multiple=True,
        help="stock, distro, hand, published, or a YAML file; several are confirmed together.",
    ),
    click.option("--allow", multiple=True, metavar="PARAMETER", help="Allow what this one trades."),
    click.option(
        "--force", multiple=True, metavar="PARAMETER", help="Search this although tuner never does."
    ),
    click.option("--choose", metavar="RULE", help="Of two objectives: weights, or a limit on one."),
    click.option("--trials", type=int, metavar="N", help="Most configurations to try."),
    click.option(
        "--finalists", type=int, metavar="N", help="Confirm the N best of the search [1]."
    ),
]
_INVENTORY = [
    click.option(
        "--inventory", metavar="FILE", help="Ansible inventory: targets, generators, backends."
    ),
]
_STUDY = [
    click.option("--name", help="Name of the study; its results go to studies/NAME/."),
    *_STORAGE,
    *_INVENTORY,
]
_CI = [
    click.option("--junit", metavar="FILE", type=Path, help="JUnit XML for a CI server."),
]
_OUTPUT = [
    click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
    click.option("--quiet", "-q", is_flag=True, help="No progress."),
]


def study_file(function: _F) -> _F:
    """Return ``--study FILE``: a YAML that holds all the options."""
    option = click.option(
        "--study", "study_file", metavar="FILE|NAME", help="YAML with these options [quickstart]."
    )
    return option(function)


def workload(function: _F) -> _F:
    """Return add the options for server, workload and duration."""
    return _apply(function, _WORKLOAD)


def own(function: _F) -> _F:
    """Return the user's own configuration."""
    return _apply(function, _OWN)


def in_place(function: _F) -> _F:
    """Return the target's own service in the place of an instance."""
    return _apply(function, _IN_PLACE)


def confirmation(function: _F) -> _F:
    """Return add the options for the claim."""
    return _apply(function, _CONFIRMATION)


def storage(function: _F) -> _F:
    """Return add the option for the storage of an existing study."""
    return _apply(function, _STORAGE)


def inventory(function: _F) -> _F:
    """Return the hosts of one worker."""
    return _apply(function, _INVENTORY)


def search(function: _F) -> _F:
    """Return add the options for search and confirmation."""
    return _apply(function, _SEARCH)


def study(function: _F) -> _F:
    """Return add the options for name and storage of the record."""
    return _apply(function, _STUDY)


def output(function: _F) -> _F:
    """Return add the options for output."""
    return _apply(function, _OUTPUT)


def ci(function: _F) -> _F:
    """Return add the options for CI servers."""
    return _apply(function, _CI)


def overrides(options: Mapping[str, Any]) -> dict[str, object]:
    """Return the options that were given, by the study file's names."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in options.items()
        if value is not None and value != ()
    }


def _apply(function: _F, options: list[Callable[[Any], Any]]) -> _F:
    for option in reversed(options):
        function = option(function)
    return function
