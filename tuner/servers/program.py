"""Finding a server's program on this machine, and asking it something."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

from tuner.errors import HostError

_PATIENCE_S = 30.0


def find(candidates: Sequence[str], missing: str) -> str:
    """The first that is a program, as a path.

    Raises:
        HostError: none is; ``missing`` is the message.
    """
    for candidate in candidates:
        found = shutil.which(candidate)
        if found is not None:
            return found
    raise HostError(missing)


def ask(*command: str, stdin: str | None = None) -> tuple[str, str]:
    """What a program says on standard output and standard error.

    Raises:
        HostError: it failed, with its words.
    """
    words = " ".join(command)
    try:
        done = subprocess.run(
            command,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostError(f"{words} failed: {error}") from None
    if done.returncode != 0:
        raise HostError(f"{words} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout, done.stderr
