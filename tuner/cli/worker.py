"""``tuner worker``: share a study with workers on other hosts."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tuner.app import results
from tuner.app.announce import announce
from tuner.app.caller import Caller
from tuner.app.option_words import overrides
from tuner.app.preflight import Preflight, Searching, preflight
from tuner.app.provenance import origin_words
from tuner.app.session import create_store, open_bench
from tuner.app.turn import take_turn
from tuner.cli import complete, options
from tuner.cli.callers import as_caller
from tuner.cli.groups import GroupedCommand
from tuner.definition.sampler_names import named_code
from tuner.definition.study import BASE_STUDY, StudyDefinition, load_study, recorded_choices
from tuner.definition.study_keys import CPU_KEYS
from tuner.errors import DefinitionError, NameTakenError, StoreError
from tuner.judge.results import evaluate
from tuner.paths import STUDIES
from tuner.phases.study import run_study
from tuner.record.model import Record, StudyHost
from tuner.store.listing import list_names
from tuner.store.storage import Say, no_message, refuse_unshared, scrubbed, without_secret
from tuner.store.store import Store
from tuner.store.unbegun import wait_for_start

_EPILOG = """
\b
Examples; run the same command on every host:
  tuner worker proxy --study proxy --time 30m --storage \\
    postgresql+psycopg://tuner@db/tuner
  tuner worker proxy --storage grpc://controller:13000
  TUNER_STORAGE=postgresql+psycopg://tuner@db/tuner tuner worker proxy

\b
Report the common result:
  tuner report proxy --storage postgresql+psycopg://tuner@db/tuner
"""
_OWN = ("name", "storage", "inventory", "server_binary", *CPU_KEYS)
"""Keys of a definition that belong to one worker."""


@click.command(cls=GroupedCommand, epilog=_EPILOG)
@click.argument("name", shell_complete=complete.studies)
@options.workload
@options.search
@options.study_file
@options.storage
@options.inventory
@click.option(
    "--host", "as_host", metavar="NAME", help="Name this host NAME in the record [its host name]."
)
@options.output
@options.wait
@as_caller
def command(
    name: str,
    *,
    caller: Caller,
    study_file: str | None,
    storage: str | None,
    as_host: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Work on the study NAME on this host, together with other workers.

    The first worker starts the study with its options; the others join it by name. Each worker
    calibrates on its own host, measures blocks of the common search, and confirms the winner on its
    host. To resume a worker that stopped, run the same command again.
    """
    refuse_unshared(storage)
    assert storage is not None  # noqa: S101 - refused above
    progress = caller.progress
    wanted = overrides(given)
    definition = _definition(name, storage, study_file, wanted, progress.note)
    this_host = as_host or (socket.gethostname() if definition.inventory is None else "")
    turn = take_turn(STUDIES / name / this_host, definition.inventory, caller)
    found = preflight(definition, turn=turn, searching=Searching(named_code(given)))
    host = as_host or found.host.hostname
    folder = STUDIES / name / host
    store = _begin_or_join(found, folder, host, caller)
    # Another worker may have begun the study a moment ago, with a seed of its own.
    begun = load_study(BASE_STUDY, store.record().definition)
    found = replace(found, definition=replace(found.definition, seed=begun.seed))
    announce(found, folder, progress, what="worker")
    with (
        results.kept(store, folder, progress, "the same command"),
        open_bench(found, folder, progress, store) as (bench, spec),
    ):
        # Only now does this process own the host; another one may have been using it.
        store.join(_facts(found, host))
        for done in store.recover():
            progress.note(done)
        run_study(bench, spec)
    study = evaluate(Store.open(storage, name, writing=False).record())
    results.show([study], folder, as_json=as_json)


