"""Signing of a record when it begins, and after each command that measured for it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

from tuner.app.progress import RunProgress
from tuner.errors import StoreError
from tuner.store.signature import sign, sign_beginning
from tuner.store.storage import failed, failed_file
from tuner.store.store import Store


def begin(store: Store) -> None:
    """Sign the beginning of a record; it stays unsigned if a key cannot be stored."""
    with contextlib.suppress(OSError):
        store.set_signed(sign_beginning(store.for_readers().record()))


@contextlib.contextmanager
def signed(stores: Callable[[], Iterable[Store]], progress: RunProgress) -> Iterator[None]:
    """Sign the records when the command ends, even with an error.

    Only the worker that began a shared study can sign it. Later measurements of other workers count
    as changes until that worker runs again.

    Args:
        stores: finder of the records at the end.
        progress: display of records that cannot be signed.
    """
    try:
        yield
    finally:
        for store in stores():
            try:
                record = store.for_readers().record()
                if (found := sign(record)) != record.signed:
                    store.set_signed(found)
            except Exception as error:
                if not (isinstance(error, OSError | StoreError) or failed(error)):
                    raise
                words = failed_file(error) or error
                progress.note(f"the record is not signed, so 'tuner apply' will ask: {words}")
