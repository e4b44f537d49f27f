"""Commands as callers of the application."""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Callable
from typing import Any

from tuner.app.caller import Caller
from tuner.app.progress import TerminalProgress


def as_caller(function: Callable[..., None]) -> Callable[..., None]:
    """Call a command with a ``Caller`` in place of its options --wait, --foreign and --quiet.

    The caller's locks end with the command.
    """

    @functools.wraps(function)
    def call(
        *arguments: Any,
        wait: bool = False,
        foreign: bool = False,
        quiet: bool = False,
        **given: Any,
    ) -> None:
        caller = Caller(
            TerminalProgress(quiet=quiet),
            shlex.join(["tuner", *sys.argv[1:]]),
            wait=wait,
            foreign=foreign,
            asks=True,
        )
        with caller.locks:
            function(*arguments, caller=caller, **given)

    return call
