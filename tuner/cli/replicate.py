"""``tuner replicate``: confirm a study's winner again, on another day or host."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from tuner.app import dry_run, results
from tuner.app.caller import Caller
from tuner.app.confirming import confirmed
from tuner.app.generator_size import preflight_sized
from tuner.app.metrics_server import check_listen
from tuner.app.option_words import named_options, overrides
from tuner.app.preflight import Preflight, preflight
from tuner.app.provenance import confirm_measuring
from tuner.app.resume import reopen
from tuner.app.runs import GivenOptions, find_run
from tuner.app.session import create_store, describe, free_name, open_store
from tuner.app.turn import take_turn
from tuner.cli import complete, options
from tuner.cli.callers import as_caller
from tuner.cli.groups import GroupedCommand
from tuner.definition.study import BASE_STUDY, StudyDefinition, load_study, recorded_choices
from tuner.definition.study_keys import CPU_KEYS
from tuner.errors import EXIT_FAIL_IF, DefinitionError
from tuner.hosts import local
from tuner.judge.results import StudyResult, evaluate
from tuner.paths import STUDIES
from tuner.record.model import Original, Record
from tuner.space.configuration import Configuration
from tuner.store.store import Store

_EPILOG = """
\b
Examples:
  tuner replicate proxy
  tuner replicate proxy --storage sqlite:///proxy-from-the-other-host.db
  tuner replicate proxy --fail-if-not-replicated
  tuner replicate proxy --resume
