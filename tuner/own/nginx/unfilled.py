"""Files without a configuration of Nginx, such as templates of one."""

from __future__ import annotations

import re

from tuner.errors import DefinitionError

_TEMPLATE = re.compile(r"\{\{|\{%|<%|(?<!\$)\{[A-Z][A-Z0-9_]+\}")
"""Marks of Jinja, Go, ERB, and of scripts that fill in names."""


def explained(error: DefinitionError, text: str) -> DefinitionError:
    """Return an error about a file; if the file is a template or not text, with the way out."""
    if "\0" in text:
        return DefinitionError(
            "holds bytes that are not text; name the main file of the configuration (--config"
            " /etc/nginx/nginx.conf)",
            path=error.path,
        )
    mark = _TEMPLATE.search(text)
    if mark is None:
        return error
    return DefinitionError(
        f"{mark.group()} is of a template, and not of Nginx: {error.message}; name the file that is"
        " made of it, such as the one that the running server reads (nginx -T prints it)",
        path=error.path,
        line=text.count("\n", 0, mark.start()) + 1,
    )
