"""Options of a study by their names in a study file, and as words of a command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def overrides(options: Mapping[str, Any]) -> dict[str, object]:
    """Return the given options by their names in a study file."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in options.items()
        if value is not None and value != ()
    }


def named_options(options: Mapping[str, object]) -> str:
    """Return the names of given options as the user writes them: ``--server-name, --time``."""
    return ", ".join(map(_name, options))


def command_line(command: str, arguments: Sequence[str], options: Mapping[str, object]) -> str:
    """Return the command line with these arguments and options.

    Args:
        command: name of the command.
        arguments: its arguments.
        options: its options by their names in a study file; True sets a flag.
    """
    words = [word for key, value in options.items() for word in _words(_name(key), value)]
    return shlex.join(["tuner", command, *arguments, *words])


def _words(name: str, value: object) -> Iterator[str]:
    if isinstance(value, bool):
        yield from [name] * value
        return
    for each in value if isinstance(value, list | tuple) else (value,):
        yield from (name, str(each))


def _name(key: str) -> str:
    return f"--{key.replace('_', '-')}"
