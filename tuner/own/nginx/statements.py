"""The statements of one file, read by crossplane (https://github.com/nginxinc/crossplane)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tuner.errors import DefinitionError
from tuner.paths import temporary

_TEMPLATE = re.compile(r"\{\{|\{%|<%|(?<!\$)\{[A-Z][A-Z0-9_]+\}")
"""Marks of Jinja, Go, ERB, and of scripts that fill in names."""


def statements(path: str, text: str) -> Any:
    """Return crossplane's statements of one file.

    Only the syntax is checked. Nginx itself checks the directives of its version and modules before
    any measurement.

    Args:
        path: path of the file, for messages.
        text: its content, without Lua.

    Raises:
        DefinitionError: it is not a configuration of Nginx; with the line.
    """
    # Imported here, because its tables take time that other commands must not spend.
    import crossplane

    with temporary("nginx") as folder:
        # It reads only files of this machine, and the user's may be on another one.
        copy = Path(folder) / "file"
        copy.write_bytes(text.encode("utf-8", "surrogateescape"))
        payload = crossplane.parse(str(copy), single=True, check_ctx=False, check_args=False)
    for error in payload["errors"]:
        message = error["error"].split(f" in {copy}")[0].strip()
        raise DefinitionError(
            f"is not a configuration of Nginx: {message or 'it ends within a directive'}",
            path=path,
            line=error["line"],
        )
    return payload["config"][0]["parsed"]


def not_parsed(path: str, line: int) -> DefinitionError:
    """Return the error about a block without an end."""
    return DefinitionError("this block cannot be parsed; is a ';' missing?", path=path, line=line)


def explained(error: DefinitionError, text: str) -> DefinitionError:
    """Return an error about a file; if the file is a template, with the way out."""
    mark = _TEMPLATE.search(text)
    if mark is None:
        return error
    return DefinitionError(
        f"{mark.group()} is of a template, and not of Nginx: {error.message}; name the file that is"
        " made of it, such as the one that the running server reads (nginx -T prints it)",
        path=error.path,
        line=text.count("\n", 0, mark.start()) + 1,
    )
