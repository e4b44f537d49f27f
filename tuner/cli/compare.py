"""``tuner compare``: compare two configurations or servers under a frozen protocol."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tuner.app import dry_run, provenance, turn
from tuner.app.bind import read_configuration
from tuner.app.confirming import confirmed
from tuner.app.metrics_server import check_listen
from tuner.app.preflight import Preflight, preflight
from tuner.app.progress import TerminalProgress
from tuner.app.resume import reopen
from tuner.app.runs import GivenOptions, find_run
from tuner.app.session import STUDIES, create_store, describe, free_name
from tuner.cli import complete, options
from tuner.cli.groups import GroupedCommand
from tuner.cli.meet import Match, meet, names_servers, rehearse_match, verdict_words
from tuner.definition.study import BASE_STUDY, StudyDefinition, load_study
from tuner.errors import EXIT_FAIL_IF, DefinitionError, named
from tuner.space.configuration import Configuration
from tuner.store.store import Store

_VERDICTS = ("better", "worse", "equivalent", "inconclusive", "violated")
_EPILOG = """
\b
Examples:
  tuner compare stock hand
  tuner compare before.yaml after.yaml --fail-if worse
  tuner compare stock hand --constraint 'memory <= 1.2x baseline' --fail-if violated
  tuner compare stock hand --sequential
  tuner compare stock hand --resume
  tuner compare own hand --config /etc/nginx/nginx.conf
  tuner compare nginx caddy --workload https --time 10m
  tuner compare nginx:stock nginx:stock --server-binary ./old/nginx --server-binary ./new/nginx
  tuner compare nginx:hand caddy:stock --workload proxy --ladder
  tuner compare distro studies/proxy/best/configuration.yaml --workload proxy --time 5m
"""


@click.command(cls=GroupedCommand, epilog=_EPILOG)
@click.argument("baseline", metavar="A", shell_complete=complete.arms)
@click.argument("candidate", metavar="B", shell_complete=complete.arms)
@options.workload
@options.own
@click.option(
    "--fail-if",
    type=click.Choice(_VERDICTS),
    multiple=True,
    help="Exit with code 4 if this is the verdict on B; may be repeated.",
)
@click.option("--ladder", is_flag=True, help="Compare servers at rising rates too.")
@click.option("--resume", is_flag=True, help="Resume an interrupted comparison of A and B.")
@options.confirmation
@options.study_file
@options.study
@options.output
@options.metrics
@options.ci
@dry_run.option
@provenance.option
@turn.option
def command(
    baseline: str,
    candidate: str,
    *,
    study_file: str | None,
    fail_if: tuple[str, ...],
    ladder: bool,
    resume: bool,
    as_json: bool,
    quiet: bool,
    junit: Path | None,
    metrics: str | None,
    **given: Any,
) -> None:
    """Compare B with A in randomised blocks under a frozen protocol.

    A and B are stock, distro, hand, or configuration files as `tuner export` writes them; with
    --config, `own` is your own configuration. They may also be servers: `nginx` and `caddy`, each
    tuned in its own space first, or `nginx:hand`, `caddy:FILE`. Servers get equal settings for
    everything that clients and operators would notice; the result lists these settings. Two
    programs of one server, such as before and after an upgrade, are named by --server-binary.
    """
    dry_run.refuse_resume(resume=resume)
    check_listen(metrics)
    arms = (baseline, candidate)
    if names_servers(arms):
        if junit is not None:
            raise DefinitionError("applies to studies; for servers use --fail-if", path="--junit")
        if metrics is not None:
            raise DefinitionError("applies to studies, not to servers", path="--metrics")
        match = Match.of(arms, options.overrides(given), study_file, limit=None, ladder=ladder)
        if dry_run.is_dry():
            rehearse_match("compare", match, as_json=as_json, quiet=quiet)
            return
        record = meet(match, resume=resume, as_json=as_json, quiet=quiet)
        if verdict_words(record) & set(fail_if):
            sys.exit(EXIT_FAIL_IF)
        return
    if ladder:
        raise DefinitionError(
            "applies to servers; for configurations run: tuner ladder nginx:A nginx:B",
            path="--ladder",
        )
    progress = TerminalProgress(quiet=quiet)
    if dry_run.is_dry():
        found = dry_run.prepared(_defined(arms, study_file, given), progress)
        both = {baseline: found.baseline, candidate: _other(candidate, found)}
        plan = dry_run.rehearse("compare", found, both, searches=False)
        dry_run.show([plan], as_json=as_json)
        return
    open_ = _reopen if resume else _create
    found, other, store = open_(arms, study_file, given, progress)
    study = confirmed(
        found,
        other,
        store,
        "compare",
        *arms,
        progress=progress,
        as_json=as_json,
        quiet=quiet,
        junit=junit,
        metrics=metrics,
    )
    if study.verdict is not None and str(study.verdict.kind) in fail_if:
        sys.exit(EXIT_FAIL_IF)


def _create(
    arms: tuple[str, str],
    study_file: str | None,
    given: Mapping[str, Any],
    progress: TerminalProgress,
) -> tuple[Preflight, Configuration, Store]:
    """Return the preflight, B's configuration and the record of a new comparison."""
    definition = _defined(arms, study_file, given)
    turn.take_turn(STUDIES / definition.name, definition.inventory, progress)
    found = preflight(definition)
    other = _other(arms[1], found)
    store = create_store(found, STUDIES / definition.name, asked=_asked(arms))
    store.add_configuration(describe(found, other))
    return found, other, store


def _defined(
    arms: tuple[str, str], study_file: str | None, given: Mapping[str, Any]
) -> StudyDefinition:
    """Return the definition of a new comparison."""
    asked = {**options.overrides(given), "baseline": arms[0]}
    with named("--baseline", "A"):
        definition = load_study(study_file or BASE_STUDY, asked)
    definition = replace(definition, finalists=1, others=())
    if given["name"] is None:
        definition = replace(definition, name=free_name(f"compare-{definition.name}"))
    return definition


def _other(candidate: str, found: Preflight) -> Configuration:
    """Return B's configuration.

    Raises:
        DefinitionError: it is the same as A's.
    """
    with named("--baseline", "B"):
        other = read_configuration(candidate, found.space, found.definition.published)
    if other.digest == found.baseline.digest:
        raise DefinitionError(
            f"A and B are the same configuration ({other.digest}); there is nothing to compare"
        )
    return other


def _reopen(
    arms: tuple[str, str],
    study_file: str | None,
    given: Mapping[str, Any],
    progress: TerminalProgress,
) -> tuple[Preflight, Configuration, Store]:
    """Return the preflight, B's configuration and the record of an interrupted comparison.

    It is the named comparison, or the newest one of A and B in this folder.

    Raises:
        DefinitionError: there is none, B has changed, or an option would change the definition.
    """
    others = options.overrides({"study": study_file, **given, "name": None, "storage": None})
    if others:
        raise DefinitionError(
            f"a resumed comparison keeps its definition; leave out {options.given(others)}",
            path="--resume",
        )
    name, storage = given["name"], given["storage"]
    if storage is None or name is None:
        name, _ = find_run(name, _asked(arms))
    definition, store, found = reopen(name, storage, progress, path="--resume")
    other = read_configuration(arms[1], found.space, definition.published)
    known = store.record().configurations
    if other.digest not in known:
        raise DefinitionError(
            f"{arms[1]} has changed since {name!r} began, so old and new blocks cannot be compared;"
            " begin a new study",
            path="--resume",
        )
    return found, other, store


def _asked(arms: Sequence[str]) -> GivenOptions:
    return {"command": "compare", "arms": list(arms)}
