"""Envoy's configuration as statements: each field of its YAML, within the fields that hold it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tuner.reading.located import Node, parse_yaml
from tuner.reading.statement import Statement

_Within = tuple[tuple[str, ...], ...]


def statements(text: str, path: str = "") -> Iterator[Statement]:
    """Yield a statement for each field; the elements of a list are within the list's field.

    Args:
        text: text of the file.
        path: the file, for messages.

    Raises:
        DefinitionError: the text is not plain YAML; an anchor could bring in what stands elsewhere.
    """
    yield from _fields(parse_yaml(text, path), ())


def _fields(node: Node, within: _Within) -> Iterator[Statement]:
    if isinstance(node.content, tuple):
        for element in node.content:
            yield from _fields(element, within)
    elif isinstance(node.content, Mapping):
        for name, value in node.content.items():
            yield Statement((name, *_scalars(value)), within)
            yield from _fields(value, (*within, (name,)))


def _scalars(node: Node) -> tuple[str, ...]:
    """Return the values of a field that holds no further fields."""
    if isinstance(node.content, str):
        return (node.content,)
    if isinstance(node.content, tuple):
        return tuple(each.content for each in node.content if isinstance(each.content, str))
    return ()
