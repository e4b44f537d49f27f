"""Caddy's JSON as data that is not changed: places in it, and other trees made of it.

A place is a path of keys and indexes, as the admin API writes it with slashes
(https://caddyserver.com/docs/api).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

Json = Any
"""Value that ``json.loads`` returns."""
JsonPath = tuple[str | int, ...]


class Absent:
    """The type of ``ABSENT``."""


ABSENT: Final = Absent()
"""In the place of a value: nothing stands there."""


def look(tree: Json, place: JsonPath, default: Json = None) -> Json:
    """Return the value at a place; ``default`` if there is none."""
    for key in place:
        if isinstance(tree, Mapping):
            if key not in tree:
                return default
            tree = tree[key]
        elif isinstance(tree, list) and isinstance(key, int) and key < len(tree):
            tree = tree[key]
        else:
            return default
    return tree


def put(tree: Json, place: JsonPath, value: Json) -> Json:
    """Return the tree with another value at a place; objects on the way are made.

    With ``ABSENT`` the key is taken away, and objects that are empty then stay.
    """
    if not place:
        return value
    key, rest = place[0], place[1:]
    if isinstance(key, int):
        return [put(each, rest, value) if i == key else each for i, each in enumerate(tree)]
    inner = tree or {}
    if not rest and value is ABSENT:
        return {name: each for name, each in inner.items() if name != key}
    if value is ABSENT and key not in inner:
        return tree
    return {**inner, key: put(inner.get(key), rest, value)}


def walk(tree: Json, place: JsonPath = ()) -> Iterator[tuple[JsonPath, Json]]:
    """Yield every value with its place, the outer before the inner."""
    yield place, tree
    if isinstance(tree, Mapping):
        for key, inner in tree.items():
            yield from walk(inner, (*place, key))
    elif isinstance(tree, list):
        for index, inner in enumerate(tree):
            yield from walk(inner, (*place, index))


def written(place: JsonPath) -> str:
    """Return ``/apps/http/servers/srv0``."""
    return "/" + "/".join(map(str, place))
