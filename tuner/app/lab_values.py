"""A study of the lab, applied to a host: its settings in the host's own files."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.app.host_files import ChangePlan, UnfitError
from tuner.app.recommended import Recommended
from tuner.definition.study import BASE_STUDY, load_study
from tuner.errors import DefinitionError
from tuner.own.bound import BoundSpace
from tuner.own.catalog import SERVICES
from tuner.own.reader import FoundService, Placed
from tuner.own.service import sent
from tuner.record.changes import changes_of
from tuner.space.configuration import Value
from tuner.space.facts import space_facts
from tuner.space.kernel import is_kernels
from tuner.space.space import Space, bind_space
from tuner.workload.workload import Workload, load_workload


@dataclass(frozen=True, slots=True)
class LabSettings:
    """The settings that a study of the lab changed, with their places."""

    wanted: dict[str, Value]
    baseline: dict[str, Value]
    space: Space
    workload: Workload
    remedy: str
    """Advice that does without these places, as part of a sentence."""

    @property
    def needs_restart(self) -> bool:
        """True if a running server keeps the old value of a setting when it reloads its files."""
        return any(self.space.parameter(name).apply == "restart" for name in self.wanted)


def lab_settings(given: Recommended, remedy: str) -> LabSettings:
    """Return the settings of a study of the lab.

    Raises:
        DefinitionError: its space or workload is missing here, or nothing differs from the
            baseline.
    """
    record = given.record
    definition = load_study(BASE_STUDY, record.definition)
    workload = load_workload(definition.workload)
    facts = space_facts(record.host, record.server, workload, len(record.cores.server))
    wanted = {
        change.name: change.tuned
        for change in changes_of(given.baseline, given.chosen)
        if not is_kernels(change.name)
    }
    if not wanted:
        raise DefinitionError(
            f"{given.name!r} changed no setting of {record.server.name}: nothing to apply",
            path="NAME",
        )
    space = bind_space(definition.space, facts, definition.force)
    return LabSettings(wanted, dict(given.baseline.values), space, workload, remedy)


def plan_of_lab(settings: LabSettings, found: FoundService, server_name: str = "") -> ChangePlan:
    """Return the plan for a host: its own files with the study's changed settings.

    Args:
        settings: settings of the study.
        found: the files of the host.
        server_name: server of the configuration; empty: the default one.

    Raises:
        UnfitError: a setting has no place in them.
    """
    place = SERVICES[settings.space.server].place
    assert place is not None  # noqa: S101 - ``planning.wanted`` refuses servers without
    try:
        placed = place(
            found,
            settings.space,
            server_name=server_name,
            tls=settings.workload.wire.tls is not None,
            proxied=settings.workload.backend is not None,
        )
        _refuse_unplaced(settings, placed.bound, found.main)
        texts = _texts(settings, placed, found)
    except DefinitionError as error:
        raise UnfitError(f"{error}; {settings.remedy}") from error
    return ChangePlan(found, texts, "", _notes(settings, placed.bound))


def _refuse_unplaced(settings: LabSettings, bound: BoundSpace, main: str) -> None:
    placed = {parameter.name: parameter for parameter in bound.space.parameters}
    reasons = dict(bound.space.left_out)
    for name, value in settings.wanted.items():
        if name not in placed:
            reason = reasons.get(name, "has no place in this configuration")
            raise DefinitionError(f"{name} {reason}", path=main)
        searched = settings.space.parameter(name).role != "fixed"
        if searched and placed[name].role == "fixed" and bound.configured[name] != value:
            raise DefinitionError(f"other settings require the current {name}", path=main)


def _texts(settings: LabSettings, placed: Placed, found: FoundService) -> dict[str, str]:
    bound = placed.bound
    configuration = bound.space.complete(settings.wanted, bound.baseline)
    for name in settings.wanted:
        if name not in configuration.values:
            condition = "a setting that it depends on differs on this host"
            raise DefinitionError(f"{name} has no effect: {condition}", path=found.main)
    texts = placed.texts(configuration)
    sent(texts)
    return texts


def _notes(settings: LabSettings, bound: BoundSpace) -> tuple[str, ...]:
    """Return notes on settings that differ between study and host, which keeps its own."""
    others = [
        f"{name} {bound.space.parameter(name).format(value)}"
        f" (in the study {bound.space.parameter(name).format(settings.baseline[name])})"
        for name, value in bound.configured.items()
        if name not in settings.wanted and settings.baseline.get(name, value) != value
    ]
    return (f"keeps the host's {', '.join(others)}",) if others else ()
