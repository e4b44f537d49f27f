"""Rules for Envoy's configurations, over the fields of one file.

Each rule names the page of the documentation that it follows. What a control plane adds (xDS) is in
no file, so it is not seen.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tuner.lint.finding import Finding, LintFacts, LintRule, Measurable
from tuner.own.server import OwnConfiguration, OwnOptions
from tuner.reading.inputs import read_input_text
from tuner.reading.located import SWITCH, Node, parse_yaml

_DOCS = "https://www.envoyproxy.io/docs/envoy/latest/"
_EDGE = f"{_DOCS}configuration/best_practices/edge"
_MANAGER = (
    f"{_DOCS}api-v3/extensions/filters/network/http_connection_manager/v3/"
    "http_connection_manager.proto#envoy-v3-api-field-extensions-filters-network-"
    "http-connection-manager-v3-httpconnectionmanager-"
)
_CLUSTER = f"{_DOCS}api-v3/config/cluster/v3/cluster.proto#envoy-v3-api-field-config-cluster-v3-"
_GUARDS = ("rbac.v3.RBAC", "jwt_authn.v3.JwtAuthentication", "ext_authz.v3.ExtAuthz")
"""Filters that decide by a request's path, among other things."""


@dataclass(frozen=True, slots=True)
class EnvoyTree:
    """A configuration as it stands in its file."""

    file: str
    root: Node

    @property
    def fields(self) -> Iterator[tuple[str, Node]]:
        """Yield every field with its name, at any depth."""
        return _walk("", self.root)

    def named(self, name: str) -> Iterator[Node]:
        """Yield the fields of one name; of a list, its elements."""
        for found, node in self.fields:
            if found == name:
                yield from node.content if isinstance(node.content, tuple) else (node,)

    def typed(self, *kinds: str) -> Iterator[Node]:
        """Yield the messages of types that end with one of the names."""
        ends = tuple(f".{kind}" for kind in kinds)
        for _, node in self.fields:
            if (_text(node, "@type") or "").endswith(ends):
                yield node


EnvoyFindings = Iterator[tuple[Node, str]]
EnvoyRule = LintRule[EnvoyTree, Node]

needs_program = False
measurable: Mapping[str, Measurable] = {}


def lint_file(wishes: OwnOptions, facts: LintFacts, program: str) -> tuple[Finding, ...]:  # noqa: ARG001 - the port's
    """Implement ``Rules.lint_file``."""
    return lint(parse(read_input_text(Path(wishes.config)), wishes.config), facts)


def lint_own(own: OwnConfiguration, facts: LintFacts) -> tuple[Finding, ...]:  # noqa: ARG001
    """Implement ``Rules.lint_own``; nothing reads a user's configuration for a study yet."""
    return ()


def parse(text: str, file: str) -> EnvoyTree:
    """Return a configuration.

    Raises:
        DefinitionError: the text is not plain YAML, with its line.
    """
    root = parse_yaml(text, file)
    root.entries()
    return EnvoyTree(file, root)


def lint(tree: EnvoyTree, facts: LintFacts) -> tuple[Finding, ...]:
    """Return the findings of all rules, in the order of the file."""
    found = [
        rule.finding(what, file=tree.file, line=node.line, place=node.key)
        for rule in RULES
        for node, what in rule.check(tree, facts)
    ]
    return tuple(sorted(found, key=lambda each: each.line or 0))


def _walk(name: str, node: Node) -> Iterator[tuple[str, Node]]:
    yield name, node
    if isinstance(node.content, tuple):
        for each in node.content:
            # Elements have no name of their own.
            yield from _walk("", each)
    elif isinstance(node.content, Mapping):
        for key, each in node.content.items():
            yield from _walk(key, each)


def _field(node: Node, *names: str) -> Node | None:
    """Return the field at a path of names; None without it."""
    for name in names:
        found = node.content.get(name) if isinstance(node.content, Mapping) else None
        if found is None:
            return None
        node = found
    return node


