"""The processes of ``ansible-playbook``: workers that outlive it, and workers that it has lost.

Ansible runs each task in a worker process, a fork with the same command line. If a worker cannot
hand over its result, as on a full disk, and ends with exit code 0, ``ansible-playbook`` waits
without end (https://github.com/ansible/ansible/issues/29124).
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tuner.hosts.searches import stop_until_none

LOST = "a worker of Ansible ended without a result; the disk may be full"
_LOOKS = 6
"""Looks in a row that must find no worker."""
_LOOKS_APART_S = 4.0
"""Least time between two such looks; ansible-runner asks every 5 s."""
_MOST_SEARCHES = 100
"""Searches for processes to kill; the rest is left to the search for a lab's processes."""
ENDS = frozenset({"runner_on_ok", "runner_on_failed", "runner_on_unreachable", "runner_on_skipped"})
"""Events with which a task ends on a host."""


def variables_file(private: Path) -> Path:
    """Return the file of variables in ansible-runner's folder, which identifies its processes."""
    return private / "env" / "extravars"


def end_workers(private: Path) -> None:
    """Kill the processes that outlive an ended playbook.

    ansible-runner kills the group of ``ansible-playbook``. Its workers have sessions of their own
    since ansible-core 2.19 (``WorkerProcess._detach``). Without a kill they would continue and
    start instances after everything was stopped.

    Args:
        private: ansible-runner's folder.
    """

    def kill() -> list[str]:
        found = [process.name for process in _processes(private)]
        for pid in found:
            # It has ended.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(int(pid), signal.SIGKILL)
        return found

    stop_until_none(kill, _MOST_SEARCHES)


def _processes(private: Path) -> Iterator[Path]:
    """Yield the folders in /proc of ``ansible-playbook`` and its workers."""
    variables = f"@{variables_file(private)}".encode()
    for process in Path("/proc").iterdir():
        # It has ended, or belongs to another account.
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if not process.name.isdigit():
                continue
            if variables in (process / "cmdline").read_bytes().split(b"\0"):
                yield process


class LostWorker:
    """Notices that a playbook waits for a result and has no worker.

    Looks are counted, not time: a machine that was suspended begins where it stopped.

    Args:
        private: ansible-runner's folder.
        clock: monotonic time, s.
    """

    def __init__(self, private: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._private = private
        self._clock = clock
        self._waited_for: set[str] = set()
        self._looks = 0
        self._looked_s = -math.inf
        self.lost = False
        """True once a worker was found to be lost."""

    def see(self, event: Mapping[str, Any]) -> None:
        """Follow an event of the playbook."""
        host = str(event.get("event_data", {}).get("host"))
        if event["event"] == "runner_on_start":
            self._waited_for.add(host)
        elif event["event"] in ENDS:
            self._waited_for.discard(host)

    def look(self) -> bool:
        """Look for workers; return whether one was found to be lost, now or before."""
        now_s = self._clock()
        if now_s - self._looked_s >= _LOOKS_APART_S:
            self._looked_s = now_s
            self._looks = self._looks + 1 if self._waited_for and self._has_none() else 0
            self.lost |= self._looks >= _LOOKS
        return self.lost

    def _has_none(self) -> bool:
        """Return whether ``ansible-playbook`` runs and has no worker."""
        try:
            first, *workers = _processes(self._private)
            state = (first / "stat").read_text(errors="replace").rpartition(")")[2][1]
        except (ValueError, OSError):
            return False
        # One that was stopped cannot take a result.
        return not workers and state in "SR"
