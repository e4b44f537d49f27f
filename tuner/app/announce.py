"""The announcement of a study: its subject, host, search and duration."""

from __future__ import annotations

from pathlib import Path

from tuner.app.preflight import Preflight
from tuner.app.progress import RunProgress
from tuner.definition.sampler_names import AUTO
from tuner.definition.study import StudyDefinition
from tuner.judge.forecast import Forecast, forecast
from tuner.own.installed import installed
from tuner.stats.words import counted


def announce(
    found: Preflight, folder: Path, progress: RunProgress, *, what: str, search: bool = True
) -> None:
    """Report the study's subject, host, search and expected duration before it starts."""
    if not progress.silent:
        progress.facts(rows(found, folder, what=what, search=search))


def announce_installed(definition: StudyDefinition, progress: RunProgress) -> None:
    """Report the servers of this machine that the user could tune instead of the lab's.

    Reports nothing for a study of the user's own configuration, or of other hosts.
    """
    if definition.config or definition.inventory or progress.silent:
        return
    for found in installed():
        progress.facts({"found": f"{found.words}; tune it with {found.option}"})


def rows(found: Preflight, folder: Path, *, what: str, search: bool = True) -> dict[str, str]:
    """Return the study's subject, host, search and expected duration by their titles."""
    definition = found.definition
    searched = [p.name for p in found.space.searched(definition.allow)]
    server, host, workload = found.server, found.host, found.workload
    made = {
        what: f"{server.words}, objective {found.goals.words}",
        "workload": f"{workload.name}: {workload.summary} ({workload.wire.words})",
        "host": f"{host.cpu_model}, {counted(len(host.cpus), 'core')}, {host.distribution},"
        f" {host.kernel}",
        "cores": found.cores.words,
        "limits": f"{host.file_limit:,} open files, somaxconn {host.somaxconn:,}",
        "baseline": ", ".join(
            f"{name} ({configuration.digest})"
            for name, configuration in zip(
                (definition.baseline, *definition.others),
                (found.baseline, *found.others),
                strict=True,
            )
        ),
        "search": f"{counted(len(searched), 'parameter')} of {found.space.name}:"
        f" {', '.join(searched)}",
        "seed": str(definition.seed),
        "time": f"{_forecast(found, search=search).words}; results in {folder}/",
    }
    if search and definition.sampler != AUTO:
        made["sampler"] = definition.sampler
    if what == "optimize" and definition.ablate == "auto":
        made["ablation"] = "in what is left of the time, if the verdict is better"
    if not search:
        del made["search"]
    if found.premises.words:
        made["fleet"] = found.premises.words
    made.update({f"note {i}": note for i, note in enumerate(found.notes, 1)})
    return made


def _forecast(found: Preflight, *, search: bool) -> Forecast:
    definition = found.definition
    return forecast(
        definition.time_s,
        found.goals,
        found.design,
        rate_per_s=definition.rate_per_s,
        exclusive=found.kernel is not None or bool(definition.in_place),
        polls=found.polls,
        search=search,
    )
