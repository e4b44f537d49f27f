"""Faults for a campaign: what can strike a command, and the crossings at which it strikes.

A crossing is an instant at which a command hands something over: it changes a file, starts a
process, or commits to a database. Faults between two crossings have the effect of the first one
after them, so drawing crossings draws from all effects, and the n-th crossing of a seeded command
is the same in each run. CPython's audit hooks (PEP 578) report files and processes.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CHANGES = frozenset(
    {
        *("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"),
        *("shutil.rmtree", "shutil.copyfile", "sqlite3.connect", "subprocess.Popen"),
    }
)
"""Audit events that count; of ``open``, those for writing."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PAUSE_S = (0.0, 0.4)
"""Shortest and longest time between the two signals of a pair."""


@dataclass(frozen=True, slots=True)
class FaultTarget:
    """The command that a fault strikes, as its running process sees it."""

    folder: Path
    """Working folder of the command, on a file system of its own."""
    study: Path
    """Folder of its study."""
    again: Sequence[str]
    """The same command, to start it a second time."""
    share: float
    """A number from [0, 1) for what else is drawn: a length, a distance, a place."""
    complain: Callable[[str], None] = print
    """Called with what is wrong already while the fault strikes."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault."""

    name: str
    row: str
    """Its row in the table of the campaign."""
    strike: Callable[[FaultTarget], None]
    """Called in the process, at the crossing."""
    heal: Callable[[FaultTarget], None] = lambda _: None
    """Called after the process, before it is resumed."""
    code: frozenset[int] = frozenset()
    """Further exit codes that are right, next to 0 to 3; a signal's is negative."""


class Crossings:
    """A counter of crossings, which calls a function at one of them.

    Args:
        at: the crossing, counted from 0; negative for none.
        strike: called there, once.
    """

    def __init__(self, at: int, strike: Callable[[], None]) -> None:
        self.count = 0
        self._at = at
        self._strike = strike
        self._inside = False

    def watch(self) -> None:
        """Count from now on; an audit hook stays for the life of the process."""
        sys.addaudithook(self._audit)

    def cross(self) -> None:
        """Count one crossing."""
        if self._inside:
            return
        self.count += 1
        if self.count - 1 == self._at:
            self._inside = True
            try:
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


# --- processes ---------------------------------------------------------------------------------


def _signalled(number: signal.Signals) -> Callable[[FaultTarget], None]:
    return lambda _: os.kill(os.getpid(), number)


def _later(pid: int, number: signal.Signals, after_s: float) -> None:
    """Send a signal to a process from another one, without waiting for it."""
    line = f"sleep {after_s:.3f}; kill -{int(number)} {pid} 2>/dev/null"
    subprocess.Popen(["sh", "-c", line], start_new_session=True)


def _twice(target: FaultTarget) -> None:
    """Interrupt, and again before or while the first is handled."""
    low, high = _PAUSE_S
    _later(os.getpid(), signal.SIGINT, low + target.share * (high - low))
    os.kill(os.getpid(), signal.SIGINT)


def _paused(target: FaultTarget) -> None:
    _later(os.getpid(), signal.SIGCONT, 0.1 + 0.4 * target.share)
    os.kill(os.getpid(), signal.SIGSTOP)


# --- storage -----------------------------------------------------------------------------------


def _filler(target: FaultTarget) -> Path:
    return target.folder / "filler"


def _fill(target: FaultTarget) -> None:
    with contextlib.suppress(OSError), _filler(target).open("wb", buffering=0) as stream:
        while True:
            stream.write(bytes(4096))


def _make_room(target: FaultTarget) -> None:
    _filler(target).unlink(missing_ok=True)


def _remounted(how: str) -> Callable[[FaultTarget], None]:
    def remount(target: FaultTarget) -> None:
        subprocess.run(["mount", "-o", f"remount,{how}", target.folder], check=how == "rw")

    return remount


def _remove_study(target: FaultTarget) -> None:
    shutil.rmtree(target.study, ignore_errors=True)


def _cut(target: FaultTarget) -> None:
    """Cut the journal of the write that was under way, as a power failure may.

    SQLite has not changed the record then (https://www.sqlite.org/atomiccommit.html).
    """
    journal = target.study / "record.db-journal"
    if journal.is_file():
        os.truncate(journal, int(target.share * journal.stat().st_size))


# --- memory, files, time -----------------------------------------------------------------------


def _no_more_files(_: FaultTarget) -> None:
    count = len(list(Path("/proc/self/fd").iterdir()))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def _no_more_memory(target: FaultTarget) -> None:
    """Leave between nothing and 8 MB of address space."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    room = int(target.share * (8 << 20))
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = pages * resource.getpagesize() + room
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _clock_moved(by_s: float) -> Callable[[FaultTarget], None]:
    def move(_: FaultTarget) -> None:
        before = time.time
        time.time = lambda: before() + by_s

    return move


# --- people ------------------------------------------------------------------------------------


def _started_twice(target: FaultTarget) -> None:
    """Start the same command while this one runs; it must be refused."""
    done = subprocess.run(target.again, cwd=target.folder, capture_output=True, check=False)
    if done.returncode != _REFUSED:
        target.complain(f"a second command ended with {done.returncode}, not {_REFUSED}")


_REFUSED = 3
_KILLED = frozenset({-signal.SIGKILL})
_ENDED = frozenset({130})
FAULTS: Mapping[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault("kill", "processes", _signalled(signal.SIGKILL), code=_KILLED),
        Fault("terminate", "processes", _signalled(signal.SIGTERM), code=_ENDED),
        Fault("interrupt", "processes", _signalled(signal.SIGINT), code=_ENDED),
        Fault("pause", "processes", _paused),
        Fault("full disk", "storage", _fill, _make_room),
        Fault("read-only disk", "storage", _remounted("ro"), _remounted("rw")),
        Fault("removed folder", "storage", _remove_study),
        Fault("cut journal", "storage", _signalled(signal.SIGKILL), _cut, code=_KILLED),
        Fault("no more files", "memory, files, time", _no_more_files),
        Fault("no more memory", "memory, files, time", _no_more_memory),
        Fault("clock set back", "memory, files, time", _clock_moved(-3600.0)),
        Fault("clock set on", "memory, files, time", _clock_moved(365 * 86400.0)),
        Fault("interrupt twice", "people", _twice, code=_ENDED | {-signal.SIGINT}),
        Fault("hang up", "people", _signalled(signal.SIGHUP), code=_ENDED),
        Fault("started twice", "people", _started_twice),
    )
}
"""All faults by name."""
