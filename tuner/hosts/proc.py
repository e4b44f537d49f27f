"""Counters of processes and of a host as plain data, read from /proc: see proc(5).

The agent runs this file on other hosts, so it needs only the standard library of Python 3.8.
One reading takes about a tenth of a millisecond per process and 35 µs per further thread, for use
between windows.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import Any, Iterable

from tuner.hosts.cgroups import throttling
from tuner.hosts.kernel_files import text_of

SECTOR_BYTES = 512
"""Unit of /proc/diskstats, for disks of any sector size (kernel, iostats.rst)."""
_BLOCK = Path("/sys/block")
_LAYERS = re.compile(r"(loop|ram|zram|dm-|md|sr|fd)")
"""Block devices that are virtual, or layers above disks that already count."""
_STATUS = re.compile(
    rb"^(Cpus_allowed_list|(?:non)?voluntary_ctxt_switches):\s*(\S+)", re.MULTILINE
)
"""Lines of a thread's status that are needed; parsing all of them takes four times as long."""
_MOST = 65_536
"""Limit for what is read of a file of a thread, bytes."""
_FREE = (3, 4, 5, 6)
"""Columns of /proc/stat after a CPU's name: idle, iowait, irq, softirq."""


def counters(pids: Iterable[int], proc: str = "/proc") -> dict[str, Any]:
    """Return counters of processes and host, without processes that have ended.

    Args:
        pids: the processes; those that they have started, and these in turn, are included.
        proc: the kernel's folder for them; another one in tests.

    Returns:
        ``at_s`` on the monotonic clock; ``processes``, by id, ``host``, ``begun`` and ``done``,
        with the fields of ``tuner.measurement.readings``; ``throttling``, by control group.
    """
    top = Path(proc)
    begun = _core_times(top)
    found = {pid: _process(top / str(pid)) for pid in _with_children(pids, top)}
    done = _core_times(top)
    return {
        "at_s": done["at_s"],
        "processes": {pid: counts for pid, counts in found.items() if counts is not None},
        "host": _host(top),
        "throttling": throttling(found, str(top.parent)),
        "begun": begun,
        "done": done,
    }


def _with_children(pids: Iterable[int], top: Path) -> list[int]:
    """Return processes with those that they have started: servers may add some under load.

    Servers start processes from their main thread; those of other threads are not looked for.
    A kernel without CONFIG_PROC_CHILDREN shows none.
    """
    found = list(dict.fromkeys(pids))
    for pid in found:  # grows
        words = text_of(top / str(pid) / "task" / str(pid) / "children").split()
        found += [child for child in map(int, words) if child not in found]
    return found


def _core_times(top: Path) -> dict[str, Any]:
    """Return the time that each CPU has not spent on processes, with the monotonic clock.

    Interrupts count as such. A kernel with CONFIG_IRQ_TIME_ACCOUNTING does not count them for the
    interrupted process; others do, and there a part of the time counts twice.
    """
    ticks = os.sysconf("SC_CLK_TCK")
    free_s = {}
    for line in text_of(top / "stat").splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu":
            free_s[int(name[3:])] = sum(int(fields[column]) for column in _FREE) / ticks
    return {"at_s": time.monotonic(), "free_s": free_s}


def _process(folder: Path) -> dict[str, Any] | None:
    try:
        # The name in brackets may hold any character, so fields are counted after it.
        fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        if fields[0] in "ZX":
            return None  # a zombie
        status = _fields(folder / "status")
        ticks = os.sysconf("SC_CLK_TCK")
        moved = _input_output(folder / "io")
        return {
            "user_s": int(fields[11]) / ticks,
            "system_s": int(fields[12]) / ticks,
            "memory_bytes": status.get("VmRSS", 0) * 1024,
            "peak_bytes": status.get("VmHWM", 0) * 1024,
            "read_bytes": moved.get("read_bytes"),
            "written_bytes": moved.get("write_bytes"),
            "descriptors": _count(folder / "fd"),
            "parent": int(fields[1]),
            "ran_s": _ran_s(folder),
            **_threads(folder),
        }
    except (OSError, IndexError, ValueError):
        return None


