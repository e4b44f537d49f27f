"""Memory and files that run out, and clocks that move."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path

from tuner.testing.faults.fault import Fault, FaultTarget

ROW = "memory, files, time"


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


FAULTS = (
    Fault("no more files", ROW, _no_more_files),
    Fault("no more memory", ROW, _no_more_memory),
    Fault("clock set back", ROW, _clock_moved(-3600.0)),
    Fault("clock set on", ROW, _clock_moved(365 * 86400.0)),
)
