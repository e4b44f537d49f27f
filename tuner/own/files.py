"""Files of a configuration, on this machine or on their host."""

from __future__ import annotations

import errno
import glob
from pathlib import Path
from typing import Protocol

from tuner.errors import DefinitionError
from tuner.reading.inputs import CONFIGURATION_BYTES, read_input


class Files(Protocol):
    """The files of one host."""

    def read(self, path: str) -> bytes:
        """Return a file's content.

        Raises:
            OSError: it cannot be read.
        """
        ...

    def matches(self, pattern: str) -> list[str]:
        """Return the files of a name or a pattern, sorted as glob(3) does; none is not an error."""
        ...


class LocalFiles:
    """The files of this machine."""

    def read(self, path: str) -> bytes:
        """Implement ``Files.read``."""
        try:
            return read_input(path, CONFIGURATION_BYTES)
        except DefinitionError as error:
            if isinstance(error.__cause__, OSError):
                raise error.__cause__ from None
            raise OSError(errno.EINVAL, error.message) from None

    def matches(self, pattern: str) -> list[str]:
        """Implement ``Files.matches``."""
        if glob.has_magic(pattern):
            return sorted(glob.glob(pattern))  # noqa: PTH207 - Nginx matches as glob(3) does
        return [pattern] if Path(pattern).is_file() else []


HERE = LocalFiles()
