"""The part of Envoy's configuration that a workload reaches: a listener, its routes and clusters.

https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/listeners/listeners
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import yaml

from tuner.errors import DefinitionError
from tuner.own.envoy.tree import EnvoyFile, FieldPath

_LISTENERS: FieldPath = ("static_resources", "listeners")
_CLUSTERS: FieldPath = ("static_resources", "clusters")


@dataclass(frozen=True, slots=True)
class EnvoyManager:
    """An HTTP connection manager with the listener and the chain of filters that hold it."""

    listener: FieldPath
    chain: FieldPath
    at: FieldPath


@dataclass(frozen=True, slots=True)
class EnvoyServing:
    """The parts that a workload reaches, as paths that a change of other fields does not move."""

    tree: EnvoyFile
    manager: EnvoyManager
    """The manager of requests over TCP."""
    over_quic: tuple[EnvoyManager, ...]
    """The managers of requests over HTTP/3 at the same port."""
    clusters: tuple[FieldPath, ...]
    """The clusters that the manager's routes name."""

    @property
    def managers(self) -> tuple[EnvoyManager, ...]:
        """All managers."""
        return (self.manager, *self.over_quic)

    def reread(self, tree: EnvoyFile) -> EnvoyServing:
        """Return the same parts of a changed configuration."""
        return replace(self, tree=tree)


def serving(tree: EnvoyFile, *, name: str = "", tls: bool, proxied: bool) -> EnvoyServing:
    """Return what a workload reaches.

    Args:
        tree: the configuration.
        name: name of the listener, of its chain of filters or of the host that clients ask for;
            empty for the first that answers.
        tls: whether the workload asks over TLS.
        proxied: whether it needs a proxy.

    Raises:
        DefinitionError: no listener answers it.
    """
    if not proxied:
        raise DefinitionError(
            "Envoy serves no files; name a workload with a backend: --workload proxy",
            path="--workload",
        )
    found = list(_managers(tree))
    if not found:
        raise DefinitionError(
            "has no listener with an HttpConnectionManager in static_resources; what a control"
            " plane or another file adds is not changed",
            path=tree.file,
        )
    if name and not any(name in _names(tree, each) for each in found):
        known = dict.fromkeys(word for each in found for word in _names(tree, each))
        raise DefinitionError(
            f"has no listener {name!r}; it has: {', '.join(known) or 'none with a name'}",
            path=tree.file,
        )
    fitting = [
        each
        for each in found
        if (not name or name in _names(tree, each))
        and not _is_quic(tree, each)
        and ("transport_socket" in tree.keys(each.chain)) == tls
    ]
    if not fitting:
        raise DefinitionError(
            f"has no listener {'over TLS' if tls else 'without TLS'} with an HttpConnectionManager,"
            " as the study's workload needs it",
            path=tree.file,
        )
    manager = fitting[0]
    port = _port(tree, manager)
    quic = (each for each in found if _is_quic(tree, each) and _port(tree, each) == port)
    return EnvoyServing(tree, manager, tuple(quic), tuple(_clusters(tree, manager)))


def _managers(tree: EnvoyFile) -> Iterator[EnvoyManager]:
    for listener in tree.elements(_LISTENERS):
        chains = [*tree.elements((*listener, "filter_chains"))]
        if "default_filter_chain" in tree.keys(listener):
            chains.append((*listener, "default_filter_chain"))
        for chain in chains:
            for each in tree.elements((*chain, "filters")):
                at = (*each, "typed_config")
                if (tree.value((*at, "@type")) or "").endswith(".HttpConnectionManager"):
                    yield EnvoyManager(listener, chain, at)


def _names(tree: EnvoyFile, manager: EnvoyManager) -> tuple[str, ...]:
    """Return the names of a manager's listener and chain, and of the hosts that clients ask for."""
    hosts = tree.elements((*manager.chain, "filter_chain_match", "server_names"))
    paths = ((*manager.listener, "name"), (*manager.chain, "name"), *hosts)
    return tuple(filter(None, map(tree.value, paths)))


def _is_quic(tree: EnvoyFile, manager: EnvoyManager) -> bool:
    return "udp_listener_config" in tree.keys(manager.listener)


def _port(tree: EnvoyFile, manager: EnvoyManager) -> str | None:
    return tree.value((*manager.listener, "address", "socket_address", "port_value"))


def _clusters(tree: EnvoyFile, manager: EnvoyManager) -> Iterator[FieldPath]:
    routes = tree.node((*manager.at, "route_config"))
    names = set(_named_clusters(routes)) if routes else set()
    for cluster in tree.elements(_CLUSTERS):
        if tree.value((*cluster, "name")) in names:
            yield cluster


def _named_clusters(node: yaml.Node) -> Iterator[str]:
    """Yield the clusters to which routes lead, also those with a weight."""
    if isinstance(node, yaml.SequenceNode):
        for each in node.value:
            yield from _named_clusters(each)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == "weighted_clusters":
                yield from _weighted(value)
            elif key.value == "cluster" and isinstance(value, yaml.ScalarNode):
                yield value.value
            else:
                yield from _named_clusters(value)


def _weighted(node: yaml.Node) -> Iterator[str]:
    fields = dict(_pairs(node))
    clusters = fields.get("clusters")
    for each in clusters.value if isinstance(clusters, yaml.SequenceNode) else ():
        name = dict(_pairs(each)).get("name")
        if isinstance(name, yaml.ScalarNode):
            yield name.value


def _pairs(node: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        yield from ((key.value, value) for key, value in node.value)
