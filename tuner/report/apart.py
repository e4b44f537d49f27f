"""A function in a process of its own, for what takes memory that Python never gives back.

A study's process stays alive next to measured servers, so what only a report needs is not
loaded into it: Altair alone takes 30 MB.
"""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from typing import Any

from tuner.errors import HostError

_CALL = "from tuner.report.apart import answer; answer()"


def apart(module: str, function: str, *arguments: object) -> Any:
    """Return the result of ``function`` of ``module`` for plain data, from a process of its own.

    In this process if Altair is loaded here already: then nothing would be saved.

    Raises:
        HostError: the process failed.
    """
    if "altair" in sys.modules:
        return getattr(importlib.import_module(module), function)(*arguments)
    done = subprocess.run(
        [sys.executable, "-c", _CALL],
        input=pickle.dumps((module, function, arguments)),
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        words = done.stderr.decode(errors="replace").strip()[-400:]
        raise HostError(f"the charts could not be made: {words}")
    return pickle.loads(done.stdout)  # noqa: S301 - written by our own process


def answer() -> None:
    """The other end: reads what is wanted from standard input, writes what came of it."""
    module, function, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301 - from our own process
    found = getattr(importlib.import_module(module), function)(*arguments)
    pickle.dump(found, sys.stdout.buffer)
