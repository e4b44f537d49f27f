"""Shapes: what a key of a definition may hold, as data.

A reader converts a node with ``read``, and ``schema`` gives the same limits as JSON Schema
(draft 2020-12) for editors. Scalars of YAML are text until a reader asks for a number, so a schema
accepts each of them in every form that the reader accepts, under YAML 1.1 and 1.2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from tuner.reading.located import (
    DURATION,
    INTEGER,
    REAL,
    SIZE,
    SWITCH,
    Node,
)

Schema = dict[str, Any]
DRAFT = "https://json-schema.org/draft/2020-12/schema"
_Word = TypeVar("_Word", bound=str)


_PLAIN = {"number": "1", "boolean": "true"}
"""Scalars that YAML does not read as text, by their type."""


class Shape(Protocol):
    """A shape of a node."""

    @property
    def about(self) -> str:
        """Sentence for editors; empty without one."""

    def schema(self) -> Schema:
        """Return the JSON schema of the nodes that the reader accepts."""


@dataclass(frozen=True, slots=True)
class AnyText:
    """A scalar, read as text; a pattern applies to the whole text."""

    about: str = ""
    pattern: re.Pattern[str] | None = None
    """For editors; the reader raises an error of its own."""

    def read(self, node: Node) -> str:
        """Return the text."""
        return node.text()

    def schema(self) -> Schema:
        """Return the schema."""
        if self.pattern is None:
            return {"type": ["string", "number", "boolean"]}
        others = [kind for kind, text in _PLAIN.items() if self.pattern.fullmatch(text)]
        return {"type": ["string", *others], **_whole(self.pattern)}


@dataclass(frozen=True, slots=True)
class OneWord(Generic[_Word]):
    """One of several words."""

    allowed: Sequence[_Word]
    about: str = ""

    def read(self, node: Node) -> _Word:
        """Return the word."""
        return node.one_of(self.allowed)

    def schema(self) -> Schema:
        """Return the schema; YAML 1.1 reads some words as switches."""
        switches = [SWITCH[word] for word in self.allowed if word in SWITCH]
        return {"enum": [*self.allowed, *switches]}


@dataclass(frozen=True, slots=True)
class OnOff:
    """A switch: true, false, on, off, yes or no, in any case."""

    about: str = ""

    def read(self, node: Node) -> bool:
        """Return the switch."""
        return node.boolean()

    def schema(self) -> Schema:
        """Return the schema; the words come first, for completion."""
        letters = "|".join("".join(f"[{char.upper()}{char}]" for char in word) for word in SWITCH)
        return {
            "anyOf": [
                {"enum": [*SWITCH, True, False]},
                {"type": "string", "pattern": f"^({letters})$"},
            ]
        }


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer from ``low`` to ``high``."""

    low: int
    high: int
    about: str = ""

    def read(self, node: Node) -> int:
        """Return the integer."""
        return node.integer(self.low, self.high)

    def schema(self) -> Schema:
        """Return the schema."""
        return _number(self.low, self.high, INTEGER, "integer")


@dataclass(frozen=True, slots=True)
class Decimal:
    """A number from ``low`` to ``high``."""

    low: float
    high: float
    about: str = ""

    def read(self, node: Node) -> float:
        """Return the number."""
        return node.real(self.low, self.high)

    def schema(self) -> Schema:
        """Return the schema."""
        return _number(self.low, self.high, REAL)


@dataclass(frozen=True, slots=True)
class Percentage:
    """A share from ``low`` to ``high``, written as ``3%`` or ``0.03``."""

    low: float
    high: float
    about: str = ""

    def read(self, node: Node) -> float:
        """Return the share."""
        return node.share(self.low, self.high)

    def schema(self) -> Schema:
        """Return the schema."""
        return _number(self.low, self.high, re.compile(rf"({REAL.pattern})\s*%?\s*"))


@dataclass(frozen=True, slots=True)
class ByteSize:
    """A size from ``low`` to ``high`` bytes, such as 64k."""

    low: int
    high: int
    about: str = ""

    def read(self, node: Node) -> int:
        """Return the size, bytes."""
        return node.size(self.low, self.high)

    def schema(self) -> Schema:
        """Return the schema."""
        return _number(self.low, self.high, SIZE, "integer")


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A duration from ``low_s`` to ``high_s`` seconds, such as 10m."""

    low_s: float
    high_s: float
    about: str = ""

    def read(self, node: Node) -> float:
        """Return the duration, seconds."""
        return node.duration_s(self.low_s, self.high_s)

    def schema(self) -> Schema:
        """Return the schema."""
        return _number(self.low_s, self.high_s, DURATION)


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of nodes of one shape."""

    item: Shape
    about: str = ""
    at_least: int = 0

    def schema(self) -> Schema:
        """Return the schema."""
        found: Schema = {"type": "array", "items": described(self.item)}
        return found | ({"minItems": self.at_least} if self.at_least else {})


@dataclass(frozen=True, slots=True)
class Either:
    """A node of one of several shapes."""

    shapes: tuple[Shape, ...]
    about: str = ""

    def schema(self) -> Schema:
        """Return the schema."""
        return {"anyOf": [described(shape) for shape in self.shapes]}


@dataclass(frozen=True, slots=True)
class Entries:
    """A mapping with names of the user's own."""

    value: Shape
    about: str = ""
    name: re.Pattern[str] | None = None
    """Pattern of a whole name; None: any."""
    at_least: int = 0

    def schema(self) -> Schema:
        """Return the schema."""
        found: Schema = {"type": "object", "additionalProperties": described(self.value)}
        if self.name:
            found["propertyNames"] = _whole(self.name)
        return found | ({"minProperties": self.at_least} if self.at_least else {})


@dataclass(frozen=True, slots=True)
class Keys:
    """A mapping with a fixed set of keys; optional ones may be null."""

    required: Mapping[str, Shape] = field(default_factory=dict)
    optional: Mapping[str, Shape] = field(default_factory=dict)
    about: str = ""

    def read(self, node: Node) -> dict[str, Node]:
        """Return nodes by key, as ``Node.mapping``."""
        return node.mapping(required=self.required, optional=self.optional)

    def schema(self) -> Schema:
        """Return the schema."""
        properties = {key: described(shape) for key, shape in self.required.items()}
        properties |= {key: _or_null(described(shape)) for key, shape in self.optional.items()}
        found: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        return found | ({"required": list(self.required)} if self.required else {})


def one_or_more(item: Shape, about: str = "") -> Either:
    """Return the shape of one item or a list of them."""
    return Either((item, ListOf(item)), about)


def described(shape: Shape) -> Schema:
    """Return the schema of a shape, with its sentence."""
    return ({"description": shape.about} if shape.about else {}) | shape.schema()


def document(title: str, shape: Shape) -> Schema:
    """Return the schema of a whole file."""
    return {"$schema": DRAFT, "title": title, **described(shape)}


def _number(low: float, high: float, pattern: re.Pattern[str], kind: str = "number") -> Schema:
    """Return the schema of a number, or of text in the reader's notation."""
    return {"type": [kind, "string"], "minimum": low, "maximum": high, **_whole(pattern)}


def _whole(pattern: re.Pattern[str]) -> Schema:
    return {"pattern": f"^({pattern.pattern})$"}


def _or_null(schema: Schema) -> Schema:
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    if "type" in schema:
        kinds = schema["type"]
        return {**schema, "type": [*([kinds] if isinstance(kinds, str) else kinds), "null"]}
    return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
