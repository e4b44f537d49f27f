"""Resumption of a study with the same definition, record and host."""

from __future__ import annotations

from tuner.app.caller import Caller
from tuner.app.preflight import Preflight, Searching, preflight
from tuner.app.provenance import confirm_measuring
from tuner.app.server_binary import own_definition
from tuner.app.session import describe
from tuner.app.turn import take_turn
from tuner.definition.study import BASE_STUDY, StudyDefinition, load_study
from tuner.errors import DefinitionError
from tuner.paths import STUDIES
from tuner.record.model import Record
from tuner.store.store import Store


def reopen(
    store: Store, caller: Caller, *, path: str, searching: Searching | None = None
) -> tuple[StudyDefinition, Preflight]:
    """Return the definition of a study and its host, for further measurements.

    Args:
        store: record of the study.
        caller: holder of the study's locks, which may accept a record from elsewhere.
        path: argument of the user, for messages.
        searching: the search to resume; None if the study only measures.

    Raises:
        DefinitionError: the user does not accept the study's origin, or the host, server or
            configuration has changed.
        HostError: another tuner runs the study, or measures on the same cores.
    """
    record = store.record()
    confirm_measuring(record, caller)
    definition = load_study(BASE_STUDY, own_definition(record))
    turn = take_turn(STUDIES / definition.name, definition.inventory, caller)
    found = preflight(definition, turn=turn, searching=searching)
    check_same(found, store.record(), path)
    return definition, found


def check_same(found: Preflight, record: Record, path: str) -> None:
    """Raise DefinitionError if the host, server or configuration of a study has changed."""
    here: dict[str, tuple[object, object]] = {
        "baseline": (record.baseline, found.baseline.digest),
        "host": (record.host.hostname, found.host.hostname),
        "server": (record.server.build, found.server.build),
        "cores": (record.cores, found.cores),
    }
    windows = [window for block in record.blocks for window in block.windows]
    if windows:
        here["idle CPUs"] = (any(window.polled for window in windows), found.polls)
    if found.own is not None and record.baseline in record.configurations:
        # Equal values are not enough: the user may have changed other lines of the files.
        then, now = record.configurations[record.baseline], describe(found, found.baseline)
        here["configuration"] = ((then.text, dict(then.more)), (now.text, dict(now.more)))
    changed = [what for what, (before, after) in here.items() if before != after]
    if changed:
        raise DefinitionError(
            f"{' and '.join(changed)} changed since {record.name!r} began, so old and new blocks"
            " cannot be compared; begin a new study",
            path=path,
        )
