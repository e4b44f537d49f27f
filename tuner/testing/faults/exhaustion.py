"""Memory and files that run out, and clocks that move."""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tuner.testing.faults.fault import Fault, FaultTarget
from tuner.testing.faults.processes import KILLED, processes

ROW = "memory, files, time"
_GROUPS = Path("/sys/fs/cgroup")
_LEAST_BYTES = 4096
_MEMORY = frozenset({"memory groups"})


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


def memory_groups() -> Path | None:
    """Return the folder in which control groups with a memory limit can be made, or None."""
    controllers = _GROUPS / "cgroup.subtree_control"
    if controllers.exists() and "memory" in controllers.read_text(encoding="ascii").split():
        found = _GROUPS
    else:
        found = _GROUPS / "memory"
    return found if os.access(found, os.W_OK) else None


def _group(target: FaultTarget) -> Path:
    folder = memory_groups()
    if folder is None:
        raise FileNotFoundError(f"no memory control group can be made below {_GROUPS}")
    return folder / f"tuner-{target.folder.parent.name}"


def _killed_for_memory(target: FaultTarget, pid: int) -> None:
    """Move a process to a group without memory; the kernel kills it when it needs some."""
    group = _group(target)
    group.mkdir(exist_ok=True)
    limits = (group / "memory.max", group / "memory.limit_in_bytes")
    limit = next(path for path in limits if path.exists())
    limit.write_text(str(_LEAST_BYTES), encoding="ascii")
    with contextlib.suppress(ProcessLookupError):
        (group / "cgroup.procs").write_text(str(pid), encoding="ascii")


def _itself(target: FaultTarget) -> None:
    _killed_for_memory(target, os.getpid())


def _any_process(target: FaultTarget) -> None:
    found = [*processes(target)]
    _killed_for_memory(target, found[int(target.share * len(found))])


def _without_group(target: FaultTarget) -> None:
    """Remove the group; a process that needed no memory goes back."""
    group = _group(target)
    if not group.exists():
        return
    for pid in (group / "cgroup.procs").read_text(encoding="ascii").split():
        with contextlib.suppress(ProcessLookupError):
            (group.parent / "cgroup.procs").write_text(pid, encoding="ascii")
    group.rmdir()


def _clock_moved(by_s: float) -> Callable[[FaultTarget], None]:
    def move(_: FaultTarget) -> None:
        before = time.time
        # gRPC hands instants of this clock to the kernel's, which does not move here.
        with contextlib.suppress(ImportError):
            channel: Any = importlib.import_module("grpc._channel")
            channel.time = types.SimpleNamespace(time=before, perf_counter=time.perf_counter)
        time.time = lambda: before() + by_s

    return move


FAULTS = (
    Fault("no more files", ROW, _no_more_files),
    Fault("no more memory", ROW, _no_more_memory),
    Fault(
        "OOM kill",
        ROW,
        _itself,
        _without_group,
        code=KILLED,
        needs=_MEMORY,
        by_the_clock=True,
    ),
    Fault(
        "OOM kill of a process",
        ROW,
        _any_process,
        _without_group,
        needs=_MEMORY | {"here"},
        ready=lambda target: any(True for _ in processes(target)),
        by_the_clock=True,
    ),
    Fault("clock set back", ROW, _clock_moved(-3600.0)),
    Fault("clock set on", ROW, _clock_moved(365 * 86400.0)),
)
