"""The work of ``tuner optimize``: a search and its confirmation, or what they would do."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from tuner.app import dry_run, results
from tuner.app.announce import announce, announce_installed
from tuner.app.caller import Caller
from tuner.app.generator_size import preflight_sized
from tuner.app.metrics_server import check_listen, study_metrics
from tuner.app.option_words import named_options
from tuner.app.preflight import Searching, preflight
from tuner.app.resume import reopen
from tuner.app.runs import GivenOptions
from tuner.app.session import create_store, free_name, open_bench, open_store
from tuner.app.turn import take_folder, take_turn
from tuner.definition.sampler_names import named_code
from tuner.definition.study import BASE_STUDY, DEFAULT_STUDY, StudyDefinition, load_study
from tuner.errors import DefinitionError
from tuner.judge.kinds import kind_of
from tuner.judge.results import StudyResult, evaluate
from tuner.paths import STUDIES, recorded_studies, written_unix_s
from tuner.phases.ablate import is_over, run_study_and_ablation
from tuner.store.store import Store


def optimize(
    options: GivenOptions,
    caller: Caller,
    *,
    study_file: str | None = None,
    resume: bool = False,
    metrics: str | None = None,
) -> StudyResult:
    """Search for a better configuration, confirm it, and write the results.

    Args:
        options: given options by their names in a study file.
        caller: the command or program.
        study_file: name or path of a study file; None for the default one.
        resume: whether to resume the named or newest study.
        metrics: value of ``--metrics``.

    Raises:
        DefinitionError: an option is wrong; nothing was started.
        HostError, InstrumentError, StoreError: the host, the generator or the record failed.
        Interrupted, KeyboardInterrupt: the user stopped it; the record keeps what was measured.
    """
    check_listen(metrics)
    progress = caller.progress
    if resume:
        store = _interrupted(options, study_file)
        if (over := _shown_again(store, caller)) is not None:
            return over
        definition, found = reopen(store, caller, path="--resume", searching=_searching(options))
    else:
        definition = _defined(options, study_file)
        turn = take_turn(STUDIES / definition.name, definition.inventory, caller)
        announce_installed(definition, progress)
        look = partial(preflight, turn=turn, searching=_searching(options))
        found = preflight_sized(look, definition, STUDIES / definition.name, progress)
        store = create_store(found, STUDIES / definition.name, command=caller.command)
    folder = STUDIES / definition.name
    announce(found, folder, progress, what="optimize")
    resume_with = results.resumption(definition, "optimize")
    with (
        study_metrics(metrics, definition, folder, progress),
        results.kept(store, folder, progress, resume_with) as kept,
        open_bench(found, folder, progress, store) as (bench, spec),
    ):
        # Only now does this process own the study; another one may have been running it.
        for done in store.recover():
            progress.note(done)
        run_study_and_ablation(bench, spec)
    return kept.study


def rehearsed(
    options: GivenOptions, caller: Caller, study_file: str | None = None
) -> dry_run.Rehearsal:
    """Return what ``optimize`` would measure, and start nothing.

    Raises:
        DefinitionError, HostError: as ``optimize``.
    """
    definition = _defined(options, study_file)
    found = dry_run.prepared(definition, caller, searching=_searching(options))
    announce_installed(definition, caller.progress)
    return dry_run.rehearse("optimize", found, dry_run.baselines(found))


def _searching(options: GivenOptions) -> Searching:
    return Searching(named_code(options))


def _defined(options: GivenOptions, study_file: str | None) -> StudyDefinition:
    # The quickstart's workload is the lab's; a site of one's own answers other requests.
    unnamed = BASE_STUDY if "config" in options else DEFAULT_STUDY
    definition = load_study(study_file or unnamed, options)
    if "name" not in options:
        definition = replace(definition, name=free_name(definition.name))
    return definition


def _interrupted(options: GivenOptions, study_file: str | None) -> Store:
    """Return the record of the study to resume: the named one, or the newest in this folder."""
    free = {"name", "storage", *(("sampler",) if _searching(options).code else ())}
    given = {**({"study": study_file} if study_file else {}), **options}
    others = {key: value for key, value in given.items() if key not in free}
    if others:
        raise DefinitionError(
            f"a resumed study keeps its definition; leave out {named_options(others)}",
            path="--resume",
        )
    storage = options.get("storage")
    store = open_store(
        str(options.get("name") or newest(STUDIES)), None if storage is None else str(storage)
    )
    record = store.record()
    if kind_of(record) == "measurement":
        raise DefinitionError(
            f"{record.name!r} is a measurement, which cannot be resumed; name a study with --name",
            path="--resume",
        )
    asked = record.asked
    if asked:
        raise DefinitionError(
            f"tuner {asked['command']} began {record.name!r}, which has no search; resume it"
            f" with tuner {asked['command']}, the same arguments, --resume and --name",
            path="--resume",
        )
    return store


def _shown_again(store: Store, caller: Caller) -> StudyResult | None:
    """Write the results of a study that is over again; None if something is left to measure."""
    record = store.record()
    if not is_over(record):
        return None
    take_folder(STUDIES / record.name, caller)
    progress = caller.progress
    progress.note(f"{record.name} is over, so nothing is measured; begin a new study for more")
    results.write([record], STUDIES / record.name, progress)
    return evaluate(record)


def newest(studies: Path) -> str:
    """Return the name of the study with the newest record.

    Raises:
        DefinitionError: the folder has no study.
    """
    folders = recorded_studies(studies)
    if not folders:
        raise DefinitionError(f"no study in {studies}/; name one with --name", path="--resume")
    return max(folders, key=written_unix_s).name
