"""HAProxy's configuration as statements, by the rules of its parser.

Quoting, escapes and sections: sections 2.1 and 2.2 of the configuration manual.
https://docs.haproxy.org/2.8/configuration.html#2.2
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tuner.errors import DefinitionError
from tuner.reading.statement import Statement

SECTIONS = frozenset(
    (
        *("global", "defaults", "frontend", "backend", "listen", "fcgi-app", "userlist", "peers"),
        *("resolvers", "mailers", "program", "cache", "http-errors", "ring", "log-forward"),
        *("crt-store", "traces", "log-profile", "acme", "healthcheck"),
    )
)
"""Words at the beginning of a line that begin a section."""
_WITH_OPTIONS = frozenset(("bind", "server", "default-server", "server-template"))
"""Directives with options of their own after the first words."""
_BLANKS = " \t\r\v\f"
_QUOTES = "\"'"
_ESCAPED = {**{char: char for char in " \\#'\""}, "n": "\n", "r": "\r", "t": "\t"}
_HEX = re.compile(r"\\x([0-9a-fA-F]{2})")


@dataclass(frozen=True, slots=True)
class HaproxyLine:
    """One line with words: a section's head, or a directive in it."""

    number: int
    """1-based line."""
    words: tuple[str, ...]
    """Words without quotes and escapes."""
    section: tuple[str, ...] = ()
    """Words of the head of the section that it is in; empty before the first one."""
    section_line: int = 0
    """Line of that head."""


def lines(text: str, path: str = "") -> Iterator[HaproxyLine]:
    """Yield the lines of a configuration that have words.

    Args:
        text: text of the file.
        path: the file, for messages.

    Raises:
        DefinitionError: a quote does not end; at file and line.
    """
    head: tuple[str, ...] = ()
    began = 0
    for number, line in enumerate(text.split("\n"), start=1):
        words = _words(line, path, number)
        if not words:
            continue
        if words[0] in SECTIONS:
            head, began = words, number
            yield HaproxyLine(number, words)
        else:
            yield HaproxyLine(number, words, head, began)


def statements(text: str) -> Iterator[Statement]:
    """Yield the statements of a configuration.

    The words of ``option NAME`` and ``timeout NAME`` are one name, and a leading ``no`` is left
    out. Each option of a ``bind`` or ``server`` line is a statement of its own within that line,
    with the word after it, so that ``ciphers`` is found there too.

    Raises:
        DefinitionError: see ``lines``.
    """
    for line in lines(text):
        if not line.section:
            yield Statement(line.words)
            continue
        within = (line.section,)
        words = line.words[1:] if line.words[0] in {"no", "default"} else line.words
        if words[:1] in (("option",), ("timeout",)):
            words = (" ".join(words[:2]), *words[2:])
        yield Statement(words, within)
        if words[:1] and words[0] in _WITH_OPTIONS:
            for at in range(1, len(words)):
                yield Statement(words[at : at + 2], (*within, words[:1]))


def _words(line: str, path: str, number: int) -> tuple[str, ...]:
    """Return the words of a line, without its comment."""
    words: list[str] = []
    word: list[str] = []
    begun, quote = False, ""
    at = 0
    while at < len(line):
        char = line[at]
        if char == "\\" and quote != "'":
            length, meant = _escape(line[at:], quote)
            word.append(meant)
            begun = True
            at += length
            continue
        at += 1
        if char == quote:
            quote = ""
        elif not quote and char in _QUOTES:
            quote, begun = char, True
        elif not quote and char == "#":
            break
        elif not quote and char in _BLANKS:
            if begun:
                words.append("".join(word))
            word, begun = [], False
        else:
            word.append(char)
            begun = True
    if quote:
        raise DefinitionError(f"the quote {quote} does not end", path=path, line=number)
    if begun:
        words.append("".join(word))
    return tuple(words)


def _escape(rest: str, quote: str) -> tuple[int, str]:
    """Return the length of the escape at the beginning of a text, and what it stands for.

    A backslash before any other character is a backslash (``parse_line`` in ``src/tools.c``).
    """
    following = rest[1:2]
    if following in _ESCAPED:
        return 2, _ESCAPED[following]
    if following == "$" and quote:
        return 2, following
    if found := _HEX.match(rest):
        return found.end(), chr(int(found[1], 16))
    return 1, "\\"
