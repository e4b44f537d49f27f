"""CPU quotas of control groups, their throttling, and CPU sets, versions 1 and 2: see cgroups(7).

The agent runs this file on other hosts, so it needs only the standard library of Python 3.8. A
quota of any group above a process limits it, so every function walks up to the mounted root.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from tuner.hosts.kernel_files import text_of


def quota(root: str = "/", pid: str = "self") -> dict[str, Any] | None:
    """Return the smallest CPU quota above a process; None without one.

    Args:
        root: folder that holds ``proc`` and ``sys``; another one in tests.
        pid: the process.

    Returns:
        ``group``, path of its control group, and ``cpus``, CPU time per time.
    """
    found = [
        (cpus, group)
        for folder, group in _folders(root, _memberships(root, pid))
        if (cpus := quota_of(folder)) is not None
    ]
    if not found:
        return None
    cpus, group = min(found)
    return {"group": group, "cpus": cpus}


def cpuset(root: str = "/") -> str:
    """Return the list of CPUs that the control groups above this process leave it.

    It is empty if unknown, as in version 1.
    """
    found = (
        text_of(folder / "cpuset.cpus.effective").strip()
        for folder, _ in _folders(root, _memberships(root, "self"))
    )
    return next(filter(None, found), "")


def throttling(pids: Iterable[int], root: str = "/") -> dict[str, dict[str, float]]:
    """Return what the quotas above some processes have withheld so far, by control group.

    Args:
        pids: the processes.
        root: folder that holds ``proc`` and ``sys``; another one in tests.

    Returns:
        The fields of ``tuner.measurement.readings.Throttling`` by the path of the group.
    """
    found: dict[str, dict[str, float]] = {}
    # Processes of one server are usually in one group.
    for memberships in {_memberships(root, str(pid)) for pid in pids}:
        for folder, group in _folders(root, memberships):
            cpus, counts = quota_of(folder), _counts(folder / "cpu.stat")
            if cpus is None or "nr_throttled" not in counts:
                continue
            # Version 2 counts microseconds, and version 1 nanoseconds.
            withheld_s = counts.get("throttled_usec", 0) / 1e6
            withheld_s += counts.get("throttled_time", 0) / 1e9
            found[group] = {
                "quota_cpus": cpus,
                "periods": counts["nr_throttled"],
                "withheld_s": withheld_s,
            }
    return found


def quota_of(folder: Path) -> float | None:
    """Return the CPU quota of one control group, in CPUs; None without one."""
    words = text_of(folder / "cpu.max").split()
    if not words:
        names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        words = [text_of(folder / name).strip() for name in names]
    # Without a quota version 2 has "max", and version 1 has -1.
    if len(words) != 2 or not all(word.isdigit() for word in words) or int(words[1]) == 0:
        return None
    return int(words[0]) / int(words[1])


def _memberships(root: str, pid: str) -> str:
    return text_of(Path(root) / "proc" / pid / "cgroup")


def _folders(root: str, memberships: str) -> Iterable[tuple[Path, str]]:
    """Yield the folders of control groups with CPU settings, upwards, with their paths.

    Args:
        root: folder that holds ``proc`` and ``sys``.
        memberships: lines of a process's ``cgroup`` file.
    """
    top = Path(root)
    mounts = _mounts(top / "proc" / "self" / "mountinfo")
    for line in memberships.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        kind = "cpu" if "cpu" in controllers.split(",") else "" if not controllers else None
        for mounted, upper in mounts.get(kind, []):
            inside = _below(path, upper)
            if inside is None:
                continue
            folder = top / mounted.lstrip("/")
            parts = [part for part in inside.split("/") if part]
            for depth in range(len(parts), -1, -1):
                below = "/".join(parts[:depth])
                yield folder / below, "/" + below
            break


def _below(path: str, top: str) -> str | None:
    """Return a group's path below the root of a mount; None if it is not below."""
    if top == "/":
        return path
    if path == top or path.startswith(top + "/"):
        return path[len(top) :]
    # In a namespace of its own the path is relative to the mount: see cgroup_namespaces(7).
    return path if path == "/" else None


@lru_cache(maxsize=8)
def _mounts(path: Path) -> dict[str | None, list[tuple[str, str]]]:
    """Return mount points and their roots, by ``cpu`` (version 1) and an empty text (version 2)."""
    found: dict[str | None, list[tuple[str, str]]] = {}
    for line in text_of(path).splitlines():
        fields, dash, rest = line.partition(" - ")
        words, kind = fields.split(), rest.split()
        if not dash or len(words) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2":
            found.setdefault("", []).append((words[4], words[3]))
        elif kind[0] == "cgroup" and "cpu" in kind[2].split(","):
            found.setdefault("cpu", []).append((words[4], words[3]))
    return found


def _counts(path: Path) -> dict[str, int]:
    """Return the lines ``name number`` of a file."""
    lines = [line.split() for line in text_of(path).splitlines()]
    return {words[0]: int(words[1]) for words in lines if len(words) == 2 and words[1].isdigit()}
