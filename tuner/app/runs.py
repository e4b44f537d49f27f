"""Runs of several studies in one folder: which there are, and going on with one of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tuner.app.preflight import Preflight
from tuner.app.provenance import confirm_measuring
from tuner.app.resume import check_same
from tuner.app.session import STUDIES, create_store
from tuner.errors import DefinitionError, StoreError
from tuner.store.signature import made_here
from tuner.store.store import Store, list_names, sqlite_url

Asked = Mapping[str, object]
"""The options of a command, by their names, as plain data."""


def asked_of(folder: Path) -> Asked:
    """Return the options of the run in a folder; empty if there is none."""
    if not (folder / "record.db").is_file():
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


def find_run(called: object, wanted: Asked) -> tuple[str, Asked]:
    """Return the name of the run to resume, and its options.

    Args:
        called: its name; None for the newest of that kind.
        wanted: what it must have been asked for.

    Raises:
        DefinitionError: there is none.
    """
    records = STUDIES.glob("*/record.db") if called is None else [STUDIES / str(called)]
    folders = [path.parent if called is None else path for path in records]
    known = [folder for folder in folders if (folder / "record.db").is_file()]
    for folder in sorted(known, key=_written, reverse=True):
        asked = asked_of(folder)
        if wanted.items() <= asked.items():
            return folder.name, asked
    words = [value for key, value in wanted.items() if key != "command"]
    what = " ".join(" ".join(word) if isinstance(word, list) else str(word) for word in words)
    where = f"{STUDIES}/" if called is None else f"{STUDIES}/{called}"
    raise DefinitionError(
        f"there is nothing in {where} that was begun with: {what}", path="--resume"
    )


def confirm_run(name: str) -> None:
    """Name the maker of a run that is to be resumed; ask, once, unless it was begun here.

    Raises:
        DefinitionError: see ``confirm_measuring``.
        StoreError: a record of it cannot be read.
    """
    url = sqlite_url(STUDIES / name)
    for study in list_names(url):
        record = Store.open(url, study, writing=False).record()
        if made_here(record) == "elsewhere":
            confirm_measuring(record)
            return


def begin(found: Preflight, folder: Path, asked: Asked, *, resume: bool) -> Store:
    """Return the record of one of the run's studies: begun, or where it is there already, opened.

    Raises:
        DefinitionError: what it was begun with is not what is here.
        StoreError: it exists and cannot be resumed.
    """
    name, url = found.definition.name, sqlite_url(folder)
    if resume and name in list_names(url):
        store = Store.open(url, name)
        check_same(found, store.record(), "--resume")
        return store
    return create_store(found, folder, asked=asked)


def _written(folder: Path) -> float:
    return (folder / "record.db").stat().st_mtime
