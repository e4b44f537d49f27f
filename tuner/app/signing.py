"""Signing a record when it begins and when a command that measured for it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tuner.app.progress import TerminalProgress
from tuner.errors import StoreError
from tuner.store.signature import sign, sign_beginning
from tuner.store.store import Store


def begin(store: Store) -> None:
    """Sign how a record begins; where no key can be kept, it stays unsigned."""
    with contextlib.suppress(OSError):
        store.set_signed(sign_beginning(store.record()))


@contextlib.contextmanager
def signed(store: Store, progress: TerminalProgress) -> Iterator[None]:
    """Sign what was measured when a command ends, however it ends."""
    try:
        yield
    finally:
        try:
            record = store.record()
            # What several hosts share has as many makers.
            if not record.hosts and (found := sign(record)) != record.signed:
                store.set_signed(found)
        except (OSError, StoreError) as error:
            progress.note(f"the record is not signed, so 'tuner apply' will ask: {error}")
