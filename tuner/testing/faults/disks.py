"""Disks that are full, read-only, broken, slow or without power.

A study's folder is on an ext4 of its own. Its ioctl ``EXT4_IOC_SHUTDOWN`` without a flush of the
journal drops all that was not synchronised, as a power failure does, and every later access fails
with EIO; the tests of Linux's own file systems use it (xfstests, ``src/godown.c``).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

from tuner.paths import RECORD, synchronise
from tuner.testing.faults.fault import Fault, FaultTarget
from tuner.testing.faults.processes import KILLED, processes

ROW = "storage"
_DISK = frozenset({"disk"})
_SHUTDOWN = 0x8004587D
"""``EXT4_IOC_SHUTDOWN`` of ``fs/ext4/ext4.h``: ``_IOR('X', 125, __u32)``."""
_WITHOUT_FLUSH = 2
"""``EXT4_GOING_FLAGS_NOLOGFLUSH``."""
_SIZES = (1 << 20, 1 << 16, 1 << 12, 1 << 10)
_SLOW_US = 10_000
_ATTACHED_S = 10.0
"""Time limit for the tracer to attach."""


def _filler(target: FaultTarget) -> Path:
    return target.folder / "filler"


def _fill(target: FaultTarget) -> None:
    try:
        number = os.open(_filler(target), os.O_WRONLY | os.O_CREAT)
    except OSError:
        return
    end = 0
    for size in _SIZES:
        with contextlib.suppress(OSError):
            while True:
                os.posix_fallocate(number, end, size)
                end += size
    os.close(number)


def _make_room(target: FaultTarget) -> None:
    _filler(target).unlink(missing_ok=True)
    # A second fault may drop what is not on the disk, and the disk would be full again.
    with contextlib.suppress(OSError):
        synchronise(target.folder)


def _device(folder: Path) -> str:
    done = subprocess.run(
        ["findmnt", "-no", "SOURCE", folder], capture_output=True, text=True, check=True
    )
    return Path(done.stdout.strip()).name


def _read_only(target: FaultTarget) -> None:
    """Let ext4 find an error, after which it is read-only at once (``errors=remount-ro``)."""
    trigger = Path(f"/sys/fs/ext4/{_device(target.folder)}/trigger_fs_error")
    trigger.write_text("campaign", encoding="ascii")


def _shut_down(target: FaultTarget) -> None:
    number = os.open(target.folder, os.O_RDONLY)
    fcntl.ioctl(number, _SHUTDOWN, struct.pack("I", _WITHOUT_FLUSH))
    os.close(number)


def _power_cut(target: FaultTarget) -> None:
    """Drop all that is not on the disk, and end every process of the study's host."""
    _shut_down(target)
    _end_all(target)
    os.kill(os.getpid(), signal.SIGKILL)


def _end_all(target: FaultTarget) -> None:
    for pid in processes(target):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _restart(target: FaultTarget) -> None:
    """Begin anew with what is on the disk, as a restarted host does."""
    _end_all(target)
    target.remount()


def _remove_study(target: FaultTarget) -> None:
    shutil.rmtree(target.study, ignore_errors=True)


def _kill(_: FaultTarget) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _cut(target: FaultTarget) -> None:
    """Cut the journal of the write that was under way, as a power failure may.

    SQLite has not changed the record then (https://www.sqlite.org/atomiccommit.html).
    """
    journal = target.study / f"{RECORD}-journal"
    if journal.is_file():
        os.truncate(journal, int(target.share * journal.stat().st_size))


def _slow(_: FaultTarget) -> None:
    """Let every following fsync of this process wait."""
    injected = f"inject=fsync,fdatasync:delay_exit={_SLOW_US}"
    options = f"-qq -o /dev/null -e trace=fsync,fdatasync -e {injected} -p {os.getpid()}"
    # Not a child of this process, which would be one that tuner does not know.
    subprocess.run(["sh", "-c", f"strace {options} >/dev/null 2>&1 </dev/null &"], check=True)
    deadline = time.monotonic() + _ATTACHED_S
    while not _is_traced() and time.monotonic() < deadline:
        time.sleep(0.005)


def _is_traced() -> bool:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return "TracerPid:\t0" not in status


FAULTS = (
    Fault("full disk", ROW, _fill, _make_room, needs=_DISK),
    Fault("read-only disk", ROW, _read_only, _restart, needs=_DISK),
    Fault("broken disk", ROW, _shut_down, _restart, needs=_DISK),
    Fault("slow disk", ROW, _slow, needs=frozenset({"disk", "strace"})),
    Fault("removed folder", ROW, _remove_study),
    Fault("cut journal", ROW, _kill, _cut, code=KILLED),
    Fault("power cut", "power", _power_cut, _restart, code=KILLED, needs=_DISK),
)
