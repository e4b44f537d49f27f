"""A study taken up again: its definition, its record, and the host that it was begun on."""

from __future__ import annotations

from tuner.app.preflight import Preflight, preflight
from tuner.app.progress import TerminalProgress
from tuner.app.provenance import confirm_measuring
from tuner.app.session import STUDIES, describe, open_store
from tuner.app.turn import take_turn
from tuner.definition.study import DEFAULT_STUDY, StudyDefinition, load_study
from tuner.errors import DefinitionError
from tuner.record.model import Record
from tuner.store.store import Store


def reopen(
    name: str, storage: str | None, progress: TerminalProgress, *, path: str
) -> tuple[StudyDefinition, Store, Preflight]:
    """Open a study to measure more for it.

    Args:
        name: of the study.
        storage: as given by ``--storage``.
        progress: where it is said what was waited for, and what was stopped.
        path: what the user gave, for messages.

    Raises:
        DefinitionError: there is no such study, it was begun elsewhere and was not accepted, or
            what it was begun with is not what is here.
        HostError: another tuner runs it, or measures on the same cores.
    """
    store = open_store(name, storage)
    record = store.record()
    confirm_measuring(record)
    definition = load_study(DEFAULT_STUDY, record.definition)
    take_turn(STUDIES / name, definition.inventory, progress)
    found = preflight(definition)
    check_same(found, store.record(), path)
    return definition, store, found


def check_same(found: Preflight, record: Record, path: str) -> None:
    """A study that resumes elsewhere, or with another server, would be two studies in one.

    Raises:
        DefinitionError: what it was begun with is not what is here.
    """
    here: dict[str, tuple[object, object]] = {
        "baseline": (record.baseline, found.baseline.digest),
        "host": (record.host.hostname, found.host.hostname),
        "server": (record.server.build, found.server.build),
        "cores": (record.cores, found.cores),
    }
    if found.own is not None and record.baseline in record.configurations:
        # Values alone do not show it: the user may have changed anything else in their files.
        then, now = record.configurations[record.baseline], describe(found, found.baseline)
        here["configuration"] = ((then.text, dict(then.more)), (now.text, dict(now.more)))
    changed = [what for what, (before, after) in here.items() if before != after]
    if changed:
        raise DefinitionError(
            f"{' and '.join(changed)} changed since {record.name!r} was begun, so its blocks"
            " cannot be compared with new ones; begin a new study",
            path=path,
        )
