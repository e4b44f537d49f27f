"""Runs of several studies in one folder: finding and resuming them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from tuner.app.caller import Caller
from tuner.app.preflight import Preflight
from tuner.app.provenance import confirm_measuring
from tuner.app.resume import check_same
from tuner.app.server_binary import KEY, confirm_programs
from tuner.app.session import create_store
from tuner.errors import DefinitionError, StoreError, UnbegunError
from tuner.paths import STUDIES, has_record, recorded_studies, written_unix_s
from tuner.store.listing import list_names, open_all
from tuner.store.signature import made_here
from tuner.store.store import Store, sqlite_url

_T = TypeVar("_T")
GivenOptions = Mapping[str, object]
"""Options of a command by their names, as plain data."""


def asked_of(folder: Path) -> GivenOptions:
    """Return the options of the run in a folder; empty without a run."""
    if not has_record(folder):
        return {}
    url = sqlite_url(folder)
    for name in list_names(url):
        try:
            found = Store.open(url, name, writing=False).record().asked
        except StoreError:
            continue
        if found:
            return found
    return {}


def find_run(called: object, wanted: GivenOptions) -> tuple[str, GivenOptions]:
    """Return the name and the options of the run to resume.

    Args:
        called: name of the run; None for the newest with these options.
        wanted: options that it must have.

    Raises:
        DefinitionError: there is none.
    """
    folders = recorded_studies() if called is None else [STUDIES / str(called)]
    known = [folder for folder in folders if has_record(folder)]
    for folder in sorted(known, key=written_unix_s, reverse=True):
        asked = asked_of(folder)
        if wanted.items() <= asked.items():
            return folder.name, asked
    words = [value for key, value in wanted.items() if key != "command"]
    what = " ".join(" ".join(word) if isinstance(word, list) else str(word) for word in words)
    where = f"{STUDIES}/" if called is None else f"{STUDIES}/{called}"
    raise DefinitionError(
        f"nothing in {where} can be resumed with the arguments: {what}", path="--resume"
    )


def reopen_run(
    called: object,
    wanted: GivenOptions,
    options: type[_T],
    caller: Caller,
    programs: Sequence[str] = (),
) -> tuple[str, _T]:
    """Return the name and the options of the run to resume, once its origin is confirmed.

    Args:
        called: name of the run; None for the newest with these options.
        wanted: options that it must have.
        options: class of the options.
        caller: the command, which may accept a run from elsewhere.
        programs: programs that the user names for its servers.

    Raises:
        DefinitionError: there is none, the user does not accept its origin, or it has other
            programs.
    """
    name, kept = find_run(called, wanted)
    confirm_programs(kept.get(KEY), programs, elsewhere=_confirm_run(name, caller))
    return name, msgspec.convert({k: v for k, v in kept.items() if k != "command"}, options)


def _confirm_run(name: str, caller: Caller) -> bool:
    """Ask once before resuming a run that was begun elsewhere; return whether it was.

    Raises:
        DefinitionError: see ``confirm_measuring``.
        StoreError: a record of the run cannot be read.
    """
    url = sqlite_url(STUDIES / name)
    for store in open_all(url, writing=False):
        record = store.record()
        if made_here(record) == "elsewhere":
            confirm_measuring(record, caller)
            return True
    return False


def begin(
    found: Preflight, folder: Path, asked: GivenOptions, *, resume: bool, command: str
) -> Store:
    """Create the record of one of the run's studies, or reopen it to resume.

    Raises:
        DefinitionError: the host, server or configuration has changed since the study began.
        StoreError: the record exists and cannot be resumed.
    """
    name, url = found.definition.name, sqlite_url(folder)
    if resume and name in list_names(url):
        with contextlib.suppress(UnbegunError):
            store = Store.open(url, name)
            check_same(found, store.record(), "--resume")
            return store
    return create_store(found, folder, asked=asked, command=command)
