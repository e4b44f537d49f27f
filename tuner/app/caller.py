"""The command or the program that studies run for."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field

from tuner.app.progress import RunProgress


@dataclass(frozen=True, slots=True)
class Caller:
    """A command or a program that runs studies: its permissions, its progress and its locks."""

    progress: RunProgress
    command: str
    """The command line or the call, for the record."""
    wait: bool = False
    """True to wait for busy cores instead of an error."""
    foreign: bool = False
    """True to accept records that another user or machine made."""
    asks: bool = False
    """True to ask at a terminal whether to accept such a record."""
    locks: ExitStack = field(default_factory=ExitStack)
    """Locks of studies and cores, which its owner closes at the end."""
