"""YAML nodes that know their file and line, and are converted on request.

A scalar stays text until a reader asks for a number, a switch or a size. So ``off`` can be a switch
or a word, ``1.1`` can be a version, and the error for a wrong value has its file, its line, and
the allowed values.

Only plain YAML is accepted: no tags, no anchors, no second document, no duplicate keys.
"""

from __future__ import annotations

import contextlib
import difflib
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import yaml

from tuner.errors import DefinitionError, quoted
from tuner.reading.inputs import read_input_text

_T = TypeVar("_T")
_Word = TypeVar("_Word", bound=str)

_DEEPEST = 32
_NULL = ("", "~", "null", "Null", "NULL")
SWITCH = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}
INTEGER = re.compile(r"[-+]?[0-9]+(_[0-9]+)*")
REAL = re.compile(r"[-+]?([0-9]+(_[0-9]+)*\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
SIZE = re.compile(r"([0-9]+)\s*([kmgKMG]?)")
DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|)")
_SIZE_UNIT = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_DURATION_UNIT = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return ``; did you mean 'backlog'?``, or "" if no name is similar."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def parse_integer(text: str) -> int:
    """Parse ``1000`` or ``1_000``; raise ValueError for anything else."""
    if not INTEGER.fullmatch(text):
        raise ValueError(f"expected an integer, found {quoted(text)}")
    return int(text)


def parse_real(text: str) -> float:
    """Parse a finite decimal number; raise ValueError for anything else."""
    if not REAL.fullmatch(text):
        raise ValueError(f"expected a number, found {quoted(text)}")
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"expected a finite number, found {quoted(text)}")
    return value


def parse_share(text: str) -> float:
    """Parse ``3%`` or ``0.03`` into a share; raise ValueError for anything else."""
    number, percent, rest = text.partition("%")
    if rest.strip():
        raise ValueError(f"expected a share such as 3% or 0.03, found {quoted(text)}")
    value = parse_real(number.strip() if percent else text)
    return value / 100 if percent else value


def parse_size(text: str) -> int:
    """Parse a size in bytes; ``k``, ``m``, ``g`` are powers of 1024. Raise ValueError if wrong."""
    match = SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"expected a size such as 512, 64k or 2m, found {quoted(text)}")
    return int(match[1]) * _SIZE_UNIT[match[2].lower()]


def format_size(size_bytes: int) -> str:
    """Format a size for ``parse_size`` in its shortest form: ``64k``."""
    for unit, letter in ((1 << 20, "m"), (1 << 10, "k")):
        if size_bytes and size_bytes % unit == 0:
            return f"{size_bytes // unit}{letter}"
    return str(size_bytes)


