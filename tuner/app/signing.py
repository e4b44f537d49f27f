"""Signing a record when it begins and when a command that measured for it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

from tuner.app.progress import TerminalProgress
from tuner.errors import StoreError
from tuner.store.signature import sign, sign_beginning
from tuner.store.store import Store


def begin(store: Store) -> None:
    """Sign how a record begins; where no key can be kept, it stays unsigned."""
    with contextlib.suppress(OSError):
        store.set_signed(sign_beginning(store.for_readers().record()))


@contextlib.contextmanager
def signed(stores: Callable[[], Iterable[Store]], progress: TerminalProgress) -> Iterator[None]:
    """Sign what was measured when a command ends, however it ends.

    Of several workers only the one that began the study can sign it. What others measure later
    makes it one that was changed since, until that worker runs again.

    Args:
        stores: returns the records that are there at the end.
        progress: reports a record that cannot be signed.
    """
    try:
        yield
    finally:
        for store in stores():
            try:
                record = store.for_readers().record()
                if (found := sign(record)) != record.signed:
                    store.set_signed(found)
            except (OSError, StoreError) as error:
                progress.note(f"the record is not signed, so 'tuner apply' will ask: {error}")
