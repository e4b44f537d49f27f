"""The host of the native generator: this machine or another one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from tuner.paths import temporary


class GeneratorHost(Protocol):
    """The host of a generator: this machine or another one."""

    @property
    def watches_server(self) -> bool:
        """True if the generator is on the server's host and can watch its cores and processes."""
        ...

    def command(self, *arguments: str) -> list[str]:
        """Return the command that runs ``tuner-loadgen`` with these arguments there."""
        ...

    def folder(self) -> contextlib.AbstractContextManager[str]:
        """Return a temporary folder there, for a plan."""
        ...

    def put(self, folder: str, name: str, content: bytes) -> str:
        """Write a file into such a folder; return its path there."""
        ...

    def finds(self, path: Path, folder: str) -> str:
        """Return the path there of a local file, which is copied to the folder if necessary."""
        ...

    def taken(self, path: str) -> bytes:
        """Read and remove a file that the generator wrote.

        Raises:
            OSError, HostError: it cannot be read.
        """
        ...


class LocalGeneratorHost:
    """This machine.

    Args:
        binary: path of tuner-loadgen.
    """

    def __init__(self, binary: Path) -> None:
        self._binary = binary

    @property
    def watches_server(self) -> bool:
        """Implement ``GeneratorHost.watches_server``."""
        return True

    def command(self, *arguments: str) -> list[str]:
        """Implement ``GeneratorHost.command``."""
        return [str(self._binary), *arguments]

    @contextlib.contextmanager
    def folder(self) -> Iterator[str]:
        """Implement ``GeneratorHost.folder``."""
        with temporary("samples") as name:
            yield name

    def put(self, folder: str, name: str, content: bytes) -> str:
        """Implement ``GeneratorHost.put``."""
        path = Path(folder) / name
        path.write_bytes(content)
        return str(path)

    def finds(self, path: Path, folder: str) -> str:  # noqa: ARG002 - nothing is copied
        """Implement ``GeneratorHost.finds``."""
        return str(path)

    def taken(self, path: str) -> bytes:
        """Implement ``GeneratorHost.taken``."""
        content = Path(path).read_bytes()
        Path(path).unlink()
        return content
