"""Finding and running a server's program, on this machine or ``elsewhere``."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol

from tuner.errors import DefinitionError, HostError, quoted

_PATIENCE_S = 30.0


class RemotePrograms(Protocol):
    """Another host for finding and running programs."""

    def which(self, name: str) -> str | None:
        """Return the path of a program there; None if missing."""
        ...

    def run_command(self, command: Sequence[str], stdin: str | None) -> tuple[int, str, str]:
        """Run a command there; return exit code, standard output and standard error."""
        ...


_HOST: ContextVar[RemotePrograms | None] = ContextVar("host", default=None)
"""A context variable, so that adapters of servers need not know about other hosts."""


@contextlib.contextmanager
def elsewhere(host: RemotePrograms) -> Iterator[None]:
    """Find and run programs on that host inside the block."""
    token = _HOST.set(host)
    try:
        yield
    finally:
        _HOST.reset(token)


def find(candidates: Sequence[str], missing: str) -> str:
    """Return the path of the first candidate that is a program.

    Raises:
        HostError: there is none; ``missing`` is the message.
    """
    host = _HOST.get()
    for candidate in candidates:
        found = shutil.which(candidate) if host is None else host.which(candidate)
        if found is not None:
            return found
    raise HostError(missing)


def named_program(path: str, option: str) -> str:
    """Return the absolute path of a program that the user names.

    Args:
        path: its path; absolute for another host.
        option: name of the option, for messages.

    Raises:
        DefinitionError: it is not an executable regular file.
    """
    host = _HOST.get()
    if not path.isprintable():
        raise DefinitionError(f"{quoted(path)} is not the path of a program", path=option)
    if host is not None:
        if not path.startswith("/"):
            raise DefinitionError(f"{path}: write the whole path on the target", path=option)
        if host.which(path) is None:
            raise DefinitionError(f"{path} is not an executable file of the target", path=option)
        return path
    program = Path(path).absolute()
    try:
        mode = program.stat().st_mode
    except OSError as error:
        raise DefinitionError(f"{program}: {error.strerror}", path=option) from None
    if not stat.S_ISREG(mode):
        raise DefinitionError(f"{program} is not a file; name the program", path=option)
    if not os.access(program, os.X_OK):
        raise DefinitionError(f"{program} is not executable; name the program", path=option)
    return str(program)


def version(pattern: str, text: str, command: str) -> str:
    """Return the version that a program reports.

    Args:
        pattern: pattern with the version as its first group.
        text: output of the program.
        command: the command, for the message.

    Raises:
        HostError: the output has no version.
    """
    found = re.search(pattern, text)
    if found is None:
        raise HostError(f"{command} does not print a version: {text[:200]!r}")
    return found.group(1)


def ask(*command: str, stdin: str | None = None) -> tuple[str, str]:
    """Return a program's standard output and standard error.

    Raises:
        HostError: it failed; the message has its output.
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
