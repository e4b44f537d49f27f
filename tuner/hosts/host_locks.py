"""Locks on a study's folder and on cores, for one tuner at a time.

Both are kernel locks (``tuner.hosts.locks``), which end with their holder.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import time
from collections.abc import Callable, Collection
from pathlib import Path

from tuner.errors import HostError
from tuner.hosts.local import start_time, this_tuner
from tuner.hosts.locks import VARIABLE, LockAttempt, LockHolder, Locks, take_cores

LOCK = ".lock"
"""Name of the lock in a study's folder."""
TakeCores = Callable[[Collection[int], LockHolder], LockAttempt]
_LOOK_S = 0.5
"""Time between two checks of a lock."""


class HostLocks:
    """The locks that one command holds while it measures.

    Args:
        folder: folder of the study.
        wait: whether to wait for a busy lock instead of refusing.
        say: called with what blocks, and with locks that cannot be used.
    """

    def __init__(self, folder: Path, *, wait: bool, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._wait = wait
        self._say = say
        self._study = Locks()
        self._cores = Locks()
        self._made: list[Path] = []
        self.holder = LockHolder(
            study="/".join(folder.parts[1:]) or folder.name or "(tuner doctor, init or --dry-run)",
            folder=str(folder.resolve()),
            tuner=this_tuner(),
        )
        """Description of this command for others."""

    def take_study(self) -> None:
        """Lock the study's folder, and create it if it is missing.

        Raises:
            HostError: another tuner has locked it.
            OSError: it cannot be written.
        """
        path = self._folder / LOCK

        def take() -> tuple[str, str]:
            self._make(self._folder)
            holder = self._study.take(str(path), self.holder, 0o644)
            if holder is None:
                return "", ""
            process = f"process {holder.pid}" if holder.pid else "another process"
            return f"{self._folder} is being run by {process}{_since(holder.pid)}", ""

        self._when_free(take)

    def take_here(self, cpus: Collection[int]) -> None:
        """Lock cores of this machine.

        Raises:
            HostError: another study has locked them.
        """
        self.take_cores(cpus, lambda cpus, mine: take_cores(self._cores, cpus, mine), "")

    def take_cores(self, cpus: Collection[int], take: TakeCores, host: str) -> None:
        """Lock cores of a host.

        Args:
            cpus: the cores.
            take: takes the locks there.
            host: its name; empty: this machine.

        Raises:
            HostError: another study has locked them.
        """
        passed_over: dict[str, None] = {}

        def attempt() -> tuple[str, str]:
            taken = take(cpus, self.holder)
            passed_over.update(dict.fromkeys(taken.unusable))
            if taken.cpu < 0:
                return "", ""
            where = f"core {taken.cpu}" + (f" of {host}" if host else "")
            out = "" if taken.holder.study else f" ({VARIABLE}=FOLDER names other locks)"
            return f"{where} is in use by {taken.holder.words}", out

        self._when_free(attempt)
        for words in passed_over:
            self._say(
                f"a lock cannot be used{f' on {host}' if host else ''}: {words}; another study on"
                f" that core would not be noticed (remove the file, or set {VARIABLE} to another"
                " folder)"
            )

    def end(self) -> None:
        """Release all locks, and remove a created folder if it is empty."""
        self._cores.release()
        self._study.release(remove=True)
        made, self._made = self._made, []
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _make(self, folder: Path) -> None:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        self._made = missing or self._made

    def _when_free(self, take: Callable[[], tuple[str, str]]) -> None:
        """Call ``take`` until it succeeds, or refuse at once.

        Raises:
            HostError: another tuner holds the lock, and waiting is off.
        """
        reported = ""
        while True:
            busy, out = take()
            if not busy:
                break
            if not self._wait:
                raise HostError(f"{busy}; wait for it, stop it, or queue with --wait{out}")
            if busy != reported:
                self._say(f"waiting: {busy}")
                reported = busy
            time.sleep(_LOOK_S)
        if reported:
            self._say("waiting is over")


def _since(pid: int) -> str:
    """Return when a process started, in words; empty if unknown."""
    ticks = start_time(pid) if pid else 0
    if not ticks:
        return ""
    booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    started_s = booted_s + ticks / os.sysconf("SC_CLK_TCK")
    moment = dt.datetime.fromtimestamp(started_s).astimezone()
    return f" since {moment:%Y-%m-%d %H:%M:%S}"
