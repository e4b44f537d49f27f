"""Work that a second Ctrl-C must not interrupt."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Let the lab be taken down even if the user presses Ctrl-C again."""
    stopping = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    kept = {number: signal.signal(number, signal.SIG_IGN) for number in stopping}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