def parse_duration_s(text: str) -> float:
    """Parse a duration (``ms``, ``s``, ``m``, ``h``) into seconds; raise ValueError if wrong."""
    match = DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"expected a duration such as 90s or 10m, found {quoted(text)}")
    return float(match[1]) * _DURATION_UNIT[match[2]]


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a file: text, a list of nodes, or a mapping of names to nodes."""

    path: str
    """The file, or the option (``--time``) with the value."""
    line: int | None
    """1-based; None for options."""
    key: str
    """Name of the node in messages: its key in the mapping above."""
    content: str | tuple[Node, ...] | Mapping[str, Node]
    plain: bool = True
    """False for quoted text, which is never null."""

    @classmethod
    def option(cls, name: str, value: object) -> Node:
        """Return a node for a value from the command line."""
        path = f"--{name.replace('_', '-')}"
        if isinstance(value, str):
            # An option's empty text is a value, not null.
            return cls(path, None, "", value, plain=False)
        if isinstance(value, Sequence):
            return cls(path, None, "", tuple(cls.option(name, item) for item in value))
        return cls(path, None, "", str(value))

    def error(self, message: str) -> DefinitionError:
        """Return an error with the file and line of this node."""
        where = f"{self.key}: " if self.key else ""
        return DefinitionError(where + message, path=self.path, line=self.line)

    @property
    def is_null(self) -> bool:
        """True if the node has no value."""
        return self.plain and isinstance(self.content, str) and self.content in _NULL

    def mapping(
        self, required: Collection[str] = (), optional: Collection[str] = ()
    ) -> dict[str, Node]:
        """Return nodes by key; exactly the given keys are allowed. Optional ones may be null.

        Raises:
            DefinitionError: the node is not a mapping, or has an unknown or missing key.
        """
        entries = self.entries()
        known = (*required, *optional)
        for key, node in entries.items():
            if key not in known:
                hint = did_you_mean(key, known) or f"; allowed: {', '.join(known)}"
                raise DefinitionError(
                    f"unknown key {quoted(key)}{hint}", path=node.path, line=node.line
                )
        for key in required:
            if key not in entries or entries[key].is_null:
                raise self.error(f"{key!r} is missing")
        return {key: node for key, node in entries.items() if not node.is_null}

    def entries(self) -> dict[str, Node]:
        """Return nodes by key, in the order of the file."""
        if not isinstance(self.content, Mapping):
            raise self.error(f"expected a mapping, found {self._found()}")
        return dict(self.content)

    def sequence(self) -> tuple[Node, ...]:
        """Return the list's nodes."""
        if not isinstance(self.content, tuple):
            raise self.error(f"expected a list, found {self._found()}")
        return self.content

    def text(self) -> str:
        """Return the text of the file."""
        if not isinstance(self.content, str) or self.is_null:
            raise self.error(f"expected text, found {self._found()}")
        return self.content

    def one_of(self, allowed: Collection[_Word]) -> _Word:
        """Return the text if it is one of ``allowed``."""
        text = self.text()
        for word in allowed:
            if word == text:
                return word
        raise self.error(f"{quoted(text)} is not allowed; allowed: {', '.join(allowed)}")

    def boolean(self) -> bool:
        """Return a switch: true, false, on, off, yes or no."""
        value = SWITCH.get(self.text().lower())
        if value is None:
            raise self.error(f"expected on or off, found {quoted(self.text())}")
        return value

    def integer(self, low: int, high: int) -> int:
        """Return an integer from ``low`` to ``high``."""
        value = self._parsed(parse_integer)
        if not low <= value <= high:
            raise self.error(f"{value} is out of range; allowed: {low} to {high}")
        return value

    def real(self, low: float, high: float) -> float:
        """Return a number from ``low`` to ``high``."""
        value = self._parsed(parse_real)
        if not low <= value <= high:
            raise self.error(f"{value:,.12g} is out of range; allowed: {low:,.12g} to {high:,.12g}")
        return value

    def share(self, low: float, high: float) -> float:
        """Return a share from ``low`` to ``high``, written as ``3%`` or ``0.03``."""
        value = self._parsed(parse_share)
        if not low <= value <= high:
            raise self.error(
                f"{quoted(self.text())} is out of range; allowed: {100 * low:g}% to {100 * high:g}%"
            )
        return value

    def size(self, low: int, high: int) -> int:
        """Return a size from ``low`` to ``high``, bytes."""
        value = self._parsed(parse_size)
        if not low <= value <= high:
            raise self.error(f"{value} bytes is out of range; allowed: {low} to {high}")
        return value

    def duration_s(self, low: float, high: float) -> float:
        """Return a duration from ``low`` to ``high``, seconds."""
        value = self._parsed(parse_duration_s)
        if not low <= value <= high:
            words = " to ".join(map(_duration, (low, high)))
            raise self.error(f"{_duration(value)} is out of range; allowed: {words}")
        return value

    def _parsed(self, parse: Callable[[str], _T]) -> _T:
        try:
            return parse(self.text())
        except ValueError as error:
            raise self.error(str(error)) from None

    def _found(self) -> str:
        if self.is_null:
            return "nothing"
        if isinstance(self.content, str):
            return quoted(self.content)
        return "a list" if isinstance(self.content, tuple) else "a mapping"


def read_yaml(path: Path) -> Node:
    """Read a file of one YAML document.

    Raises:
        DefinitionError: the file cannot be read, or is not plain YAML.
    """
    return parse_yaml(read_input_text(path), str(path))


