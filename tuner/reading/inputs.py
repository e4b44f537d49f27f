"""Input files: regular files, read up to a limit.

Reading ends and takes bounded memory for any path: devices, pipes, folders and files beyond the
limit are refused with an error of one line.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from tuner.errors import DefinitionError

DEFINITION_BYTES = 4 << 20
"""Limit of handwritten definitions: spaces, studies, workloads, templates."""
CONFIGURATION_BYTES = 16 << 20
"""Limit of one file of a server's configuration."""
INVENTORY_BYTES = 64 << 20
"""Limit of an inventory, which a program may have written."""
URLS_BYTES = 16 << 20
"""Limit of a list of URLs."""
BODY_BYTES = 64 << 20
"""Limit of a request's body."""
INSTANTS_BYTES = 128 << 20
"""Limit of a list of instants."""
SMALLER = "name a smaller file"
"""The default advice for a file that is too large."""

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


def open_input(path: str | Path, limit_bytes: int | None = None, advice: str = SMALLER) -> BinaryIO:
    """Open a regular file for reading.

    Args:
        path: the file.
        limit_bytes: largest allowed size; None for no limit.
        advice: way out in the error for a file beyond the limit.

    Raises:
        DefinitionError: the file is not regular, is too large, or cannot be opened.
    """
    try:
        # Opening a pipe would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            kind = next((words for of, words in _KINDS if of(found.st_mode)), "not a regular file")
            raise DefinitionError(f"is {kind}; name a regular file", path=str(path))
        if limit_bytes is not None and found.st_size > limit_bytes:
            raise _too_large(path, found.st_size, limit_bytes, advice)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_input(
    path: str | Path, limit_bytes: int = DEFINITION_BYTES, advice: str = SMALLER
) -> bytes:
    """Read a regular file whole.

    Raises:
        DefinitionError: as for ``open_input``.
    """
    with open_input(path, limit_bytes, advice) as stream:
        try:
            # The stated size is wrong for files in /proc and for growing files.
            content = stream.read(limit_bytes + 1)
        except OSError as error:
            raise _unreadable(path, error) from error
    if len(content) > limit_bytes:
        raise _too_large(path, len(content), limit_bytes, advice)
    return content


def read_input_text(path: str | Path, limit_bytes: int = DEFINITION_BYTES) -> str:
    """Read a regular file of UTF-8 text, with line ends as line feeds.

    Raises:
        DefinitionError: as for ``open_input``, or the file is not UTF-8.
    """
    try:
        text = read_input(path, limit_bytes).decode("utf-8")
    except UnicodeDecodeError:
        raise DefinitionError("is not UTF-8 text", path=str(path)) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _too_large(path: str | Path, size: int, limit_bytes: int, advice: str) -> DefinitionError:
    return DefinitionError(
        f"is too large: {size:,} bytes, and the limit is {limit_bytes:,}; {advice}",
        path=str(path),
    )


def _unreadable(path: str | Path, error: OSError | ValueError) -> DefinitionError:
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return DefinitionError(f"cannot be read: {words}", path=str(path))