def _text(node: Node, *names: str) -> str | None:
    """Return the value at a path of names; None without one."""
    found = _field(node, *names)
    return found.content if found is not None and isinstance(found.content, str) else None


def _is_on(node: Node, *names: str) -> bool:
    return SWITCH.get((_text(node, *names) or "").lower(), False)


def _managers(tree: EnvoyTree) -> Iterator[Node]:
    return tree.typed("HttpConnectionManager")


def _is_local(address: str | None) -> bool:
    try:
        return ipaddress.ip_address(address or "").is_loopback
    except ValueError:
        return address == "localhost"


def _listeners(tree: EnvoyTree) -> Iterator[Node]:
    """Yield the listeners that clients of other hosts can reach."""
    for node in tree.named("listeners"):
        address = _text(node, "address", "socket_address", "address")
        if address is not None and not _is_local(address):
            yield node


def _open_admin(tree: EnvoyTree, _: LintFacts) -> EnvoyFindings:
    for node in tree.named("admin"):
        address = _text(node, "address", "socket_address", "address")
        if address is not None and not _is_local(address):
            yield node, f"the administration interface listens on {address}"


def _no_connection_limit(tree: EnvoyTree, _: LintFacts) -> EnvoyFindings:
    if any(tree.typed("DownstreamConnectionsConfig")):
        return
    if any(name.endswith("global_downstream_max_connections") for name, _ in tree.fields):
        return
    for node in list(_listeners(tree))[:1]:
        yield node, "nothing limits the number of clients' connections"


def _large_buffers(tree: EnvoyTree, _: LintFacts) -> EnvoyFindings:
    for node in _listeners(tree):
        if _field(node, "per_connection_buffer_limit_bytes") is None:
            yield node, "a client's connection buffers 1 MiB in each direction"


def _trusted_addresses(tree: EnvoyTree, _: LintFacts) -> EnvoyFindings:
    for node in _managers(tree):
        trusts = ("xff_num_trusted_hops", "original_ip_detection_extensions")
        if _is_on(node, "use_remote_address") or any(_field(node, each) for each in trusts):
            continue
        yield node, "clients' X-Forwarded-For is believed, and their address not added to it"


def _raw_paths(tree: EnvoyTree, _: LintFacts) -> EnvoyFindings:
    guarded = any(tree.typed(*_GUARDS))
    for node in _managers(tree) if guarded else ():
        if not _is_on(node, "normalize_path"):
            yield node, "paths such as /public/../private reach the rules of access as they are"


def _slow_clients(tree: EnvoyTree, _: LintFacts) -> EnvoyFindings:
    for node in _managers(tree):
        names = ("request_timeout", "request_headers_timeout")
        if not any((_text(node, each) or "0s") not in {"0s", "0"} for each in names):
            yield node, "a client may take any time to send a request's headers"


def _default_breakers(tree: EnvoyTree, _: LintFacts) -> EnvoyFindings:
    for node in tree.named("clusters"):
        if isinstance(node.content, Mapping) and _field(node, "name"):
            breakers = _field(node, "circuit_breakers")
            if breakers is None and _field(node, "load_assignment"):
                yield node, f"cluster {_text(node, 'name')} has the default circuit breakers"


def _connection_per_request(tree: EnvoyTree, _: LintFacts) -> EnvoyFindings:
    for name, node in tree.fields:
        if name == "max_requests_per_connection" and node.content == "1":
            yield node, "each request opens a connection"


def _removed_api(tree: EnvoyTree, _: LintFacts) -> EnvoyFindings:
    for name, node in tree.fields:
        if name == "@type" and isinstance(node.content, str):
            kind = node.content.rpartition("/")[2]
            if ".v2." in kind or ".v2alpha" in kind or kind.startswith("envoy.api.v2"):
                yield node, f"{kind} is a type of the API of version 2"


def _unverified_backends(tree: EnvoyTree, _: LintFacts) -> EnvoyFindings:
    validations = (
        "validation_context",
        "combined_validation_context",
        "validation_context_sds_secret_config",
    )
    for node in tree.typed("UpstreamTlsContext"):
        if not any(_field(node, "common_tls_context", each) for each in validations):
            yield node, "the certificate of the backend is not verified"


