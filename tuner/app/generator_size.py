"""The number of the generator's cores, chosen by measurement before a study begins.

The rules of ``tuner.machine.placement`` give the generator one core. Where that cannot saturate the
server, a load point would be a share of what the generator can do, and the server would idle.
Therefore the baseline is measured in a closed loop, and the generator gets more cores while it is
the limit.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tuner.app.preflight import Preflight
from tuner.app.progress import RunProgress
from tuner.app.session import create_store, open_bench
from tuner.definition.study import StudyDefinition
from tuner.judge.load_point import Capacity
from tuner.machine.placement import BY_RULES, cores_needed
from tuner.machine.topology import cpu_ranges
from tuner.phases.calibrate import measure_capacity
from tuner.stats.words import counted

_FOLDER = "generator-size"
"""Folder within the study's for these measurements; it is removed after each."""

MakePreflights = Callable[[tuple[int, ...]], Sequence[Preflight]]
"""Makes preflights that share a generator on these CPUs; none: those of the rules."""


def preflight_sized(
    look: Callable[[StudyDefinition], Preflight],
    definition: StudyDefinition,
    folder: Path,
    progress: RunProgress,
) -> Preflight:
    """Return the preflight of a new study with a generator that is large enough, if its host is.

    The chosen CPUs become part of the definition, so that a resumed study has the same. The other
    parameters and the errors are those of ``sized``.
    """

    def on(cpus: tuple[int, ...]) -> Sequence[Preflight]:
        wanted = replace(definition.cpus, generator=cpus) if cpus else definition.cpus
        return [look(replace(definition, cpus=wanted))]

    (found,), reasons = sized(on, folder, progress)
    return replace(found, notes=(*found.notes, *reasons))


def sized_by_option(
    look: Callable[[Mapping[str, str]], Sequence[Preflight]], folder: Path, progress: RunProgress
) -> tuple[Sequence[Preflight], Sequence[str]]:
    """Return what ``sized`` does for preflights that take options, and report the reasons.

    Args:
        look: makes the preflights with the option for the generator's CPUs, or without it.
        folder: folder of the study or run.
        progress: display of the measurements and the reasons.
    """

    def on(cpus: tuple[int, ...]) -> Sequence[Preflight]:
        return look({"generator_cpus": cpu_ranges(cpus)} if cpus else {})

    found, reasons = sized(on, folder, progress)
    for words in reasons:
        progress.note(words)
    return found, reasons


def sized(
    look: MakePreflights, folder: Path, progress: RunProgress
) -> tuple[Sequence[Preflight], Sequence[str]]:
    """Return preflights of new studies with a generator that is large enough, if its host is.

    The second part has a note on each enlargement. Nothing is measured where the generator cannot
    grow: the user names CPUs or a rate, the service of a host is tuned in place, or the host has no
    further cores.

    Args:
        look: makes the preflights.
        folder: folder of the study or run.
        progress: display of the measurements.

    Raises:
        DefinitionError, HostError, InstrumentError: as the preflight, or as a measurement.
    """
    cpus: tuple[int, ...] = ()
    reasons: list[str] = []
    found = look(cpus)
    growing = all(each.definition.cpus == BY_RULES for each in found)
    while growing and any(map(_can_grow, found)):
        more, why = _larger(found, folder / _FOLDER, progress)
        growing = len(more) > len(cpus)
        cpus = more if growing else cpus
        reasons += why
        # The end of the lab has closed the connections to its hosts.
        if growing or any(each.definition.inventory for each in found):
            found = look(cpus)
    return found, reasons


def _can_grow(found: Preflight) -> bool:
    definition, now = found.definition, found.cores.generator
    if definition.in_place or definition.rate_per_s is not None:
        return False
    return len(found.premises.generator_cpus(len(now) + 1)) > len(now)


def _larger(
    found: Sequence[Preflight], folder: Path, progress: RunProgress
) -> tuple[tuple[int, ...], list[str]]:
    """Return CPUs for a generator that is the limit of a baseline, and why; both may be empty."""
    wanted: tuple[int, ...] = ()
    reasons: list[str] = []
    for each in filter(_can_grow, found):
        capacity = _capacity(each, folder, progress)
        if not capacity.generator_bound or not capacity.busy_share:
            continue
        apart = not each.premises.generates_there
        cores = cores_needed(each.cores, capacity.busy_share, apart=apart)
        wanted = max(wanted, each.premises.generator_cpus(cores), key=len)
        reasons.append(
            f"the generator is the limit on {counted(len(each.cores.generator), 'core')}: at"
            f" {capacity.per_s:,.0f}/s the CPUs of {each.server.words} are"
            f" {capacity.busy_share:.0%} busy; it gets the CPUs {cpu_ranges(wanted)}"
        )
    return wanted, reasons


def _capacity(found: Preflight, folder: Path, progress: RunProgress) -> Capacity:
    """Measure the baseline's capacity with a record of its own, which is removed again."""
    definition = replace(found.definition, storage=None)
    alone = replace(found, definition=definition, others=())
    shutil.rmtree(folder, ignore_errors=True)
    try:
        store = create_store(alone, folder)
        with progress.live(), open_bench(alone, folder, progress, store) as (bench, _):
            return measure_capacity(bench, found.baseline)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
