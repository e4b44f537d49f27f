"""Counters of processes and of a host as plain data, read from /proc: see proc(5).

The agent runs this file on other hosts, so it needs only the standard library of Python 3.8.
One reading takes about a tenth of a millisecond per process, for use between windows.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any, Iterable

from tuner.hosts.cgroups import throttling

SECTOR_BYTES = 512
"""Unit of /proc/diskstats, for disks of any sector size (kernel, iostats.rst)."""
_BLOCK = Path("/sys/block")
_LAYERS = re.compile(r"(loop|ram|zram|dm-|md|sr|fd)")
"""Block devices that are virtual, or layers above disks that already count."""
_SWITCHES = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")


def counters(pids: Iterable[int], proc: str = "/proc") -> dict[str, Any]:
    """Return counters of processes and host, without processes that have ended.

    Args:
        pids: the processes.
        proc: the kernel's folder for them; another one in tests.

    Returns:
        ``at_s`` on the monotonic clock; ``processes``, by id, and ``host``, with the fields of
        ``tuner.measurement.resources``; ``throttling``, by control group.
    """
    top = Path(proc)
    found = {pid: _process(top / str(pid)) for pid in dict.fromkeys(pids)}
    return {
        "at_s": time.monotonic(),
        "processes": {pid: counts for pid, counts in found.items() if counts is not None},
        "host": _host(top),
        "throttling": throttling(found, str(top.parent)),
    }


def _process(folder: Path) -> dict[str, Any] | None:
    try:
        # The name in brackets may hold any character, so fields are counted after it.
        fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        if fields[0] in "ZX":
            return None  # a zombie
        status = _fields(folder / "status")
        waits, preemptions, threads, queued_s = _threads(folder)
        ticks = os.sysconf("SC_CLK_TCK")
        moved = _input_output(folder / "io")
        return {
            "user_s": int(fields[11]) / ticks,
            "system_s": int(fields[12]) / ticks,
            "memory_bytes": status.get("VmRSS", 0) * 1024,
            "peak_bytes": status.get("VmHWM", 0) * 1024,
            "waits": waits,
            "preemptions": preemptions,
            "read_bytes": moved.get("read_bytes"),
            "written_bytes": moved.get("write_bytes"),
            "descriptors": _count(folder / "fd"),
            "threads": threads,
            "queued_s": queued_s,
        }
    except (OSError, IndexError, ValueError):
        return None


def _threads(folder: Path) -> tuple[int, int, int, float | None]:
    """Return voluntary and involuntary context switches, number and waits of all threads.

    /proc/PID/status counts the main thread alone, and so does /proc/PID/schedstat. The second field
    of the latter is the time spent runnable and waiting for a core (kernel, sched-stats.rst). It is
    None for a kernel without it (CONFIG_SCHED_INFO).
    """
    waits = preemptions = threads = 0
    queued_s: float | None = 0.0
    for task in (folder / "task").iterdir():
        try:
            status = _fields(task / "status")
        except OSError:
            continue
        waits += status.get(_SWITCHES[0], 0)
        preemptions += status.get(_SWITCHES[1], 0)
        threads += 1
        fields = _text(task / "schedstat").split()
        if queued_s is not None and len(fields) > 1:
            queued_s += int(fields[1]) / 1e9
        else:
            queued_s = None
    return waits, preemptions, threads, queued_s


def reports_waits(proc: str = "/proc") -> bool:
    """Return whether the kernel reports how long a process waits for a core."""
    return (Path(proc) / "self" / "schedstat").exists()


def _input_output(path: Path) -> dict[str, int]:
    """Return bytes from and to storage, which only the process's owner and root can read."""
    try:
        return _fields(path)
    except OSError:
        return {}


def _count(folder: Path) -> int | None:
    try:
        return sum(1 for _ in folder.iterdir())
    except OSError:
        return None


def _fields(path: Path) -> dict[str, int]:
    """Return the lines ``name: number`` of a file."""
    found = {}
    for line in path.read_text(errors="replace").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0])
    return found


def _host(proc: Path) -> dict[str, Any]:
    received, sent = _network(proc / "net" / "dev")
    read_bytes, written_bytes = _disks(proc / "diskstats")
    load = _text(proc / "loadavg").split()
    return {
        "received_bytes": received,
        "sent_bytes": sent,
        "disk_read_bytes": read_bytes,
        "disk_written_bytes": written_bytes,
        "load": float(load[0]) if load else 0.0,
    }


def _network(path: Path) -> tuple[int, int]:
    received = sent = 0
    for line in _text(path).splitlines():
        _, colon, rest = line.partition(":")
        numbers = rest.split()
        if colon and len(numbers) >= 9:
            received += int(numbers[0])
            sent += int(numbers[8])
    return received, sent


def _disks(path: Path) -> tuple[int, int]:
    read_bytes = written_bytes = 0
    for line in _text(path).splitlines():
        fields = line.split()
        if len(fields) >= 10 and _is_disk(fields[2]):
            read_bytes += int(fields[5]) * SECTOR_BYTES
            written_bytes += int(fields[9]) * SECTOR_BYTES
    return read_bytes, written_bytes


def _is_disk(name: str) -> bool:
    return not _LAYERS.match(name) and (_BLOCK / name).exists()


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
