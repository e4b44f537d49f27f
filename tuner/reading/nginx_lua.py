"""Lua between the braces of OpenResty's directives.

Only its end matters: braces in strings and comments do not count.
https://www.lua.org/manual/5.1/manual.html#2.1
"""

from __future__ import annotations

import re

from tuner.errors import DefinitionError

LUA = "_by_lua_block"
"""Suffix of OpenResty's directives that hold Lua between braces."""
_PART = re.compile(
    # Long comments and strings, comments, quoted strings, braces; or the start of one without end.
    r"""
    (?P<whole> (?:--)?\[(?P<level>=*)\[.*?\](?P=level)\] | "(?:\\.|[^"\\])*+" | '(?:\\.|[^'\\])*+' )
    | (?P<open> (?:--)?\[=*\[ | ["'] )
    | (?P<comment> --[^\n]* )
    | (?P<brace> [{}] )
    """,
    re.VERBOSE | re.DOTALL,
)


def end_of_lua(text: str, start: int, path: str, line: int) -> int:
    """Return the offset after the ``}`` that ends Lua.

    Args:
        text: text of the file.
        start: offset of the ``{``.
        path: path of the file, for messages.
        line: line of the ``{``, for messages.

    Raises:
        DefinitionError: the braces, a string or a comment of the Lua is not closed.
    """
    depth = 0
    for found in _PART.finditer(text, start):
        if found["open"]:
            break
        depth += (found[0] == "{") - (found[0] == "}")
        if depth == 0:
            return found.end()
    raise DefinitionError("Lua is opened here and never closed", path=path, line=line)
