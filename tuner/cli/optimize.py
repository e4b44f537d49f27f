"""``tuner optimize``: search for a better configuration and confirm it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tuner.app import dry_run, provenance, results, turn
from tuner.app.announce import announce, announce_installed
from tuner.app.metrics_server import check_listen, study_metrics
from tuner.app.preflight import Preflight, Searching, preflight
from tuner.app.progress import TerminalProgress
from tuner.app.resume import reopen
from tuner.app.session import STUDIES, create_store, free_name, open_bench
from tuner.cli import options
from tuner.cli.groups import GroupedCommand
from tuner.definition.sampler_names import named_code
from tuner.definition.study import BASE_STUDY, DEFAULT_STUDY, StudyDefinition, load_study
from tuner.errors import DefinitionError
from tuner.judge.kinds import kind_of
from tuner.judge.results import evaluate
from tuner.phases.ablate import run_study_and_ablation
from tuner.store.store import Store

_EPILOG = """
\b
Examples:
  tuner optimize --server nginx --objective p99
  tuner optimize --objective capacity --slo 'p99<5ms'
  tuner optimize --objective cpu --constraint 'p99 <= 1.1x baseline'
  tuner optimize --objective p99 --objective memory --choose 'memory <= 1.1x baseline'
  tuner optimize --workload proxy --time 20m --name proxy
  tuner optimize --allow open_file_cache --allow access_log_buffer
  tuner optimize --config /etc/nginx/nginx.conf --server-name shop.example
  tuner optimize --baseline studies/proxy/best/configuration.yaml --workload proxy
  sudo tuner optimize --layer kernel --workload proxy --time 2h
  tuner optimize --sequential --finalists 3 --time 30m
  tuner optimize --baseline distro --baseline stock --baseline hand --time 30m
  tuner optimize --inventory hosts.yml --time 30m
  tuner optimize --inventory hosts.yml --in-place restarts-my-service --workload shop.yaml
  tuner optimize --config /etc/nginx/nginx.conf --dry-run
  tuner optimize --sampler tpe
  tuner optimize --resume --name proxy
"""


@click.command(cls=GroupedCommand, epilog=_EPILOG)
@options.workload
@options.own
@options.in_place
@options.search
@options.confirmation
@options.ablate
@options.study_file
@options.study
@click.option("--resume", is_flag=True, help="Resume an interrupted study.")
@options.output
@options.metrics
@options.ci
@dry_run.option
@provenance.option
@turn.option
def command(
    *,
    study_file: str | None,
    resume: bool,
    as_json: bool,
    quiet: bool,
    junit: Path | None,
    metrics: str | None,
    **given: Any,
) -> None:
    """Search for a better configuration, then prove whether it is one.

    Calibrates on the baseline, searches in randomised blocks, and confirms the winner on fresh
    data under a protocol that is frozen beforehand. Writes the verdict (better, worse, equivalent
    or inconclusive), a report, and the recommended configuration. If the verdict is better and
    enough of the time is left, finds the changes that matter and recommends only those.
    """
    progress = TerminalProgress(quiet=quiet)
    dry_run.refuse_resume(resume=resume)
    check_listen(metrics)
    searching = Searching(named_code(given))
    if resume:
        definition, store, found = _resume({"study": study_file, **given}, progress)
    else:
        # The quickstart's workload is the lab's; a site of one's own answers other requests.
        unnamed = DEFAULT_STUDY if given["config"] is None else BASE_STUDY
        definition = load_study(study_file or unnamed, options.overrides(given))
        if given["name"] is None:
            definition = replace(definition, name=free_name(definition.name))
        if dry_run.is_dry():
            found = dry_run.prepared(definition, progress, searching=searching)
            if not quiet:
                announce_installed(definition)
            plan = dry_run.rehearse("optimize", found, dry_run.baselines(found))
            dry_run.show([plan], as_json=as_json)
            return
        turn.take_turn(STUDIES / definition.name, definition.inventory, progress)
        if not quiet:
            announce_installed(definition)
        found = preflight(definition, searching=searching)
        store = create_store(found, STUDIES / definition.name)
    folder = STUDIES / definition.name
    if not quiet:
        announce(found, folder, what="optimize")
    resume_with = results.resumption(definition, "optimize")
    with (
        study_metrics(metrics, definition, folder, progress),
        results.kept(store, folder, progress, resume_with),
        open_bench(found, folder, progress, store) as (bench, spec),
    ):
        # Only now does this process own the study; another one may have been running it.
        for done in store.recover():
            progress.note(done)
        run_study_and_ablation(bench, spec)
    results.show([evaluate(store.record())], folder, as_json=as_json, junit=junit)


def _resume(
    given: dict[str, Any], progress: TerminalProgress
) -> tuple[StudyDefinition, Store, Preflight]:
    """Return the study to resume: the named one, or the newest in this folder."""
    searching = Searching(named_code(given))
    kept = {"sampler": None} if searching.code else {}
    others = options.overrides({**given, "name": None, "storage": None, **kept})
    if others:
        raise DefinitionError(
            f"a resumed study keeps its definition; leave out {options.given(others)}",
            path="--resume",
        )
    definition, store, found = reopen(
        given["name"] or newest(STUDIES),
        given["storage"],
        progress,
        path="--resume",
        searching=searching,
    )
    record = store.record()
    if kind_of(record) == "measurement":
        raise DefinitionError(
            f"{definition.name!r} is a measurement, which cannot be resumed; name a study with"
            " --name",
            path="--resume",
        )
    asked = record.asked
    if asked:
        raise DefinitionError(
            f"tuner {asked['command']} began {definition.name!r}, which has no search; resume it"
            f" with tuner {asked['command']}, the same arguments, --resume and --name",
            path="--resume",
        )
    return definition, store, found


def newest(studies: Path) -> str:
    """Return the name of the study with the newest record.

    Raises:
        DefinitionError: the folder has no study.
    """
    records = sorted(studies.glob("*/record.db"), key=lambda path: path.stat().st_mtime)
    if not records:
        raise DefinitionError(f"no study in {studies}/; name one with --name", path="--resume")
    return records[-1].parent.name
