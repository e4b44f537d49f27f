r"""Apache's configuration as statements, by the rules of its parser.

A line is a directive; ``\`` at its end joins it with the next one. ``<Name …>`` begins a section,
and ``</Name>`` ends it. Words: ``ap_getword_conf`` in ``server/util.c``.
https://httpd.apache.org/docs/2.4/configuring.html#syntax
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tuner.errors import DefinitionError
from tuner.reading.statement import Statement

_BLANKS = " \t\r\v\f"
"""Characters between words; a line ends with ``\\n``."""


@dataclass(frozen=True, slots=True)
class ApacheLine:
    """One directive, or the head or the end of a section."""

    number: int
    """1-based line at which it begins."""
    words: tuple[str, ...]
    """Words without quotes and escapes; those of a section's head without ``<`` and ``>``."""
    kind: str = ""
    """``<`` for the head of a section, ``</`` for its end, and empty for a directive."""

    @property
    def name(self) -> str:
        """The first word in lower case, since names of directives ignore case."""
        return self.words[0].lower()


def lines(text: str) -> Iterator[ApacheLine]:
    """Yield the lines of a configuration that have words, without comments."""
    number, waiting, first = 0, "", 1
    for line in text.split("\n"):
        number += 1
        first = first if waiting else number
        ended = line.removesuffix("\r")
        if ended.endswith("\\"):
            waiting += ended[:-1] or " "
            continue
        whole, waiting = (waiting + line).strip(_BLANKS), ""
        if found := _line(whole, first):
            yield found
    if found := _line(waiting.strip(_BLANKS), first):
        yield found


def statements(text: str) -> Iterator[Statement]:
    """Yield the statements of a configuration, a section's head before its content.

    Raises:
        DefinitionError: a section ends that is not open, or does not end; with its line.
    """
    within: list[ApacheLine] = []
    for line in lines(text):
        if line.kind == "</":
            if not within or within[-1].name != line.name:
                raise DefinitionError(f"line {line.number}: </{line.words[0]}> ends no section")
            within.pop()
            continue
        yield Statement(line.words, tuple(each.words for each in within))
        if line.kind == "<":
            within.append(line)
    if within:
        raise DefinitionError(f"line {within[-1].number}: <{within[-1].words[0]}> does not end")


def _line(text: str, number: int) -> ApacheLine | None:
    """Return a line without blanks around it; None for an empty one and a comment."""
    if not text or text.startswith("#"):
        return None
    if not text.startswith("<"):
        return ApacheLine(number, _words(text))
    kind = "</" if text.startswith("</") else "<"
    # A section's arguments end at the last ``>`` of its line.
    inside, _, _ = text.removeprefix(kind).rpartition(">")
    return ApacheLine(number, _words(inside) or ("",), kind)


def _words(text: str) -> tuple[str, ...]:
    words = []
    at = 0
    while at < len(text):
        if text[at] in _BLANKS:
            at += 1
            continue
        quote = text[at] if text[at] in "\"'" else ""
        at += len(quote)
        word = ""
        while at < len(text) and not (text[at] == quote if quote else text[at] in _BLANKS):
            # Other backslashes are literal.
            escaped = text[at] == "\\" and text[at + 1 : at + 2] in {"\\", quote or "\\"}
            at += escaped
            word += text[at]
            at += 1
        at += len(quote)
        words.append(word)
    return tuple(words)
