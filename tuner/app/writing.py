"""Messages for files that cannot be written."""

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
        "run tuner in a writable folder, or name one",
    ),
    **dict.fromkeys(
        (errno.ENOTDIR, errno.EEXIST),
        "a file is where a folder is needed; move it, or run tuner in another folder",
    ),
    errno.EISDIR: "a folder is where a file is needed; name a file",
    errno.ENOENT: "create its folder first",
    errno.ENAMETOOLONG: "use a shorter name",
    errno.ELOOP: "a symbolic link points to itself; remove it",
    **dict.fromkeys(
        (errno.EMFILE, errno.ENFILE), "too many files are open; raise the limit (ulimit -n)"
    ),
    errno.ENOMEM: "free some memory",
    errno.EIO: "look at the disk (dmesg)",
}
"""Remedies by error number (errno(3))."""


@contextlib.contextmanager
def writing(path: Path | str, remedy: str = "") -> Iterator[None]:
    """Convert an error of the file system to a HostError with a remedy.

    Args:
        path: file or folder to write.
        remedy: remedy that replaces the general one, except for a full disk.

    Raises:
        HostError: ``path``, or the file that the operating system names, cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise cannot_write(error, str(path), remedy) from error


def writing_results(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Return ``writing`` for a study's folder of results, with its remedy."""
    return writing(
        folder, f"results go to {folder.parent}/ in the current folder; run tuner in another folder"
    )


def cannot_write(
    error: OSError, path: str = "", remedy: str = "", *, what: str = "cannot be written"
) -> HostError:
    """Return the HostError for an error of the file system.

    Args:
        error: error of the operating system.
        path: path to name if ``error`` names no file.
        remedy: remedy of the caller, except for a full disk.
        what: failed action.
    """
    number = error.errno or 0
    known = _REMEDIES.get(number, "")
    remedy = known if number in _FULL or not remedy else remedy
    name = error.filename if isinstance(error.filename, str) else ""
    where = f"{name or path}: " if name or path else ""
    reason = error.strerror or str(error)
    return HostError(f"{where}{what}: {reason}" + (f"; {remedy}" if remedy else ""))


def is_hosts(error: OSError) -> bool:
    """Return whether the host's state caused an error, and not a mistake of the program."""
    return error.errno in _REMEDIES and error.errno not in (errno.ENOENT, errno.EEXIST)
