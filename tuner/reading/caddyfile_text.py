"""A Caddyfile as nested lines of words, by the rules of Caddy's lexer.

https://github.com/caddyserver/caddy/blob/master/caddyconfig/caddyfile/lexer.go
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tuner.errors import DefinitionError
from tuner.reading.statement import Statement

_HEREDOC = re.compile(r"<<([A-Za-z0-9_-]+)\r?\n")


@dataclass(frozen=True, slots=True)
class Word:
    """One word, quotes included, with offsets of characters."""

    text: str
    start: int
    end: int

    @property
    def plain(self) -> str:
        """The text without its quotes."""
        quoted = len(self.text) > 1 and self.text[0] in '"`' and self.text[-1] == self.text[0]
        return self.text[1:-1] if quoted else self.text


@dataclass(frozen=True, slots=True)
class Line:
    """A line's words, and the lines of the block that it opens."""

    words: tuple[Word, ...]
    """The words before the brace; empty for the block of global options."""
    number: int
    """1-based line number in its file."""
    opened: Word | None = None
    """The ``{``."""
    closed: Word | None = None
    """The ``}``."""
    lines: tuple[Line, ...] = ()

    @property
    def name(self) -> str:
        """The first word; empty for the global options."""
        return self.words[0].plain if self.words else ""

    @property
    def texts(self) -> tuple[str, ...]:
        """The words without their quotes."""
        return tuple(word.plain for word in self.words)


def parse(text: str, path: str = "") -> tuple[Line, ...]:
    """Return the lines of a file, with the lines of blocks nested in them.

    Raises:
        DefinitionError: a brace or a quote is not closed.
    """
    rows = list(_rows(text, path))
    lines, rest = _block(rows, 0, path, depth=0)
    if rest < len(rows):
        raise DefinitionError("this brace does not close a block", path=path, line=rows[rest][0])
    return tuple(lines)


def _rows(text: str, path: str) -> Iterator[tuple[int, list[Word]]]:
    """Yield number and words of every line that is not empty."""
    row: list[Word] = []
    number = 1
    last = 0
    for word in _scan(text, path):
        between = text[last : word.start]
        # A backslash at the end of a line joins it with the next one.
        if row and re.search(r"(?<!\\)\n", between.replace("\r", "")):
            yield number, row
            row = []
        if not row:
            number = text.count("\n", 0, word.start) + 1
        row.append(word)
        last = word.end
    if row:
        yield number, row


def _block(
    rows: Sequence[tuple[int, list[Word]]], start: int, path: str, depth: int
) -> tuple[list[Line], int]:
    """Return the lines of a block, and the row that closes it."""
    lines: list[Line] = []
    index = start
    while index < len(rows):
        number, words = rows[index]
        if words[0].text == "}":
            return lines, index
        if words[-1].text != "{":
            lines.append(Line(tuple(words), number))
            index += 1
            continue
        inner, end = _block(rows, index + 1, path, depth + 1)
        if end >= len(rows):
            raise DefinitionError("a block is opened here and never closed", path=path, line=number)
        closed = rows[end][1][0]
        lines.append(Line(tuple(words[:-1]), number, words[-1], closed, tuple(inner)))
        index = end + 1
    return lines, index


def _scan(text: str, path: str) -> Iterator[Word]:
    start, size = 0, len(text)
    while start < size:
        char = text[start]
        if char.isspace() or text.startswith(("\\\n", "\\\r\n"), start):
            start += 1
        elif char == "#":
            end = text.find("\n", start)
            start = size if end < 0 else end
        else:
            end = _end_of_word(text, start, path)
            yield Word(text[start:end], start, end)
            start = end


def _end_of_word(text: str, start: int, path: str) -> int:
    char = text[start]
    heredoc = _HEREDOC.match(text, start)
    if heredoc:
        closing = re.compile(rf"^[ \t]*{re.escape(heredoc[1])}(?=\s|$)", re.MULTILINE)
        found = closing.search(text, heredoc.end())
        if found is None:
            raise _unclosed(text, start, path)
        return found.end()
    if char in '"`':
        end = start + 1
        while end < len(text) and text[end] != char:
            end += 2 if char == '"' and text[end] == "\\" else 1
        if end >= len(text):
            raise _unclosed(text, start, path)
        return end + 1
    end = start
    while end < len(text) and not text[end].isspace():
        end += 1
    return end


def _unclosed(text: str, start: int, path: str) -> DefinitionError:
    line = text.count("\n", 0, start) + 1
    return DefinitionError("a quote is opened here and never closed", path=path, line=line)


def statements(text: str) -> Iterator[Statement]:
    """Yield the statements of a file, a block's head before its content.

    Raises:
        DefinitionError: a brace or a quote is not closed.
    """
    return _statements(parse(text), ())


def _statements(lines: Sequence[Line], within: tuple[tuple[str, ...], ...]) -> Iterator[Statement]:
    for line in lines:
        yield Statement(line.texts, within)
        yield from _statements(line.lines, (*within, line.texts))
