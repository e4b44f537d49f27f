"""A configuration of Envoy as fields of YAML, with their places in its text.

A change touches one field; everything else stays as it is, byte by byte.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import yaml

from tuner.errors import DefinitionError
from tuner.own.bound import UnplaceableError
from tuner.own.files import Files
from tuner.reading.located import parse_yaml

FieldPath = tuple[str | int, ...]
"""Names of fields and 0-based places in lists, from the root."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.-]+")
_NULL = "tag:yaml.org,2002:null"


@dataclass(frozen=True, slots=True)
class EnvoyFile:
    """A configuration with its text."""

    file: str
    text: str
    root: yaml.Node

    def node(self, path: FieldPath) -> yaml.Node | None:
        """Return the node at a path; None without one, and for null."""
        found: yaml.Node | None = self.root
        for name in path:
            found = _child(found, name) if found else None
        return None if found is None or found.tag == _NULL else found

    def value(self, path: FieldPath) -> str | None:
        """Return the text of a scalar; None without one.

        Raises:
            UnplaceableError: it is a list, or has fields.
        """
        found = self.node(path)
        if found is None:
            return None
        if not isinstance(found, yaml.ScalarNode):
            raise UnplaceableError(f"{self.where(path)} has no single value")
        return str(found.value)

    def keys(self, path: FieldPath) -> tuple[str, ...]:
        """Return the names of the fields of a field; none for a list or a scalar."""
        found = self.node(path)
        if not isinstance(found, yaml.MappingNode):
            return ()
        return tuple(str(key.value) for key, _ in found.value)

    def elements(self, path: FieldPath) -> Iterator[FieldPath]:
        """Yield the paths of a list's elements; none without a list."""
        found = self.node(path)
        count = len(found.value) if isinstance(found, yaml.SequenceNode) else 0
        return ((*path, place) for place in range(count))

    def where(self, path: FieldPath) -> str:
        """Return ``/etc/envoy/envoy.yaml:12``, of the last node of a path that there is."""
        ends = (self.node(path[:end]) for end in range(len(path), -1, -1))
        found = next((node for node in ends if node), self.root)
        return f"{self.file}:{found.start_mark.line + 1}"

    def with_value(self, path: FieldPath, value: str) -> EnvoyFile:
        """Return the configuration with another value of a field.

        Fields that are missing on the way are added, in the style of the field that holds them.

        Args:
            path: of the field.
            value: in YAML's flow style.

        Raises:
            UnplaceableError: the text has no safe place for it.
        """
        node, depth = self.root, 0
        for name in path:
            child = _child(node, name)
            if child is None:
                break
            node, depth = child, depth + 1
        rest = path[depth:]
        if not rest or node.tag == _NULL:
            start, end = self._span(node, path[:depth])
            new = _flow(rest, value)
            # A field without a value ends with its colon.
            changed = self._spliced(start, end, new if start < end else f" {new}")
        else:
            changed = self._added(node, path[:depth], rest, value)
        return parse(changed, self.file)

    def _span(self, node: yaml.Node, path: FieldPath) -> tuple[int, int]:
        """Return where a node begins and ends in the text."""
        if not _is_inline(node):
            raise UnplaceableError(f"{self.where(path)} goes over several lines")
        return node.start_mark.index, node.end_mark.index

    def _spliced(self, start: int, end: int, text: str) -> str:
        return self.text[:start] + text + self.text[end:]

    def _added(self, node: yaml.Node, path: FieldPath, rest: FieldPath, value: str) -> str:
        """Return the text with a new field in a mapping."""
        name = rest[0]
        if not isinstance(node, yaml.MappingNode) or not isinstance(name, str):
            raise UnplaceableError(f"{self.where(path)} has no field {name}")
        entry = f"{_key(name)}: {_flow(rest[1:], value)}"
        if node.flow_style:
            if not node.value:
                place = node.start_mark.index + 1
                return self._spliced(place, place, entry)
            place = node.value[-1][1].end_mark.index
            return self._spliced(place, place, f", {entry}")
        blanks = " " * node.start_mark.column
        # After the first fields of one line, such as its name or type, and before larger ones.
        short = list(itertools.takewhile(lambda each: _is_inline(each[1]), node.value))
        if not short:
            place = node.start_mark.index
            return self._spliced(place, place, f"{entry}\n{blanks}")
        place = self.text.find("\n", short[-1][1].end_mark.index)
        if place < 0:
            return f"{self.text}\n{blanks}{entry}\n"
        end = "\r\n" if self.text[place - 1] == "\r" else "\n"
        return self._spliced(place + 1, place + 1, f"{blanks}{entry}{end}")


def _child(node: yaml.Node, name: str | int) -> yaml.Node | None:
    if isinstance(name, int):
        is_there = isinstance(node, yaml.SequenceNode) and name < len(node.value)
        return node.value[name] if is_there else None
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for key, value in pairs if key.value == name), None)


def _is_inline(node: yaml.Node) -> bool:
    """Return whether the mark of a node's end is exact: a block lasts until the next token."""
    if isinstance(node, yaml.ScalarNode):
        return node.style not in ("|", ">")
    return isinstance(node, yaml.CollectionNode) and bool(node.flow_style)


def _key(name: str) -> str:
    return name if _PLAIN_KEY.fullmatch(name) else json.dumps(name)


def _flow(path: Iterable[str | int], value: str) -> str:
    """Return a value within the fields and lists of a path, in YAML's flow style."""
    for name in reversed(tuple(path)):
        value = f"[{value}]" if isinstance(name, int) else f"{{{_key(name)}: {value}}}"
    return value


def parse(text: str, file: str) -> EnvoyFile:
    """Return the configuration of a text.

    Raises:
        DefinitionError: it is not plain YAML, with its line.
    """
    parse_yaml(text, file).entries()
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert root is not None  # noqa: S101 - a mapping
    return EnvoyFile(file, text, root)


def read(file: str, files: Files) -> EnvoyFile:
    """Return the configuration of a file.

    Raises:
        DefinitionError: it cannot be read, or is not plain YAML; at file and line.
    """
    if not file.endswith((".yaml", ".yml")):
        raise DefinitionError(
            "has no name of a YAML file, by which Envoy chooses the format", path=file
        )
    try:
        text = files.read(file).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise DefinitionError(f"cannot be read: {error.strerror}", path=file) from None
    return parse(text, file)
