"""Locks on files, which the kernel releases when their holder dies (flock(2)).

Each core has a lock, so that two studies do not measure on it at the same time, and each study's
folder has one. Every account of the machine can write to the folder of the core locks, so its
content is not trusted: links, pipes and unreadable files are skipped with a note, and the holder's
text is cut and stripped before it is printed.

The agent runs this file on other hosts, so it needs only the standard library of Python 3.8.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

VARIABLE = "TUNER_LOCKS"
"""Environment variable that names another folder for the locks of the cores."""
_FOLDERS = ("/run/lock", "/tmp")  # noqa: S108 - every account must find the same folder
_MOST_BYTES = 4_096
_MOST_CHARACTERS = 300


class LockHolder(NamedTuple):
    """The process that holds a lock, and its study."""

    pid: int = 0
    """Id of the process with the lock; 0: unknown."""
    study: str = ""
    folder: str = ""
    tuner: str = ""
    """Identity of the measuring tuner (``local.this_tuner``), which may run elsewhere."""

    @property
    def words(self) -> str:
        """Study, folder and process, for a message."""
        process = f"process {self.pid}" if self.pid else "a process that is not visible"
        where = self.tuner.split(" ")
        if len(where) >= 3 and where[1] != str(self.pid):
            process = f"process {where[1]} on {where[0]}"
        if not self.study:
            return process
        return f"the study {self.study} in {self.folder} ({process})"


class Locks:
    """Locks that are held until their release or the end of the process."""

    def __init__(self) -> None:
        self._held: list[tuple[int, str]] = []

    def take(self, path: str, mine: LockHolder, mode: int = 0o666) -> LockHolder | None:
        """Take one lock.

        Args:
            path: its file, created if missing.
            mine: content of the file, for other processes.
            mode: mode of a created file.

        Returns:
            None if the lock is held now; else its holder.

        Raises:
            OSError: the file cannot serve as a lock.
        """
        while True:
            descriptor = _opened(path, mode)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                there = _is_at(descriptor, path)
            except BlockingIOError:
                holder = holder_of(descriptor)
                os.close(descriptor)
                return holder
            except BaseException:
                os.close(descriptor)
                raise
            if there:
                break
            # The last holder removed the file between our two steps.
            os.close(descriptor)
        # Writing fails for another account's file or on a full disk. The lock still holds, without
        # its holder's name.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(mine._replace(pid=os.getpid())).encode(), 0)
        self._held.append((descriptor, path))
        return None

    def add(self, others: Locks) -> None:
        """Take over the locks of ``others``."""
        held, others._held = others._held, []
        self._held += held

    def release(self, *, remove: bool = False) -> None:
        """Release all locks.

        Args:
            remove: whether to remove the files as well.
        """
        held, self._held = self._held, []
        for descriptor, path in held:
            with contextlib.suppress(OSError):
                if remove:
                    Path(path).unlink()
                else:
                    os.ftruncate(descriptor, 0)
            os.close(descriptor)


class LockAttempt(NamedTuple):
    """The outcome of an attempt to lock some cores."""

    cpu: int = -1
    """The core that another study has locked; -1: none."""
    holder: LockHolder = LockHolder()
    unusable: tuple[str, ...] = ()
    """Files that cannot serve as locks, each with its reason."""


def take_cores(
    locks: Locks, cpus: Iterable[int], mine: LockHolder, folder: str = ""
) -> LockAttempt:
    """Take the locks of some cores of this machine, all or none.

    Cores that the same tuner already holds are skipped. So are cores with a file that cannot
    serve as a lock, because any account can put such a file there.

    Args:
        locks: collection for the new locks.
        cpus: the cores.
        mine: content of the files.
        folder: folder of the files; by default the machine's.
    """
    folder = folder or cores_folder()
    unusable = []
    taken = Locks()
    for cpu in sorted(set(cpus)):
        path = str(Path(folder) / f"tuner-core-{cpu}.lock")
        try:
            holder = taken.take(path, mine)
        except OSError as error:
            unusable.append(f"{path}: {error.strerror or error}")
            continue
        if holder is not None and (not holder.tuner or holder.tuner != mine.tuner):
            taken.release()
            return LockAttempt(cpu, holder, tuple(unusable))
    locks.add(taken)
    return LockAttempt(unusable=tuple(unusable))


def cores_folder() -> str:
    """Return the folder of the locks of the cores, the same for every account of the machine."""
    named = os.environ.get(VARIABLE)
    if named:
        with contextlib.suppress(OSError):
            Path(named).mkdir(parents=True, exist_ok=True)
        return named
    wanted = stat.S_ISVTX | stat.S_IWOTH
    for folder in _FOLDERS:
        with contextlib.suppress(OSError):
            if Path(folder).stat().st_mode & wanted == wanted:
                return folder
    return _FOLDERS[-1]


def _opened(path: str, mode: int) -> int:
    """Open a lock's file, and create it if it is missing.

    Raises:
        OSError: it is not a file that can be locked.
    """
    flags = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    while True:
        # Without O_CREAT: with it, nobody may open another account's file in a sticky folder,
        # not even root (fs.protected_regular, proc_sys_fs(5)).
        for access in (os.O_RDWR, os.O_RDONLY):
            try:
                return _regular(os.open(path, access | flags))
            except PermissionError:
                if access == os.O_RDONLY:
                    raise
            except FileNotFoundError:
                break
        try:
            made = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, mode)
        except FileExistsError:
            continue  # Another process was faster, or the file is a dangling link.
        # Other accounts lock the same file, so the umask must not apply.
        os.fchmod(made, mode)
        return made


def _regular(descriptor: int) -> int:
    """Return the descriptor of a regular file with a single name, or close it.

    Raises:
        OSError: it is another kind of file.
    """
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_nlink <= 1:
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a file that can be locked")


def _is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False


def holder_of(descriptor: int) -> LockHolder:
    """Return the holder of a lock, as far as it is known.

    The kernel's answer takes precedence over the file's content, which anyone can write.
    """
    pid = _kernels_pid(descriptor)
    with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
        said = _plain(json.loads(os.pread(descriptor, _MOST_BYTES, 0)))
        if pid in (0, said.pid):
            return said
    return LockHolder(pid)


def _plain(said: Any) -> LockHolder:
    """Return the holder from a lock's file, with printable texts.

    Raises:
        ValueError, TypeError: the content has another form.
    """
    pid, *texts = said
    if type(pid) is not int or not all(type(text) is str for text in texts):
        raise ValueError(said)
    return LockHolder(
        pid,
        *("".join(c if c.isprintable() else "?" for c in t[:_MOST_CHARACTERS]) for t in texts),
    )


def _kernels_pid(descriptor: int) -> int:
    """Return the process that holds a flock by /proc/locks (proc_locks(5)); 0 if unknown."""
    found = os.fstat(descriptor)
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            fields = line.split()
            if fields[1] == "FLOCK" and fields[5] == f"{device}:{found.st_ino}":
                return max(0, int(fields[4]))
    return 0
