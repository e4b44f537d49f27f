"""Finding a server's program, and asking it something: on this machine, or ``elsewhere``."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Protocol

from tuner.errors import HostError

_PATIENCE_S = 30.0


class RemotePrograms(Protocol):
    """Another host, on which programs are found and asked."""

    def which(self, name: str) -> str | None:
        """Return path of a program there."""
        ...

    def run_command(self, command: Sequence[str], stdin: str | None) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of a command there."""
        ...


_HOST: ContextVar[RemotePrograms | None] = ContextVar("host", default=None)
"""Not an argument: no server's adapter has to know that hosts other than this one exist."""


@contextlib.contextmanager
def elsewhere(host: RemotePrograms) -> Iterator[None]:
    """Meanwhile programs are found and asked on that host."""
    token = _HOST.set(host)
    try:
        yield
    finally:
        _HOST.reset(token)


def find(candidates: Sequence[str], missing: str) -> str:
    """Return the first that is a program, as a path.

    Raises:
        HostError: none is; ``missing`` is the message.
    """
    host = _HOST.get()
    for candidate in candidates:
        found = shutil.which(candidate) if host is None else host.which(candidate)
        if found is not None:
            return found
    raise HostError(missing)


def version(pattern: str, text: str, command: str) -> str:
    """Return the version that a program reports.

    Args:
        pattern: finds it, as its first group.
        text: what was said.
        command: what was asked, for the message.

    Raises:
        HostError: there is none in it.
    """
    found = re.search(pattern, text)
    if found is None:
        raise HostError(f"{command} does not tell a version: {text[:200]!r}")
    return found.group(1)


def ask(*command: str, stdin: str | None = None) -> tuple[str, str]:
    """Return a program's standard output and standard error.

    Raises:
        HostError: it failed, with its words.
    """
    words = " ".join(command)
    host = _HOST.get()
    if host is not None:
        code, out, err = host.run_command(command, stdin)
        if code != 0:
            raise HostError(f"{words} failed: {err.strip() or out.strip()}")
        return out, err
    try:
        done = subprocess.run(
            command,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostError(f"{words} failed: {error}") from None
    if done.returncode != 0:
        raise HostError(f"{words} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout, done.stderr