def _definition(
    name: str, storage: str, study_file: str | None, wanted: Mapping[str, object], say: Say
) -> StudyDefinition:
    """Return the definition of the existing study, or of a new one.

    Raises:
        DefinitionError: the options contradict the existing study.
    """
    given = load_study(study_file or BASE_STUDY, {**wanted, "name": name})
    if given.sequential:
        raise DefinitionError(
            "a shared study has a fixed number of blocks, because confirmations that stop at"
            " different times cannot be combined; leave it out",
            path="--sequential",
        )
    if given.in_place:
        raise DefinitionError(
            "workers share one baseline, but every service in place has its own; tune one host"
            " (tuner optimize --in-place), then apply its configuration to the others",
            path="--study",
        )
    given = replace(given, storage=storage)
    record = existing(storage, name, say)
    if record is None:
        return given
    own = {key: value for key, value in given.as_dict().items() if key in _OWN}
    definition = load_study(BASE_STUDY, {**recorded_choices(record.definition), **own})
    # A file without a seed leaves it to the worker that began the study.
    again = load_study(study_file or BASE_STUDY, {**wanted, "name": name}, seed=definition.seed)
    given = replace(given, seed=again.seed)
    ours, theirs = given.as_dict(), definition.as_dict()
    specified = set(ours if study_file else wanted) - set(_OWN)
    other = sorted(key for key in specified if ours[key] != theirs[key])
    if other:
        raise DefinitionError(
            f"{name!r} has begun with other values: "
            + ", ".join(f"{key} {theirs[key]}, not {ours[key]}" for key in other)
            + "; leave these options out to join it, or begin a study with another name",
            path=f"--{other[0]}",
        )
    return definition


def existing(storage: str, name: str, say: Say = no_message) -> Record | None:
    """Return the study's record, or None; wait for a record that another worker is starting.

    Raises:
        StoreError: it cannot be read.
    """
    wait_for_start(storage, name, say)
    if name not in list_names(storage, writing=True):
        return None
    return Store.open(storage, name, writing=False).record()


def _begin_or_join(found: Preflight, folder: Path, host: str, caller: Caller) -> Store:
    progress = caller.progress
    definition = found.definition
    storage, name = definition.storage or "", definition.name
    if name not in list_names(storage, writing=True):
        try:
            return create_store(
                found, folder, _facts(found, host), progress.note, command=caller.command
            )
        except NameTakenError:
            progress.note(f"another worker has just begun {name!r}; joining it")
    record = existing(storage, name, progress.note)
    if record is None:
        raise StoreError(f"{name!r} in {without_secret(storage)} has just been removed")
    _check_alike(found, record, host)
    # The user named the study and its storage, so tuner does not ask.
    if host not in record.hosts and (words := origin_words(record)):
        progress.note(f"joining another user's study: {words}")
    folder.mkdir(parents=True, exist_ok=True)
    return Store.open(storage, name, say=progress.note)


def _check_alike(found: Preflight, record: Record, host: str) -> None:
    """Raise DefinitionError unless this host's blocks can be combined with the study's."""
    if not record.hosts:
        raise DefinitionError(
            f"a single host began {record.name!r}, and workers share only studies that a worker"
            " began; choose another name",
            path="NAME",
        )
    same: dict[str, tuple[object, object]] = {
        "baseline": (record.baseline, found.baseline.digest),
        "server's version": (record.server.version, found.server.version),
    }
    known = record.hosts.get(host)
    if known is not None and known.calibration is not None:
        same["cores"] = (known.cores, found.cores)
        same["server's build"] = (known.server.build, found.server.build)
    for what, (theirs, ours) in same.items():
        if theirs != ours:
            raise DefinitionError(
                f"the {what} of {record.name!r} is {_brief(theirs)}, but {_brief(ours)} here, so"
                " their blocks cannot be combined",
                path="NAME",
            )


def _brief(value: object) -> str:
    return scrubbed(str(value)).splitlines()[0]


def _facts(found: Preflight, host: str) -> StudyHost:
    return StudyHost(
        name=host,
        generator=found.generator.name,
        host=found.host,
        server=found.server,
        cores=found.cores,
        notes=found.notes,
        joined_unix_s=time.time(),
    )
