"""Files that cannot be written: one message for the reasons that a host can have."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from tuner.errors import HostError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REMEDIES = {
    **dict.fromkeys(_FULL, "make room there"),
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM, errno.EROFS),
        "run tuner in a folder, or name one, where you may write",
    ),
    **dict.fromkeys(
        (errno.ENOTDIR, errno.EEXIST),
        "a file is where a folder is needed; move it, or run tuner in another folder",
    ),
    errno.EISDIR: "a folder is where a file is needed; name a file",
    errno.ENOENT: "make its folder first",
    errno.ENAMETOOLONG: "use a shorter name",
    errno.ELOOP: "a symbolic link points to itself; remove it",
    **dict.fromkeys(
        (errno.EMFILE, errno.ENFILE), "too many files are open; raise the limit (ulimit -n)"
    ),
    errno.ENOMEM: "free some memory",
    errno.EIO: "look at the disk (dmesg)",
}
"""Remedies by the kernel's reason (errno(3))."""


@contextlib.contextmanager
def writing(path: Path | str, remedy: str = "") -> Iterator[None]:
    """Turn an error of the file system into a message with a remedy.

    Args:
        path: what is being written.
        remedy: what to do where the reason does not say it better.

    Raises:
        HostError: ``path``, or what the operating system names, cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise cannot_write(error, str(path), remedy) from error


def writing_results(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Return ``writing`` for a study's folder of results, with the remedy that fits it."""
    return writing(
        folder, f"results go to {folder.parent}/ of the folder where tuner runs; use another"
    )


def cannot_write(
    error: OSError, path: str = "", remedy: str = "", *, what: str = "cannot be written"
) -> HostError:
    """Return the message for an error of the file system.

    Args:
        error: of the operating system.
        path: used where ``error`` names no file.
        remedy: of the caller; a full disk has its own.
        what: is wrong with the file.
    """
    number = error.errno or 0
    known = _REMEDIES.get(number, "")
    remedy = known if number in _FULL or not remedy else remedy
    name = error.filename if isinstance(error.filename, str) else ""
    where = f"{name or path}: " if name or path else ""
    reason = error.strerror or str(error)
    return HostError(f"{where}{what}: {reason}" + (f"; {remedy}" if remedy else ""))


def is_hosts(error: OSError) -> bool:
    """Return whether an error is the host's state, and not a mistake of the program."""
    return error.errno in _REMEDIES and error.errno not in (errno.ENOENT, errno.EEXIST)
