"""Records with an incomplete start: their command is at it, or has ended.

The last item of a start is the version of the record's schema (``Store.create``).
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

from tuner.store.optuna_storage import StudyTrials
from tuner.store.storage import Say, Storage, no_message, open_storage

VERSION = "schema_version"
"""Attribute that a study has once its start is complete."""
_PATIENCE_S = 30.0
"""Time for a start, which takes less than a second; a database may be slow."""
_LOOK_S = 0.5


def unbegun(storage: Any, name: str) -> list[StudyTrials]:
    """Return Optuna's studies of an incomplete record; empty without one.

    That of the blocks is the first: a removal in this order, if it ends between them, leaves an
    incomplete record again.
    """
    found: list[StudyTrials] = []
    with contextlib.suppress(KeyError):
        search = StudyTrials(storage, name)
        if VERSION not in search.attrs:
            found = [search]
            found.insert(0, StudyTrials(storage, f"{name}/blocks"))
    return found


def remove_unbegun(storage: Any, name: str) -> None:
    """Remove a record with an incomplete start, if there is one."""
    for study in unbegun(storage, name):
        study.remove()


def wait_for_start(url: Storage, name: str, say: Say = no_message) -> None:
    """Wait while another worker starts a record, and remove one that stays incomplete.

    Args:
        url: URL of the storage.
        name: name of the study.
        say: called with a message if there is something to wait for.

    Raises:
        StoreError: the storage cannot be opened.
    """
    storage = open_storage(url, say)
    seen: list[int] = []
    deadline = 0.0
    while found := unbegun(storage, name):
        if (now := [study.id for study in found]) != seen:
            seen = now
            deadline = time.monotonic() + _PATIENCE_S
            say(
                f"the start of {name!r} is incomplete; waiting for up to {_PATIENCE_S:.0f} s for"
                " the worker that began it"
            )
        elif time.monotonic() > deadline:
            # Only what was seen for so long: another worker may have begun the study again.
            for study in found:
                study.remove()
        time.sleep(_LOOK_S)
