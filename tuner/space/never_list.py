"""Reader of ``spaces/NAME/_never.yaml``: settings of a server that are never searched.

They concern security, the operator, or the answer itself, or they do harm that a load test does not
show. ``docs/servers.md`` describes the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from tuner.errors import DefinitionError
from tuner.paths import data_dir
from tuner.reading.located import Node, read_yaml

_FILE = "_never.yaml"
_SEPARATOR = re.compile(r"[-._ ]")


@dataclass(frozen=True, slots=True)
class NeverEntry:
    """A directive that no searched value may reach."""

    why: str
    searched: bool
    """True if a parameter of this name may set a part of the directive."""
    unless: tuple[tuple[str, ...], ...] = ()
    """Words after the name with which a directive sets only what parameters may set."""
    unless_inside: tuple[str, ...] = ()
    """Blocks of the directive that parameters may set."""
    options: tuple[str, ...] = ()
    """Prefixes of its arguments that parameters may set."""


@dataclass(frozen=True, slots=True)
class NeverList:
    """One server's list."""

    listed: Mapping[str, NeverEntry]
    """By name."""
    has_variables: bool
    """True if the server's language has variables (``$name``)."""
    variables: Mapping[str, str]
    """Variables that have the effect of a listed directive when set, with its name."""
    by_plain_name: Mapping[str, NeverEntry] = field(default_factory=dict)
    """The same entries by ``plain_name``."""

    def entry(self, name: str) -> NeverEntry | None:
        """Return the entry of a parameter or a directive; None if it is not listed.

        Case and what separates words make no difference: the parameter ``tune_maxrewrite`` stands
        for ``tune.maxrewrite``, and ``ssl_protocol`` for ``SSLProtocol``.
        """
        return self.by_plain_name.get(plain_name(name))


def plain_name(name: str) -> str:
    """Return a name without what parameters and directives write differently."""
    return _SEPARATOR.sub("", name.lower())


@cache
def never_list(server: str) -> NeverList:
    """Return the list of one server; empty if it has none, or for an unknown server.

    Raises:
        DefinitionError: the file is wrong, with its line.
    """
    file = data_dir("spaces") / server / _FILE
    if not file.is_file():
        return NeverList({}, has_variables=False, variables={})
    keys = read_yaml(file).mapping(required=("never",), optional=("text", "variables"))
    listed: dict[str, NeverEntry] = {}
    for section in ("never", "text"):
        for node in keys[section].sequence() if section in keys else ():
            for name, found in _listed(node, searched=section == "text"):
                if name in listed:
                    message = f"{name!r} is listed twice"
                    raise DefinitionError(message, path=node.path, line=node.line)
                listed[name] = found
    entries = keys["variables"].entries() if "variables" in keys else {}
    variables = {name: node.one_of(tuple(listed)) for name, node in entries.items()}
    plain = {plain_name(name): found for name, found in listed.items()}
    return NeverList(listed, "variables" in keys, variables, plain)


def _listed(node: Node, *, searched: bool) -> Iterator[tuple[str, NeverEntry]]:
    keys = node.mapping(required=("why", "names"), optional=("unless", "unless_inside", "options"))

    def texts(key: str) -> tuple[str, ...]:
        return tuple(each.text() for each in keys[key].sequence()) if key in keys else ()

    found = NeverEntry(
        why=keys["why"].text(),
        searched=searched,
        unless=tuple(tuple(text.split()) for text in texts("unless")),
        unless_inside=texts("unless_inside"),
        options=texts("options"),
    )
    return ((name, found) for name in texts("names"))