"""


@click.command(cls=GroupedCommand, epilog=_EPILOG)
@click.argument("name", shell_complete=complete.studies)
@options.storage
@click.option("--time", metavar="T", help="Limit the whole run to this time [the study's time].")
@options.margin
@options.server_binary
@options.cpus
@click.option("--name", "as_name", metavar="NEW", help="Name the new study [NAME-replica].")
@click.option("--resume", is_flag=True, help="Resume an interrupted replication of NAME.")
@click.option(
    "--fail-if-not-replicated",
    is_flag=True,
    help="Exit with code 4 unless the effect is replicated.",
)
@options.output
@options.metrics
@options.ci
@options.dry_run
@options.foreign
@options.wait
@as_caller
def command(
    name: str,
    *,
    caller: Caller,
    storage: str | None,
    as_name: str | None,
    resume: bool,
    fail_if_not_replicated: bool,
    as_json: bool,
    junit: Path | None,
    metrics: str | None,
    dry: bool,
    **given: Any,
) -> None:
    """Confirm the winner of the study NAME again, as a study of its own.

    Calibrates on this host and confirms the winner against the same baseline on fresh blocks. The
    effect is replicated if these blocks show it again by their own test, at 2.5 %, and do not show
    that it is smaller. Otherwise the outcome is "not replicated" (it is smaller), "inconclusive",
    or "contradicts" (the opposite is shown).
    """
    dry_run.refuse_resume(dry=dry, resume=resume)
    check_listen(metrics)
    if dry:
        first, definition = _defined(name, storage, as_name, given, caller)
        found = dry_run.prepared(definition, caller)
        both = {**dry_run.baselines(found), "winner": _winner(first, found)}
        plan = dry_run.rehearse("replicate", found, both, searches=False)
        dry_run.show([plan], as_json=as_json)
        return
    if resume:
        found, candidate, store = _reopen(name, as_name, given, caller)
    else:
        found, candidate, store = _create(name, storage, as_name, given, caller)
    study = confirmed(found, candidate, store, "replicate", name, caller=caller, metrics=metrics)
    results.show([study], STUDIES / study.record.name, as_json=as_json, junit=junit)
    if fail_if_not_replicated and not (study.replication and study.replication.agrees):
        sys.exit(EXIT_FAIL_IF)


def _create(
    name: str,
    storage: str | None,
    as_name: str | None,
    given: Mapping[str, Any],
    caller: Caller,
) -> tuple[Preflight, Configuration, Store]:
    """Return the preflight, the winner and the record of a new replication.

    Raises:
        DefinitionError: the study has no confirmation, or this host cannot replicate it.
    """
    first, definition = _defined(name, storage, as_name, given, caller)
    original = _original(first)
    folder = STUDIES / definition.name
    turn = take_turn(folder, definition.inventory, caller)
    found = preflight_sized(partial(preflight, turn=turn), definition, folder, caller.progress)
    candidate = _winner(first, found)

    def begin(store: Store) -> None:
        store.set_original(original)
        store.add_configuration(describe(found, candidate))

    store = create_store(
        found,
        folder,
        asked=_asked(name),
        command=caller.command,
        begin=begin,
    )
    return found, candidate, store


def _defined(
    name: str,
    storage: str | None,
    as_name: str | None,
    given: Mapping[str, Any],
    caller: Caller,
) -> tuple[StudyResult, StudyDefinition]:
    """Return the original study, and the definition of its replication.

    Raises:
        DefinitionError: the study has no confirmation, or the user does not accept its origin.
    """
    first = evaluate(open_store(name, storage, writing=False).record())
    _original(first)
    confirm_measuring(first.record, caller)
    # CPUs are numbered by the host, programs are files of it, and this may be another one. On the
    # same one, baselines have as many workers only on as many cores.
    anew = dict.fromkeys(("storage", "seed", "server_binary"))
    if not _is_here(first.record):
        anew |= dict.fromkeys(CPU_KEYS)
    definition = load_study(
        BASE_STUDY, {**recorded_choices(first.record.definition), **anew, **overrides(given)}
    )
    called = as_name or free_name(f"{name}-replica")
    return first, replace(definition, name=called, finalists=1, others=())


def _is_here(record: Record) -> bool:
    """Return whether a study was measured on this machine alone."""
    inventory = record.definition.get("inventory")
    return not inventory and record.host.hostname == local.facts().hostname


def _winner(first: StudyResult, found: Preflight) -> Configuration:
    """Return the winner of a confirmed study.

    Raises:
        DefinitionError: the baseline differs on this host.
    """
    record = first.record
    same = (found.baseline.digest, found.server.name) == (record.baseline, record.server.name)
    if not same:
        raise DefinitionError(
            f"the baseline of {record.name!r} was {record.baseline}, but is"
            f" {found.baseline.digest} here; use the same server version and space",
            path=record.name,
        )
    assert first.candidate is not None  # noqa: S101 - a confirmed study has one
    return record.configurations[first.candidate].configuration


def _reopen(
    name: str, as_name: str | None, given: Mapping[str, Any], caller: Caller
) -> tuple[Preflight, Configuration, Store]:
    """Return the preflight, the winner and the record of an interrupted replication.

    It is the named replication of the study, or the newest one in this folder. Its own record
    suffices; the original study may be gone.

    Raises:
        DefinitionError: there is none, or options are given that it keeps.
    """
    others = overrides(given)
    if others:
        raise DefinitionError(
            f"a resumed replication keeps its definition; leave out {named_options(others)}",
            path="--resume",
        )
    called, _ = find_run(as_name, _asked(name))
    store = open_store(called, None)
    _, found = reopen(store, caller, path="--resume")
    record = store.record()
    for digest, kept in record.configurations.items():
        if digest != record.baseline:
            return found, kept.configuration, store
    raise DefinitionError(
        f"{called!r} has no winner in its record; replicate {name} again", path="--resume"
    )


def _asked(name: str) -> GivenOptions:
    return {"command": "replicate", "study": name}


def _original(study: StudyResult) -> Original:
    """Return the original confirmation.

    Raises:
        DefinitionError: the study has none.
    """
    record, verdict = study.record, study.verdict
    if verdict is None or record.protocol is None:
        raise DefinitionError(
            f"the study has no confirmation to replicate: {study.sentence}", path=record.name
        )
    gained = study.gained
    claims = {claim.objective: claim.verdict for claim in study.objectives}
    found = claims.get(gained, verdict).estimate
    return Original(
        study=record.name,
        protocol=record.protocol.digest,
        host=record.host.hostname,
        started_unix_s=record.started_unix_s,
        objective=gained.text,
        verdict=str(verdict.kind),
        ratio=found.ratio,
        low=found.low,
        high=found.high if found.is_finite else None,
        blocks=found.n,
    )
