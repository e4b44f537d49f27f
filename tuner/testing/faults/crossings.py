"""Crossings: the instants of a command at which a fault strikes.

A crossing is an instant at which a command hands something over: it changes a file, starts a
process, or commits to a database. Faults between two crossings have the effect of the first one
after them, so drawing crossings draws from all effects, and the n-th crossing of a seeded command
is the same in each run. CPython's audit hooks (PEP 578) report files and processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

_CHANGES = frozenset(
    {
        *("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"),
        *("shutil.rmtree", "shutil.copyfile", "sqlite3.connect", "subprocess.Popen"),
    }
)
"""Audit events that count; of ``open``, those for writing."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Crossings:
    """A counter of crossings, which calls a function at one of them.

    Args:
        at: the crossing, counted from 0; negative for none.
        strike: called there, once.
        ready: whether the fault can strike now; a crossing at which it cannot moves it to the next.
    """

    def __init__(
        self, at: int, strike: Callable[[], None], ready: Callable[[], bool] = lambda: True
    ) -> None:
        self.count = 0
        self._at = at
        self._strike = strike
        self._ready = ready
        self._inside = False

    def watch(self) -> None:
        """Count from now on; an audit hook stays for the life of the process."""
        sys.addaudithook(self._audit)

    def cross(self) -> None:
        """Count one crossing."""
        if self._inside:
            return
        self.count += 1
        if self.count - 1 < self._at or self._at < 0:
            return
        self._inside = True
        try:
            if self._ready():
                self._at = -1
                self._strike()
        finally:
            self._inside = False

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            flags = arguments[2]
            if not (isinstance(flags, int) and flags & _WRITING):
                return
        elif event not in _CHANGES:
            return
        self.cross()
