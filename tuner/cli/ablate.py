"""``tuner ablate``: find the changes that matter, and the smallest set that keeps the gain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from tuner.app import dry_run, results
from tuner.app.caller import Caller
from tuner.app.printing import print_json
from tuner.app.provenance import confirm_measuring
from tuner.app.resume import check_same, reopen
from tuner.app.server_binary import own_definition
from tuner.app.session import open_bench, open_store
from tuner.cli import complete, options
from tuner.cli.callers import as_caller
from tuner.definition.study import BASE_STUDY, load_study
from tuner.errors import DefinitionError
from tuner.judge.results import StudyResult, evaluate
from tuner.judge.taken_apart import ablation_data, ablation_lines, left_out_sentence
from tuner.paths import STUDIES
from tuner.phases.ablate import run_ablation
from tuner.phases.study import calibrate
from tuner.record.changes import changes_of
from tuner.stats.verdict import VerdictKind
from tuner.words.terminal import say_fitted

_EPILOG = """
\b
Examples:
  tuner ablate proxy
  tuner ablate proxy --time 20m
  tuner export proxy
"""


@click.command(epilog=_EPILOG)
@click.argument("name", shell_complete=complete.studies)
@options.storage
@click.option("--time", metavar="T", default="10m", help="Take about this time [10m].")
@options.output
@options.dry_run
@options.foreign
@options.wait
@as_caller
def command(
    name: str, *, caller: Caller, storage: str | None, time: str, as_json: bool, dry: bool
) -> None:
    """Find the changes that matter in the winner of the study NAME.

    Measures the winner without each changed setting, and the baseline with each one alone, in
    fresh randomised blocks; p-values are adjusted by Holm. Then finds and confirms the smallest
    difference that keeps the gain, which the study recommends from then on. To resume an
    interrupted ablation, run the command again.
    """
    progress = caller.progress
    limit_s = load_study(BASE_STUDY, {"time": time}).time_s
    if dry:
        _rehearse(name, storage, caller, as_json=as_json)
        return
    store = open_store(name, storage)
    _, found = reopen(store, caller, path="NAME")
    study = evaluate(store.record())
    _check_better(study)
    folder = STUDIES / name
    resume_with = results.same_storage(storage, "ablate", name, "--time", time)
    with (
        results.kept(store, folder, progress, resume_with) as kept,
        open_bench(found, folder, progress, store) as (bench, spec),
    ):
        for done in store.recover():
            progress.note(done)
        # An ablation has its own time, so the study's time does not shorten it.
        ready = calibrate(bench, replace(spec, economise=False))
        run_ablation(ready, found.space, limit_s, study.gained)
    study = kept.study
    if as_json:
        print_json(_as_data(study))
        return
    for line in (*ablation_lines(study), "", left_out_sentence(study)):
        say_fitted(line)
    click.echo(f"report   {folder / 'report.html'}")
    click.echo(f"config   {folder / 'best'}/")


def _rehearse(name: str, storage: str | None, caller: Caller, *, as_json: bool) -> None:
    """Show which changes would be measured, and start nothing."""
    study = evaluate(open_store(name, storage, writing=False).record())
    record = study.record
    confirm_measuring(record, caller)
    _check_better(study)
    found = dry_run.prepared(load_study(BASE_STUDY, own_definition(record)), caller)
    check_same(found, record, "NAME")
    assert study.candidate is not None  # noqa: S101 - a better one exists
    known = record.configurations
    winner = known[study.candidate]
    both = {**dry_run.baselines(found), "winner": winner.configuration}
    changes = changes_of(known[record.baseline], winner)
    added = {"changes": ", ".join(change.name for change in changes)}
    plan = dry_run.rehearse("ablate", found, both, searches=False, added=added)
    dry_run.show([plan], as_json=as_json)


def _as_data(study: StudyResult) -> dict[str, Any]:
    return {"study": study.record.name, **ablation_data(study)}


def _check_better(study: StudyResult) -> None:
    """Raise DefinitionError unless the study has a winner."""
    if study.verdict is None or study.verdict.kind is not VerdictKind.BETTER:
        raise DefinitionError(
            f"the study has no winner to ablate: {study.sentence}", path=study.record.name
        )