def parse_yaml(text: str, path: str) -> Node:
    """Read a text of one YAML document; ``path`` names it in messages.

    Raises:
        DefinitionError: the text is not plain YAML.
    """
    builder = _Builder(path)
    # The parser in C takes a tenth of the time. Not every PyYAML has it; messages are the other's.
    with contextlib.suppress(AttributeError, UnicodeError, yaml.YAMLError):
        return builder.document(yaml.parse(text, Loader=yaml.CSafeLoader))
    try:
        # The scanner runs on demand, so its errors surface here too.
        return builder.document(yaml.parse(text, Loader=_PlainLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        raise DefinitionError(f"is not YAML: {error.problem}", path=path, line=line) from None
    except yaml.YAMLError as error:
        reason = getattr(error, "reason", None) or str(error)
        raise DefinitionError(f"is not YAML: {reason}", path=path) from None


class _PlainLoader(yaml.SafeLoader):
    r"""PyYAML's loader in Python, which refuses the escapes that the one in C refuses.

    By itself it gives ``\U00110000`` to ``chr``, and takes half of a surrogate pair for text.
    """

    def scan_flow_scalar_non_spaces(
        self,
        double: bool,  # noqa: FBT001 - as in PyYAML
        start_mark: yaml.Mark,
    ) -> list[str]:
        """Return the next characters of a quoted text."""
        mark = self.get_mark()
        problem = "an escape that is not a Unicode character"
        try:
            chunks: list[str] = super().scan_flow_scalar_non_spaces(double, start_mark)
        except (ValueError, OverflowError):
            raise yaml.scanner.ScannerError(None, None, problem, mark) from None
        if any("\ud800" <= letter <= "\udfff" for chunk in chunks for letter in chunk):
            raise yaml.scanner.ScannerError(None, None, problem, mark)
        return chunks


class _Builder:
    """A builder of nodes from PyYAML's events, which still show duplicate keys."""

    def __init__(self, path: str) -> None:
        self.path = path

    def document(self, events: Iterator[yaml.Event]) -> Node:
        root: Node | None = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    raise self._error(event, "a second document; a file holds one document")
                root = self._node(next(events), events, "", 0)
        # An empty file is an empty document.
        return root or Node(self.path, 1, "", "")

    def _node(self, event: yaml.Event, events: Iterator[yaml.Event], key: str, depth: int) -> Node:
        if depth > _DEEPEST:
            raise self._error(event, f"nested more than {_DEEPEST} deep")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise self._error(
                event, "anchors and aliases are not allowed here; write out the value"
            )
        if getattr(event, "tag", None) is not None:
            raise self._error(event, "tags are not allowed here; leave the tag out")
        line = _line(event)
        if isinstance(event, yaml.ScalarEvent):
            return Node(self.path, line, key, event.value, plain=not event.style)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Node] = []
            while not isinstance(item := next(events), yaml.SequenceEndEvent):
                items.append(self._node(item, events, key, depth + 1))
            return Node(self.path, line, key, tuple(items))
        entries: dict[str, Node] = {}
        while not isinstance(item := next(events), yaml.MappingEndEvent):
            name = self._node(item, events, key, depth + 1)
            if not isinstance(name.content, str):
                raise self._error(item, "a key must be text")
            if name.content in entries:
                first = entries[name.content].line
                raise self._error(
                    item, f"{quoted(name.content)} is given twice; first in line {first}"
                )
            value = self._node(next(events), events, name.content, depth + 1)
            entries[name.content] = value
        return Node(self.path, line, key, entries)

    def _error(self, event: yaml.Event, message: str) -> DefinitionError:
        return DefinitionError(message, path=self.path, line=_line(event))


def _duration(seconds: float) -> str:
    """Return a duration in the largest unit without a fraction: ``720 h``, ``90 s``, ``0.5 s``."""
    for scale, unit in ((3600, "h"), (60, "min")):
        if seconds and seconds % scale == 0:
            return f"{seconds // scale:,.0f} {unit}"
    return f"{seconds:,.12g} s"


def _line(event: yaml.Event) -> int | None:
    return None if event.start_mark is None else event.start_mark.line + 1
