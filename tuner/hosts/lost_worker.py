"""Playbooks that wait for a worker which has ended without a result.

Ansible runs each task in a worker process. If a worker cannot hand over its result, as on a full
disk, and ends with exit code 0, ``ansible-playbook`` waits without end
(https://github.com/ansible/ansible/issues/29124).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

WORDS = "a worker of Ansible ended without a result; the disk may be full"
_LOOKS = 6
"""Looks in a row that must find no worker."""
_APART_S = 4.0
"""Least time between two such looks; ansible-runner asks every 5 s."""
_ENDS = frozenset(
    {"runner_on_ok", "runner_on_failed", "runner_on_unreachable", "runner_on_skipped"}
)


class LostWorker:
    """Notices that a playbook waits for a result and has no worker.

    Looks are counted, not time: a machine that was suspended begins where it stopped.

    Args:
        variables: ansible-runner's file of variables, which identifies ``ansible-playbook``.
        clock: monotonic time, s.
    """

    def __init__(self, variables: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._variables = f"@{variables}".encode()
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
        elif event["event"] in _ENDS:
            self._waited_for.discard(host)

    def look(self) -> bool:
        """Look for workers; return whether one was found to be lost, now or before."""
        now_s = self._clock()
        if now_s - self._looked_s >= _APART_S:
            self._looked_s = now_s
            self._looks = self._looks + 1 if self._waited_for and self._has_none() else 0
            self.lost |= self._looks >= _LOOKS
        return self.lost

    def _has_none(self) -> bool:
        """Return whether ``ansible-playbook`` goes on without a process below it."""
        try:
            for pid in _children("self"):
                process = Path("/proc", pid)
                if self._variables in (process / "cmdline").read_bytes().split(b"\0"):
                    state = (process / "stat").read_text(errors="replace").rpartition(")")[2][1]
                    # One that was stopped cannot take a result.
                    return state in "SR" and not _children(pid)
        except OSError:
            pass
        return False


def _children(pid: str) -> list[str]:
    """Return the ids of a process's children (proc(5))."""
    tasks = Path("/proc", pid, "task").iterdir()
    return [child for task in tasks for child in (task / "children").read_text().split()]
