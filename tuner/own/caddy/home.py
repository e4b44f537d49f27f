"""The environment in which Caddy reads its configuration: this machine, or a service's host."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tuner.own.files import HERE, Files
from tuner.paths import temporary

_PATIENCE_S = 30.0


class Home(Files, Protocol):
    """A host with a Caddy, and what that Caddy finds there."""

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment that Caddy has, of which ``{$NAME}`` is read; it may hold secrets."""
        ...

    @property
    def remedy(self) -> str:
        """Return the source of a missing variable, and the remedy."""
        ...

    def caddy(self, *arguments: str, cwd: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of a command of Caddy's.

        Raises:
            OSError: it cannot be started, or does not end.
        """
        ...

    def folder(self) -> AbstractContextManager[str]:
        """Return a new folder, which is taken away."""
        ...

    def write(self, path: str, content: bytes) -> None:
        """A file, and the folders that it lies in."""
        ...


@dataclass(frozen=True, slots=True)
class LocalCaddyHome:
    """Implement ``Home``."""

    binary: str

    @property
    def variables(self) -> Mapping[str, str]:
        """Implement ``Home``."""
        return os.environ

    @property
    def remedy(self) -> str:
        """Implement ``Home``."""
        return "here: call tuner with the environment that Caddy has"

    def read(self, path: str) -> bytes:
        """Implement ``Files``."""
        return HERE.read(path)

    def matches(self, pattern: str) -> list[str]:
        """Implement ``Files``."""
        return HERE.matches(pattern)

    def caddy(self, *arguments: str, cwd: str) -> tuple[int, str, str]:
        """Implement ``Home``."""
        try:
            done = subprocess.run(
                [self.binary, *arguments],
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                cwd=cwd,
                timeout=_PATIENCE_S,
            )
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(str(error)) from None
        return done.returncode, done.stdout, done.stderr

    @contextlib.contextmanager
    def folder(self) -> Iterator[str]:
        """Implement ``Home``."""
        with temporary("caddy") as name:
            yield name

    def write(self, path: str, content: bytes) -> None:
        """Implement ``Home``."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)
