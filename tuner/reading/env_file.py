"""Files of environment variables, as services and ``caddy run --envfile`` read them."""

from __future__ import annotations

import re

from tuner.errors import DefinitionError, quoted
from tuner.reading.inputs import CONFIGURATION_BYTES, read_input

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_env_file(path: str) -> dict[str, str]:
    """Return the variables of a file of ``NAME=value`` lines with ``#`` comments.

    ``export`` before a name and quotes around a value are left out. The values may be secrets.

    Raises:
        DefinitionError: it cannot be read, or a line is not a variable; with its number only.
    """
    found: dict[str, str] = {}
    text = read_input(path, CONFIGURATION_BYTES).decode("utf-8", "replace")
    for number, line in enumerate(text.splitlines(), 1):
        words = line.strip().removeprefix("export ").lstrip()
        if not words or words.startswith("#"):
            continue
        name, equals, value = words.partition("=")
        name = name.strip()
        if not equals or not _NAME.fullmatch(name):
            shown = quoted(name) if equals else "this line"
            raise DefinitionError(
                f"{shown} is not a variable; write NAME=value", path=path, line=number
            )
        found[name] = _unquoted(value.strip())
    return found


def _unquoted(value: str) -> str:
    quoted_value = len(value) > 1 and value[0] in "\"'" and value[-1] == value[0]
    return value[1:-1] if quoted_value else value.partition(" #")[0].rstrip()
