"""A configuration of HAProxy as sections with lines, and changes of its text by line.

https://docs.haproxy.org/2.8/configuration.html#2
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tuner.errors import DefinitionError
from tuner.own.files import HERE, Files
from tuner.own.patch import lines_of
from tuner.reading.haproxy_text import SECTIONS, HaproxyLine, lines

CLIENT_SIDE = frozenset(("frontend", "listen"))
"""Kinds of sections with addresses for clients."""
SERVER_SIDE = frozenset(("backend", "listen"))
"""Kinds of sections with servers."""
PROXIES = CLIENT_SIDE | SERVER_SIDE
_SERVERS = frozenset(("server", "server-template"))


@dataclass(frozen=True, slots=True)
class HaproxySection:
    """One section with its lines."""

    head: HaproxyLine
    lines: tuple[HaproxyLine, ...]
    defaults: HaproxySection | None = None
    """The section of defaults that applies to it."""

    @property
    def kind(self) -> str:
        """``global``, ``frontend``, and so on."""
        return self.head.words[0]

    @property
    def name(self) -> str:
        """Name of a proxy; empty for a section without one."""
        return self.head.words[1] if len(self.head.words) > 1 else ""

    @property
    def label(self) -> str:
        """``frontend www``."""
        return " ".join(self.head.words[:2])

    def own(self, *names: str) -> Iterator[HaproxyLine]:
        """Yield its lines that begin with these words."""
        return (line for line in self.lines if line.words[: len(names)] == names)

    def all(self, *names: str) -> Iterator[HaproxyLine]:
        """Yield the lines that begin with these words, from it or else from its defaults."""
        found = tuple(self.own(*names))
        if found or self.defaults is None:
            yield from found
        else:
            yield from self.defaults.all(*names)

    def has(self, *names: str) -> bool:
        """Return whether it or its defaults have such a line."""
        return next(self.all(*names), None) is not None

    @property
    def servers(self) -> tuple[HaproxyLine, ...]:
        """The lines of its servers."""
        return tuple(line for line in self.lines if line.words[0] in _SERVERS)

    @property
    def serves_http(self) -> bool:
        """True if it is in HTTP mode."""
        return any(line.words[1:2] == ("http",) for line in self.all("mode"))


@dataclass(frozen=True, slots=True)
class HaproxyTree:
    """A configuration as sections."""

    file: str
    """The user's name for it."""
    rows: tuple[str, ...]
    """The lines of its text, with their ends."""
    sections: tuple[HaproxySection, ...]

    @property
    def text(self) -> str:
        """The text of the file."""
        return "".join(self.rows)

    def raw(self, line: HaproxyLine) -> str:
        """Return a line as it stands in the file, without its end."""
        return self.rows[line.number - 1].rstrip("\r\n")

    def indent(self, section: HaproxySection) -> str:
        """Return the blanks with which the lines of a section begin."""
        row = self.raw(section.lines[0]) if section.lines else "    "
        return row[: len(row) - len(row.lstrip())]

    def of(self, *kinds: str) -> Iterator[HaproxySection]:
        """Yield the sections of these kinds."""
        return (each for each in self.sections if each.kind in kinds)

    def globals(self, *names: str) -> Iterator[HaproxyLine]:
        """Yield the lines of the global sections that begin with these words."""
        return (line for each in self.of("global") for line in each.own(*names))

    def bindings(self) -> Iterator[HaproxyLine]:
        """Yield the lines with addresses for clients."""
        return (line for each in self.of(*CLIENT_SIDE) for line in each.own("bind"))


def parse(text: str, file: str) -> HaproxyTree:
    """Return the sections of a configuration, each with the defaults that apply to it.

    Raises:
        DefinitionError: a quote does not end, or a section is missing; at file and line.
    """
    heads: list[HaproxyLine] = []
    inside: dict[int, list[HaproxyLine]] = defaultdict(list)
    for row in lines(text, file):
        if row.section:
            inside[row.section_line].append(row)
        elif row.words[0] in SECTIONS:
            heads.append(row)
    sections: list[HaproxySection] = []
    named: dict[str, HaproxySection] = {}
    latest: HaproxySection | None = None
    for head in heads:
        kind, *words = head.words
        base = named.get(words[-1]) if "from" in words else None
        if kind in PROXIES and "from" not in words:
            base = latest
        section = HaproxySection(head, tuple(inside[head.number]), base)
        sections.append(section)
        if kind == "defaults":
            latest = section
            if words and words[0] != "from":
                named[words[0]] = section
    if not any(section.lines for section in sections):
        raise DefinitionError("has no section such as global or frontend", path=file, line=1)
    return HaproxyTree(file, tuple(lines_of(text)), tuple(sections))


def read(file: str, files: Files = HERE) -> HaproxyTree:
    """Return the configuration of a file.

    Raises:
        DefinitionError: it cannot be read, or is not a configuration; at file and line.
    """
    try:
        text = files.read(file).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise DefinitionError(f"cannot be read: {error.strerror}", path=file) from None
    return parse(text, file)


@dataclass(frozen=True, slots=True)
class LineEdit:
    """A change of one line of a configuration, or a new one after it."""

    number: int
    """1-based line; 0 to insert before the first one."""
    text: str
    """The new line without its end; empty to remove the line."""
    follows: bool = False
    """True to insert the text after the line, which stays."""


def edited(text: str, edits: Iterable[LineEdit]) -> str:
    """Return a text with some lines changed; everything else stays as it is, byte by byte."""
    rows = lines_of(text)
    more: dict[int, list[str]] = defaultdict(list)
    for edit in edits:
        row = rows[max(0, edit.number - 1)]
        end = row[len(row.rstrip("\r\n")) :] or "\n"
        if edit.follows:
            more[edit.number].append(edit.text + end)
        else:
            rows[edit.number - 1] = edit.text + end if edit.text else ""
    for number in sorted(more, reverse=True):
        # A last line may have no end.
        if number and rows[number - 1] and not rows[number - 1].endswith("\n"):
            rows[number - 1] += "\n"
        rows[number:number] = more[number]
    return "".join(rows)