def _ran_s(folder: Path) -> float | None:
    """Return the CPU time of all threads that a process ever had (clock_getcpuclockid(3))."""
    if folder.parent != Path("/proc"):
        return None
    try:
        return time.clock_gettime_ns((~int(folder.name) << 3) | 2) / 1e9
    except OSError:
        return None


def _threads(folder: Path) -> dict[str, Any]:
    """Return counters of all living threads of a process together.

    /proc/PID/status counts the main thread alone, and so does /proc/PID/schedstat. Its first field
    is the CPU time in nanoseconds, the second one the time spent runnable and waiting for a core
    (kernel, sched-stats.rst); both are None for a kernel without it (CONFIG_SCHED_INFO).
    """
    switches, threads = [0, 0], 0
    cpus: dict[str, str] = {}
    times_ns: list[list[int]] = []
    tasks = os.open(folder / "task", os.O_RDONLY | os.O_DIRECTORY)
    try:
        for task in os.listdir(tasks):  # noqa: PTH208 - an open folder
            try:
                status = dict(_STATUS.findall(_bytes(f"{task}/status", tasks)))
            except OSError:
                continue  # it has ended
            threads += 1
            for place, kind in enumerate((b"voluntary", b"nonvoluntary")):
                switches[place] += int(status.get(kind + b"_ctxt_switches", 0))
            cpus[task] = status.get(b"Cpus_allowed_list", b"").decode()
            with contextlib.suppress(OSError):
                times = _bytes(f"{task}/schedstat", tasks).split()[:2]
                times_ns += [list(map(int, times))] if len(times) == 2 else []
    finally:
        os.close(tasks)
    known = len(times_ns) == threads
    return {
        "waits": switches[0],
        "preemptions": switches[1],
        "threads": threads,
        "queued_s": sum(waited for _, waited in times_ns) / 1e9 if known else None,
        "living_s": sum(ran for ran, _ in times_ns) / 1e9 if known else None,
        "cpus": sorted({cpu for text in set(cpus.values()) for cpu in _cpu_list(text)}),
        "main_cpus": _cpu_list(cpus.get(folder.name, "")),
    }


def _cpu_list(text: str) -> list[int]:
    """Return the CPUs of a list such as ``0-3,8``."""
    spans = [part.partition("-") for part in text.split(",") if part]
    return [cpu for first, _, last in spans for cpu in range(int(first), int(last or first) + 1)]


def _bytes(path: str, folder: int) -> bytes:
    """Return a short file below an open folder, without the cost of ``pathlib``."""
    stream = os.open(path, os.O_RDONLY, dir_fd=folder)
    try:
        return os.read(stream, _MOST)
    finally:
        os.close(stream)


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
    load = text_of(proc / "loadavg").split()
    return {
        "received_bytes": received,
        "sent_bytes": sent,
        "disk_read_bytes": read_bytes,
        "disk_written_bytes": written_bytes,
        "load": float(load[0]) if load else 0.0,
    }


def _network(path: Path) -> tuple[int, int]:
    received = sent = 0
    for line in text_of(path).splitlines():
        _, colon, rest = line.partition(":")
        numbers = rest.split()
        if colon and len(numbers) >= 9:
            received += int(numbers[0])
            sent += int(numbers[8])
    return received, sent


def _disks(path: Path) -> tuple[int, int]:
    read_bytes = written_bytes = 0
    for line in text_of(path).splitlines():
        fields = line.split()
        if len(fields) >= 10 and _is_disk(fields[2]):
            read_bytes += int(fields[5]) * SECTOR_BYTES
            written_bytes += int(fields[9]) * SECTOR_BYTES
    return read_bytes, written_bytes


def _is_disk(name: str) -> bool:
    return not _LAYERS.match(name) and (_BLOCK / name).exists()