def _no_http2(tree: EnvoyTree, _: LintFacts) -> EnvoyFindings:
    for node in tree.typed("DownstreamTlsContext"):
        offered = _field(node, "common_tls_context", "alpn_protocols")
        words = "" if offered is None else " ".join(_values(offered))
        if not {"h2", "h3"} & set(words.replace(",", " ").split()):
            yield node, "HTTP/2 is not offered"


def _values(node: Node) -> Iterator[str]:
    elements = node.content if isinstance(node.content, tuple) else (node,)
    return (each.content for each in elements if isinstance(each.content, str))


RULES: tuple[EnvoyRule, ...] = (
    EnvoyRule(
        "open-admin",
        "wrong",
        _open_admin,
        "It can stop the server and shows certificates and configuration to anybody who reaches it",
        "address 127.0.0.1, or a pipe",
        f"{_DOCS}operations/admin",
    ),
    EnvoyRule(
        "removed-api",
        "wrong",
        _removed_api,
        "Envoy refuses it since 1.18",
        "the type of version 3",
        f"{_DOCS}api/api_supported_versions",
    ),
    EnvoyRule(
        "unverified-backend",
        "wrong",
        _unverified_backends,
        "A host on the way can answer in the backend's place; Envoy verifies nothing by default",
        "a validation_context with trusted_ca",
        f"{_DOCS}intro/arch_overview/security/ssl#certificate-verification",
    ),
    EnvoyRule(
        "believed-addresses",
        "wrong",
        _trusted_addresses,
        "At the edge of a network, clients choose the address that backends and rules see",
        "use_remote_address: true; behind another proxy, xff_num_trusted_hops too",
        f"{_MANAGER}use-remote-address",
    ),
    EnvoyRule(
        "raw-paths",
        "wrong",
        _raw_paths,
        "A rule for a path is passed by with another spelling of it, which the backend understands",
        "normalize_path: true and merge_slashes: true",
        f"{_MANAGER}normalize-path",
    ),
    EnvoyRule(
        "no-request-timeout",
        "costs",
        _slow_clients,
        "A client that sends its request byte by byte holds a connection (Slowloris)",
        "request_headers_timeout: 10s; or request_timeout",
        f"{_MANAGER}request-headers-timeout",
    ),
    EnvoyRule(
        "no-connection-limit",
        "costs",
        _no_connection_limit,
        "Clients can open connections until files or memory run out, as Envoy warns at its start",
        "the resource monitor global_downstream_max_connections of the overload manager",
        f"{_DOCS}configuration/operations/overload_manager/overload_manager",
    ),
    EnvoyRule(
        "large-buffers",
        "costs",
        _large_buffers,
        "The default is for a mesh of services; slow clients at the edge can hold much memory",
        "per_connection_buffer_limit_bytes: 32768",
        _EDGE,
    ),
    EnvoyRule(
        "default-circuit-breakers",
        "costs",
        _default_breakers,
        "Beyond 1024 connections or waiting requests, clients get status 503 from Envoy itself",
        "circuit_breakers with thresholds that the backend can bear",
        f"{_CLUSTER}cluster-circuit-breakers",
    ),
    EnvoyRule(
        "connection-per-request",
        "costs",
        _connection_per_request,
        "A connection for each request costs time and CPU on both hosts",
        "remove max_requests_per_connection, or a higher number",
        f"{_DOCS}api-v3/config/core/v3/protocol.proto#envoy-v3-api-field-config-core-v3-"
        "httpprotocoloptions-max-requests-per-connection",
    ),
    EnvoyRule(
        "no-http2",
        "costs",
        _no_http2,
        "Browsers open six connections with a handshake each instead of one",
        "alpn_protocols: [h2, http/1.1]",
        f"{_DOCS}api-v3/extensions/transport_sockets/tls/v3/common.proto#envoy-v3-api-field-"
        "extensions-transport-sockets-tls-v3-commontlscontext-alpn-protocols",
    ),
)
