"""Protection of work from a second Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore signals within the context, so that a second Ctrl-C does not stop a clean-up.

    Other threads than the main one receive no signals and cannot change their handling.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stopping = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    kept = {number: signal.signal(number, signal.SIG_IGN) for number in stopping}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
