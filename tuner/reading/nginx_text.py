"""Nginx's configuration as words and statements, by the rules of Nginx's own reader."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tuner.errors import DefinitionError
from tuner.reading.statement import Statement

LUA = "_by_lua_block"
"""Suffix of OpenResty's directives that hold Lua between braces."""
_BLANK = " \t\r\n"
_ENDS = f"{_BLANK};{{"
_LUA = re.compile(
    # Long comments and strings, comments, quoted strings, braces.
    r"""(?:--)?\[(=*)\[.*?\]\1\] | --[^\n]* | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | [{}]""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\([\"'\\])")


@dataclass(frozen=True, slots=True)
class Token:
    """A word, or a separator between words."""

    kind: str
    """``word``, ``;``, ``{``, ``}``, or ``lua`` for Lua with its braces."""
    text: str
    start: int
    end: int


def scan(text: str, path: str = "") -> Iterator[Token]:
    """Yield the words of a file by Nginx's rules (ngx_conf_read_token), comments left out.

    Lua between braces is one token.

    Raises:
        DefinitionError: a quote, or Lua, is not closed.
    """
    at, size, name = 0, len(text), ""
    while at < size:
        char = text[at]
        if char in _BLANK:
            at += 1
        elif char == "#":
            line_end = text.find("\n", at)
            at = size if line_end < 0 else line_end
        elif char == "{" and name.endswith(LUA):
            end = _lua(text, at, path)
            yield Token("lua", text[at:end], at, end)
            at, name = end, ""
        elif char in ";{}":
            yield Token(char, char, at, at + 1)
            at, name = at + 1, ""
        else:
            end = _quoted(text, at, path) if char in "\"'" else _bare(text, at)
            yield Token("word", text[at:end], at, end)
            name = name or text[at:end]
            at = end


def _quoted(text: str, start: int, path: str) -> int:
    at = start + 1
    while at < len(text) and text[at] != text[start]:
        at += 2 if text[at] == "\\" else 1
    if at >= len(text):
        line = text.count("\n", 0, start) + 1
        raise DefinitionError("a quote is opened here and never closed", path=path, line=line)
    return at + 1


def _bare(text: str, start: int) -> int:
    at = start
    # A closing brace in a word, and an opening one after a dollar sign, belong to the word.
    while at < len(text) and text[at] not in _ENDS:
        at += 2 if text[at] == "\\" or text.startswith("${", at) else 1
    return min(at, len(text))


def without_lua(text: str, tokens: Iterable[Token]) -> str:
    """Return a file with blanks between the braces of Lua, so that all else keeps its place."""
    for token in tokens:
        if token.kind == "lua":
            blank = re.sub(r"[^\n]", " ", token.text[1:-1])
            text = f"{text[: token.start]}{{{blank}}}{text[token.end :]}"
    return text


def _lua(text: str, start: int, path: str) -> int:
    """Return the end of Lua between braces, by Lua's rules for strings and comments.

    https://www.lua.org/manual/5.1/manual.html#2.1
    """
    depth, at = 0, start
    while True:
        found = _LUA.search(text, at)
        if found is None:
            line = text.count("\n", 0, start) + 1
            raise DefinitionError("Lua is opened here and never closed", path=path, line=line)
        at = found.end()
        depth += (found[0] == "{") - (found[0] == "}")
        if depth == 0:
            return at


def statements(text: str) -> Iterator[Statement]:
    """Yield the statements of a file, a block's head before its content.

    Raises:
        DefinitionError: the file has Lua between braces, which follows other rules, or a quote
            that is not closed.
    """
    words: list[str] = []
    within: list[tuple[str, ...]] = []
    for token in scan(text):
        if token.kind == "word":
            words.append(_plain(token.text))
            continue
        if words:
            if words[0].endswith(LUA):
                file = words[0].removesuffix("block") + "file"
                raise DefinitionError(
                    f"{words[0]}: Lua between braces is not supported; put it into a file ({file})"
                )
            yield Statement(tuple(words), tuple(within))
        if token.kind == "{":
            within.append(tuple(words))
        elif token.kind == "}" and within:
            within.pop()
        words = []


def _plain(word: str) -> str:
    """Return a word without its quotes and the backslashes that escape quotes."""
    quoted = word[0] in "\"'" and word[-1] == word[0] and len(word) > 1
    return _ESCAPED.sub(r"\1", word[1:-1] if quoted else word)
