"""Detection of a module's caller that has gone.

A module on another host does not end with its connection: without a terminal it gets no hang-up
(SIGHUP), and it would start processes that nobody stops.

Only Python's standard library, 3.8 or newer, is used: it runs on the target.
"""

from __future__ import annotations

import contextlib
import select
import signal

LOOK_S = 0.1
"""Between two looks."""


class CallerGoneError(RuntimeError):
    """Nobody reads any more what the module will say."""


@contextlib.contextmanager
def heeded():
    """End what is done here, if need be in its middle, once nobody waits for it.

    Raises:
        CallerGoneError: that is so.
    """
    kept = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOK_S, LOOK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, kept)


def look(*_):
    """Handler of ``heeded``."""
    # No event is asked for: an output without a reader has an error by itself (poll(2)).
    output = select.poll()
    output.register(1, 0)
    if any(event & (select.POLLERR | select.POLLHUP) for _, event in output.poll(0)):
        raise CallerGoneError("the caller of this module is gone")
