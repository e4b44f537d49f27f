"""What the kernel counts of processes and of this machine, read from /proc: see proc(5).

One reading takes about a tenth of a millisecond per process. It is for the gaps between windows.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tuner.resources import HostCounters, ProcessCounters, Reading

_PROC = Path("/proc")
_BLOCK = Path("/sys/block")
_SECTOR_BYTES = 512
"""Of /proc/diskstats, whatever the disk's own sectors are (kernel, iostats.rst)."""
_LAYERS = re.compile(r"(loop|ram|zram|dm-|md|sr|fd)")
"""What is no disk of its own, or lies above disks that are counted already."""


def read(pids: Iterable[int], proc: Path = _PROC) -> Reading:
    """Read the counters of processes and host; a process that is gone is left out.

    Args:
        pids: the processes.
        proc: where the kernel shows them; another folder in tests.
    """
    found = {pid: _process(proc / str(pid)) for pid in dict.fromkeys(pids)}
    return Reading(
        at_s=time.monotonic(),
        processes={pid: counters for pid, counters in found.items() if counters is not None},
        host=_host(proc),
    )


def _process(folder: Path) -> ProcessCounters | None:
    try:
        # The name in brackets may hold anything, so fields count from behind it.
        fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        status = _fields(folder / "status")
        waits, preemptions, threads = _switches(folder)
        ticks = os.sysconf("SC_CLK_TCK")
        return ProcessCounters(
            user_s=int(fields[11]) / ticks,
            system_s=int(fields[12]) / ticks,
            memory_bytes=status.get("VmRSS", 0) * 1024,
            peak_bytes=status.get("VmHWM", 0) * 1024,
            waits=waits,
            preemptions=preemptions,
            **_input_output(folder / "io"),
            descriptors=_count(folder / "fd"),
            threads=threads,
        )
    except (OSError, IndexError, ValueError):
        return None


def _switches(folder: Path) -> tuple[int, int, int]:
    """Voluntary and involuntary context switches over all threads, and how many those are.

    /proc/PID/status counts those of the main thread alone.
    """
    waits = preemptions = threads = 0
    for task in (folder / "task").iterdir():
        try:
            status = _fields(task / "status")
        except OSError:
            continue
        waits += status.get("voluntary_ctxt_switches", 0)
        preemptions += status.get("nonvoluntary_ctxt_switches", 0)
        threads += 1
    return waits, preemptions, threads


def _input_output(path: Path) -> dict[str, int | None]:
    """Bytes from and to storage; shown to the process's owner and to root only."""
    try:
        found = _fields(path)
    except OSError:
        return {"read_bytes": None, "written_bytes": None}
    return {"read_bytes": found.get("read_bytes"), "written_bytes": found.get("write_bytes")}


def _count(folder: Path) -> int | None:
    try:
        return sum(1 for _ in folder.iterdir())
    except OSError:
        return None


def _fields(path: Path) -> dict[str, int]:
    """The lines ``name: number`` of a file."""
    found = {}
    for line in path.read_text(errors="replace").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0])
    return found


def _host(proc: Path) -> HostCounters:
    received, sent = _network(proc / "net" / "dev")
    read_bytes, written_bytes = _disks(proc / "diskstats")
    return HostCounters(
        received_bytes=received,
        sent_bytes=sent,
        disk_read_bytes=read_bytes,
        disk_written_bytes=written_bytes,
        load=float(_text(proc / "loadavg").split()[0]) if _text(proc / "loadavg") else 0.0,
    )


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
            read_bytes += int(fields[5]) * _SECTOR_BYTES
            written_bytes += int(fields[9]) * _SECTOR_BYTES
    return read_bytes, written_bytes


@cache
def _is_disk(name: str) -> bool:
    return not _LAYERS.match(name) and (_BLOCK / name).exists()


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
