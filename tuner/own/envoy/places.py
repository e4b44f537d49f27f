"""Places of Envoy's parameters in a configuration, present or possible.

A setting is one field at a fixed path below the root, a listener, a manager or a cluster.
https://www.envoyproxy.io/docs/envoy/latest/api-v3/api
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from tuner.own.bound import OneParameter, UnplaceableError, agreed, in_bytes
from tuner.own.envoy.serving import EnvoyServing
from tuner.own.envoy.tree import EnvoyFile, FieldPath
from tuner.reading.located import SWITCH

EnvoyPart = Literal[
    "root",
    "listener",
    "every listener",
    "manager",
    "every manager",
    "quic manager",
    "router",
    "cluster",
]
"""``every``: with those of HTTP/3 at the same port."""

_MISSING: Mapping[EnvoyPart, str] = MappingProxyType(
    {
        "quic manager": "no listener of the same port speaks HTTP/3",
        "router": "the connection manager has no router with a typed_config",
        "cluster": "its routes name no cluster of static_resources",
    }
)
_OPTIONS: FieldPath = (
    "typed_extension_protocol_options",
    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
)
_OPTIONS_TYPE = f'"type.googleapis.com/{_OPTIONS[1]}"'
_FORMER = frozenset(
    (
        "common_http_protocol_options",
        "http_protocol_options",
        "http2_protocol_options",
        "upstream_http_protocol_options",
    )
)
"""Fields of a cluster for which ``HttpProtocolOptions`` stands today; Envoy refuses both."""
_SWITCHES = {"on": "true", "off": "false"}


@dataclass(frozen=True, slots=True)
class EnvoyEdit:
    """Another value of a field, which is added if it is missing."""

    path: FieldPath
    value: str
    """In YAML's flow style."""


def edited(tree: EnvoyFile, edits: Iterable[EnvoyEdit]) -> EnvoyFile:
    """Return the changed configuration; one edit may add the field that holds the next."""
    for edit in edits:
        tree = tree.with_value(edit.path, edit.value)
    return tree


def places(serving: EnvoyServing, part: EnvoyPart) -> tuple[FieldPath, ...]:
    """Return the paths of a part.

    Raises:
        UnplaceableError: the configuration has no such part.
    """
    found: tuple[FieldPath, ...] = ()
    match part:
        case "root":
            found = ((),)
        case "listener":
            found = (serving.manager.listener,)
        case "every listener":
            found = tuple(each.listener for each in serving.managers)
        case "manager":
            found = (serving.manager.at,)
        case "every manager":
            found = tuple(each.at for each in serving.managers)
        case "quic manager":
            found = tuple(each.at for each in serving.over_quic)
        case "router":
            found = tuple(_routers(serving))
        case "cluster":
            found = serving.clusters
    if not found:
        raise UnplaceableError(_MISSING[part])
    return found


def _routers(serving: EnvoyServing) -> Iterator[FieldPath]:
    tree = serving.tree
    for manager in serving.managers:
        for each in tree.elements((*manager.at, "http_filters")):
            at = (*each, "typed_config")
            if (tree.value((*at, "@type")) or "").endswith(".router.v3.Router"):
                yield at


def as_read(text: str | None) -> str | None:
    """Return a value of Envoy's in the notation of a space."""
    switch = None if text is None else SWITCH.get(text.lower())
    return text if switch is None else ("on" if switch else "off")


def as_written(text: str) -> str:
    """Return a value of a space as Envoy reads it: sizes are numbers of bytes."""
    return _SWITCHES.get(text, in_bytes(text))


@dataclass(frozen=True, slots=True)
class EnvoyField(OneParameter):
    """A parameter that is one field, in each of its places."""

    part: EnvoyPart
    path: FieldPath
    words: Mapping[str, str] = field(default_factory=dict)
    """Values of the space that are others in YAML."""

    def read(self, scope: EnvoyServing) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        tree, meant = scope.tree, {value: word for word, value in self.words.items()}
        paths = [(*place, *self.path) for place in self._places(scope)]
        texts = [(tree.where(path), tree.value(path)) for path in paths]
        found = ((where, meant.get(text or "", as_read(text))) for where, text in texts)
        return {self.name: agreed(found)}

    def _places(self, scope: EnvoyServing) -> tuple[FieldPath, ...]:
        return places(scope, self.part)

    def edits(self, scope: EnvoyServing, wanted: Mapping[str, str]) -> Iterator[EnvoyEdit]:
        """Implement ``BoundGroup``."""
        word = wanted[self.name]
        value = self.words.get(word, as_written(word))
        for place in self._places(scope):
            yield EnvoyEdit((*place, *self.path), value)


@dataclass(frozen=True, slots=True)
class UpstreamOption(EnvoyField):
    """A parameter of a cluster's ``HttpProtocolOptions``, which are added if they are missing."""

    def _places(self, scope: EnvoyServing) -> tuple[FieldPath, ...]:
        found = places(scope, "cluster")
        for cluster in found:
            former = _FORMER & {*scope.tree.keys(cluster)}
            if former:
                where = scope.tree.where((*cluster, min(former)))
                raise UnplaceableError(f"{where} has {min(former)}, which has other options")
        return tuple((*cluster, *_OPTIONS) for cluster in found)

    def edits(self, scope: EnvoyServing, wanted: Mapping[str, str]) -> Iterator[EnvoyEdit]:
        """Implement ``BoundGroup``; without options a cluster speaks HTTP/1.1."""
        for options in self._places(scope):
            if scope.tree.node(options) is None:
                yield EnvoyEdit((*options, "@type"), _OPTIONS_TYPE)
                yield EnvoyEdit((*options, "explicit_http_config", "http_protocol_options"), "{}")
        yield from EnvoyField.edits(self, scope, wanted)


@dataclass(frozen=True, slots=True)
class Breaker(EnvoyField):
    """A limit of a cluster's circuit breakers, for requests of the usual priority."""

    def _places(self, scope: EnvoyServing) -> tuple[FieldPath, ...]:
        return tuple(self._thresholds(scope.tree, each) for each in places(scope, "cluster"))

    def _thresholds(self, tree: EnvoyFile, cluster: FieldPath) -> FieldPath:
        every = (*cluster, "circuit_breakers", "thresholds")
        found = list(tree.elements(every))
        for each in found:
            if tree.value((*each, "priority")) in (None, "DEFAULT"):
                return each
        if found:
            raise UnplaceableError(f"{tree.where(every)} has no thresholds of the usual priority")
        return (*every, 0)


@dataclass(frozen=True, slots=True)
class ConnectionBalance:
    """The way in which connections are spread over the threads."""

    names = ("connection_balance",)

    def read(self, scope: EnvoyServing) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        path = self._path(scope)
        balance = scope.tree.keys(path)
        if balance not in ((), ("exact_balance",)):
            raise UnplaceableError(f"{scope.tree.where(path)} has another kind of balance")
        return {self.names[0]: "exact" if balance else None}

    def edits(self, scope: EnvoyServing, wanted: Mapping[str, str]) -> Iterator[EnvoyEdit]:
        """Implement ``BoundGroup``."""
        exact = wanted[self.names[0]] == "exact"
        yield EnvoyEdit(self._path(scope), "{exact_balance: {}}" if exact else "null")

    def _path(self, scope: EnvoyServing) -> FieldPath:
        return (*scope.manager.listener, "connection_balance_config")
