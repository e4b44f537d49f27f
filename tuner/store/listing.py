"""The records of a storage."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tuner.errors import UnbegunError
from tuner.record.check import reading
from tuner.store.optuna_storage import import_optuna
from tuner.store.storage import Storage, open_storage, without_secret
from tuner.store.store import Store


def list_names(url: Storage, *, writing: bool = False) -> list[str]:
    """Return the names of the studies in a storage.

    Args:
        url: URL of the storage.
        writing: whether to accept an empty database and create its tables.

    Raises:
        StoreError: the storage cannot be read.
    """
    storage = open_storage(url, writing=writing)
    with reading(without_secret(url)):
        names: list[str] = import_optuna().get_all_study_names(storage)
    whole = {name.removesuffix("/blocks") for name in names if name.endswith("/blocks")}
    return sorted(name for name in names if name in whole)


def open_all(url: Storage, *, writing: bool = True) -> Iterator[Store]:
    """Yield the records of a storage, except those with an incomplete start.

    Raises:
        StoreError: one cannot be read.
    """
    for name in list_names(url):
        with contextlib.suppress(UnbegunError):
            yield Store.open(url, name, writing=writing)
