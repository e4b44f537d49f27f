"""A configuration of Apache with its includes, as directives with their sections.

https://httpd.apache.org/docs/2.4/configuring.html
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import DefinitionError
from tuner.own.files import HERE, Files
from tuner.reading.apache_text import ApacheLine, lines

_MOST_FILES = 1000
_DEEPEST = 20
"""Depth of includes that Apache allows (AP_MAX_INCLUDE_DEPTH in server/config.c)."""
_COMPILED_IN = frozenset(
    ("core", "so", "http", "log_config", "logio", "unixd", "version", "watchdog")
)
"""Modules that builds have without `LoadModule`."""
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class ApacheDirective:
    """One directive, or the head of a section."""

    file: str
    line: int
    words: tuple[str, ...]
    within: tuple[tuple[str, ...], ...] = ()
    """Words of the enclosing sections that are not conditions, outermost first."""

    @property
    def name(self) -> str:
        """Name in lower case."""
        return self.words[0].lower()

    @property
    def first(self) -> str:
        """The first argument in lower case; empty without one."""
        return self.words[1].lower() if len(self.words) > 1 else ""

    @property
    def number(self) -> int | None:
        """The first argument as a number; None if it is none."""
        return int(self.first) if re.fullmatch(r"[0-9]{1,9}", self.first) else None

    def inside(self, section: str) -> bool:
        """Return whether a section of this name, in lower case, encloses it."""
        return any(words[0].lower() == section for words in self.within)


@dataclass(frozen=True, slots=True)
class ApacheTree:
    """The directives of a configuration that apply, in the order in which Apache reads them."""

    file: str
    directives: tuple[ApacheDirective, ...]
    modules: frozenset[str]
    """Modules that it loads, without ``mod_``."""
    texts: Mapping[str, str]
    """Text of each file that it is read from, by path; bytes that are not UTF-8 as lone
    surrogates."""

    def of(self, *names: str) -> Iterator[ApacheDirective]:
        """Yield the directives of these names, in lower case."""
        return (each for each in self.directives if each.name in names)

    def last(self, *names: str) -> ApacheDirective | None:
        """Return the directive that counts where only one can."""
        return next((each for each in reversed(self.directives) if each.name in names), None)


def read(path: str, files: Files = HERE) -> ApacheTree:
    """Read a configuration with all its includes.

    Conditions on modules hold for those that the configuration loads, and on names for those that
    it defines; all others are taken to hold.

    Raises:
        DefinitionError: a file cannot be read, or a section does not end; with its line.
    """
    reading = _Reading(str(Path(path).absolute()), files)
    reading.read(reading.main, ())
    return ApacheTree(path, tuple(reading.found), frozenset(reading.modules), reading.texts)


class _Reading:
    """The state of Apache's reader."""

    def __init__(self, main: str, files: Files) -> None:
        self.main = main
        self.found: list[ApacheDirective] = []
        self.modules: set[str] = set()
        self.texts: dict[str, str] = {}
        self._files = files
        self._root = Path(main).parent
        self._defined: dict[str, str] = {}
        self._count = self._depth = 0

    def read(self, path: str, within: tuple[tuple[str, ...], ...]) -> None:
        """Read a file inside these sections."""
        self._count += 1
        if self._count > _MOST_FILES or self._depth > _DEEPEST:
            message = f"includes more than {_MOST_FILES} files, or deeper than {_DEEPEST} of them"
            raise DefinitionError(message, path=self.main)
        self._depth += 1
        text = self._text(path)
        open_sections: list[tuple[ApacheLine, bool]] = []
        around = within
        for line in lines(text):
            if line.kind == "</":
                if not open_sections or open_sections[-1][0].name != line.name:
                    message = f"</{line.words[0]}> ends no section"
                    raise DefinitionError(message, path=path, line=line.number)
                head, applies = open_sections.pop()
                if applies and not _is_condition(head):
                    around = around[:-1]
                continue
            applies = all(each for _, each in open_sections)
            if line.kind == "<":
                applies = applies and self._holds(line)
                open_sections.append((line, applies))
            if not applies or _is_condition(line):
                continue
            words = tuple(_VARIABLE.sub(self._value, word) for word in line.words)
            self.found.append(ApacheDirective(path, line.number, words, around))
            if line.kind == "<":
                around = (*around, words)
            else:
                self._follow(self.found[-1])
        if open_sections:
            head = open_sections[-1][0]
            message = f"<{head.words[0]}> does not end"
            raise DefinitionError(message, path=path, line=head.number)
        self._depth -= 1

    def _text(self, path: str) -> str:
        if path not in self.texts:
            try:
                content = self._files.read(path)
            except OSError as error:
                message = f"cannot be read: {error.strerror}"
                raise DefinitionError(message, path=path) from None
            self.texts[path] = content.decode("utf-8", "surrogateescape")
        return self.texts[path]

    def _value(self, variable: re.Match[str]) -> str:
        return self._defined.get(variable[1], variable[0])

    def _holds(self, line: ApacheLine) -> bool:
        """Return whether the content of a section applies."""
        if not _is_condition(line) or len(line.words) < 2:
            return True
        asked = line.words[1].removeprefix("!")
        known = asked in self._defined if line.name == "ifdefine" else self._has(_module(asked))
        return known != line.words[1].startswith("!")

    def _has(self, module: str) -> bool:
        return module in self.modules or module in _COMPILED_IN

    def _follow(self, directive: ApacheDirective) -> None:
        """Carry out a directive that changes what is read."""
        words = directive.words
        match directive.name:
            case "define" if len(words) > 1:
                self._defined[words[1]] = words[2] if len(words) > 2 else ""
            case "undefine" if len(words) > 1:
                self._defined.pop(words[1], None)
            case "loadmodule" if len(words) > 1:
                self.modules.add(_module(words[1]))
            case "serverroot" if directive.first.startswith("/"):
                self._root = Path(words[1])
            case "include" | "includeoptional" if len(words) > 1:
                for path in self._included(directive):
                    self.read(path, directive.within)
            case _:
                pass

    def _included(self, directive: ApacheDirective) -> list[str]:
        pattern = directive.words[1]
        if "${" in pattern:
            return []
        path = str(self._root / pattern)
        found = self._files.matches(path)
        if not glob.has_magic(path):
            # A name is matched only if it is a file's; of a folder all files below it are read.
            found = found or self._below(path)
            if not found and directive.name == "include":
                message = f"Include {pattern}: no such file"
                raise DefinitionError(message, path=directive.file, line=directive.line)
            return found
        return [file for match in found for file in self._below(match) or [match]]

    def _below(self, folder: str) -> list[str]:
        """Return the files below a folder in order; none for a file."""
        inside = self._files.matches(f"{glob.escape(folder)}/*")
        return [file for path in inside for file in self._below(path) or [path]]


def _is_condition(line: ApacheLine) -> bool:
    return line.kind == "<" and line.name in {"ifmodule", "ifdefine"}


def _module(name: str) -> str:
    """Return ``ssl`` for ``ssl_module`` and ``mod_ssl.c``."""
    plain = name.removesuffix(".c").removeprefix("mod_")
    return re.sub(r"_module$", "", plain)
