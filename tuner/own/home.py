"""The environment in which a server reads its configuration: this machine, or a service's host."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tuner.own.copies import NO_COPIES, Copies
from tuner.own.files import HERE, Files
from tuner.paths import temporary

_PATIENCE_S = 30.0


class Home(Files, Protocol):
    """A host with a server's program, and what that program finds there."""

    @property
    def variables(self) -> Mapping[str, str]:
        """Environment of the program, which a configuration may refer to; it may hold secrets."""
        ...

    @property
    def remedy(self) -> str:
        """Return the source of a missing variable, and the remedy."""
        ...

    @property
    def is_copy(self) -> bool:
        """True if the configuration is a copy, which is complete in itself."""
        ...

    def located(self, path: str) -> str | None:
        """Return where a path of the configuration is; None for one that a copy does not have."""
        ...

    def run(self, *arguments: str, cwd: str) -> tuple[int, str, str]:
        """Run the program; return its exit code, standard output and standard error.

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
class LocalHome:
    """Implement ``Home``."""

    binary: str
    added: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables in addition to the environment, which they override; they may be secrets."""
    copies: Copies = NO_COPIES
    """Folders that stand for paths of the configuration."""

    @property
    def variables(self) -> Mapping[str, str]:
        """Implement ``Home``."""
        return {**os.environ, **self.added}

    @property
    def remedy(self) -> str:
        """Implement ``Home``."""
        return "here: name the file of the server's environment (--env-file FILE)"

    def read(self, path: str) -> bytes:
        """Implement ``Files``."""
        return HERE.read(path)

    def matches(self, pattern: str) -> list[str]:
        """Implement ``Files``."""
        return HERE.matches(pattern)

    @property
    def is_copy(self) -> bool:
        """Implement ``Home``."""
        return self.copies.is_copy

    def located(self, path: str) -> str | None:
        """Implement ``Home``."""
        return None if self.copies.is_foreign(path) else self.copies.located(path)

    def run(self, *arguments: str, cwd: str) -> tuple[int, str, str]:
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
                env=dict(self.variables),
            )
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(str(error)) from None
        return done.returncode, done.stdout, done.stderr

    @contextlib.contextmanager
    def folder(self) -> Iterator[str]:
        """Implement ``Home``."""
        with temporary("home") as name:
            yield name

    def write(self, path: str, content: bytes) -> None:
        """Implement ``Home``."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)
