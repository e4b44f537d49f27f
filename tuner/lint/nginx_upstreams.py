"""Rules for Nginx's upstreams: kept connections, and forwarded answers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tuner.lint.finding import LintFacts
from tuner.lint.nginx_rule import DOCS, NginxFindings, NginxRule
from tuner.lint.nginx_scope import ScopedDirective, spots
from tuner.own.nginx.tree import Directive, Tree

_PROXY = DOCS + "http/ngx_http_proxy_module.html#"
_UPSTREAM = DOCS + "http/ngx_http_upstream_module.html#"
_KEPT_BY_DEFAULT = (1, 29, 7)
"""First version that keeps connections to upstreams, over HTTP/1.1, by default."""
_BALANCING = ("least_conn", "ip_hash", "hash", "random", "least_time")
_TARGET = re.compile(r"https?://([^/:$]+|\[[^\]]+\])(?=[/:]|$)")


def _passes(tree: Tree) -> Iterator[tuple[ScopedDirective, Directive | None]]:
    """Yield every ``proxy_pass`` to a known name, with its upstream."""
    named = {
        spot.directive.args[0]: spot.directive
        for spot in spots(tree, "upstream")
        if spot.directive.args
    }
    for spot in spots(tree, "proxy_pass"):
        target = _TARGET.match(spot.directive.args[0]) if spot.directive.args else None
        if target is not None:
            yield spot, named.get(target[1])


def _no_upstream_keepalive(tree: Tree, facts: LintFacts) -> NginxFindings:
    for spot, upstream in _passes(tree):
        if _upgrades(tree, spot):
            continue
        if upstream is None:
            yield spot.directive, "every request opens a connection to the upstream"
        elif facts.version < _KEPT_BY_DEFAULT and not any(upstream.children("keepalive")):
            yield upstream, "every request opens a connection to the upstream"


def _upgrades(tree: Tree, spot: ScopedDirective) -> bool:
    """Return whether a location is for WebSockets, which keep their connection to themselves."""
    values = [
        one.args[1].lower()
        for one in spot.all_of("proxy_set_header")
        if len(one.args) == 2 and one.args[0].lower() == "connection"
    ]
    mapped = {
        found.args[1].lower()
        for found in tree.walk()
        if found.name == "map" and found.args[:1] == ("$http_upgrade",) and len(found.args) > 1
    }
    return bool(values) and ("upgrade" in values[-1] or values[-1] in mapped)


def _no_grpc_keepalive(tree: Tree, facts: LintFacts) -> NginxFindings:
    named = {spot.directive.args[:1]: spot.directive for spot in spots(tree, "upstream")}
    for spot in spots(tree, "grpc_pass"):
        target = spot.directive.args[0].partition("://") if spot.directive.args else ("", "", "")
        name = (target[2] or target[0]).partition("/")[0]
        upstream = named.get((name,))
        if "$" in name or facts.version >= _KEPT_BY_DEFAULT:
            continue
        if upstream is None or not any(True for _ in upstream.children("keepalive")):
            yield upstream or spot.directive, "every gRPC call opens an HTTP/2 connection"


def _kept(tree: Tree, facts: LintFacts) -> Iterator[ScopedDirective]:
    """Yield every ``proxy_pass`` to an upstream that keeps connections."""
    for spot, upstream in _passes(tree):
        if upstream is None or facts.version >= _KEPT_BY_DEFAULT:
            continue
        if any(one.args != ("0",) for one in upstream.children("keepalive")):
            yield spot


def _old_http(tree: Tree, facts: LintFacts) -> NginxFindings:
    for spot in _kept(tree, facts):
        version = spot.one("proxy_http_version")
        if version is None or version.args == ("1.0",):
            yield spot.directive, "the upstream keeps connections, but requests to it use HTTP/1.0"


def _connection_header(tree: Tree, facts: LintFacts) -> NginxFindings:
    for spot in _kept(tree, facts):
        headers = [one for one in spot.all_of("proxy_set_header") if len(one.args) == 2]
        values = [one.args[1] for one in headers if one.args[0].lower() == "connection"]
        # A word or a variable for upgrades to WebSockets does not request a close.
        if not values or values[-1].lower() == "close":
            sent = values[-1] if values else "close"
            yield (
                spot.directive,
                f"the upstream keeps connections, but requests to it have Connection: {sent}",
            )


def _fastcgi(tree: Tree, _: LintFacts) -> NginxFindings:
    kept = {
        spot.directive.args[0]
        for spot in spots(tree, "upstream")
        if spot.directive.args
        and any(one.args != ("0",) for one in spot.directive.children("keepalive"))
    }
    for spot in spots(tree, "fastcgi_pass"):
        if kept.intersection(spot.directive.args) and not spot.has("fastcgi_keep_conn", "on"):
            yield (
                spot.directive,
                "the upstream keeps connections, but FastCGI requests ask for a close",
            )


def _keepalive_first(tree: Tree, _: LintFacts) -> NginxFindings:
    for spot in spots(tree, "upstream"):
        seen: Directive | None = None
        for child in spot.directive.block or ():
            if child.name == "keepalive":
                seen = child
            elif child.name in _BALANCING and seen is not None:
                yield seen, f"keepalive comes before {child.name}, which replaces it"


def _buffering_off(tree: Tree, _: LintFacts) -> NginxFindings:
    for spot in spots(tree, "proxy_buffering", "fastcgi_buffering"):
        if spot.directive.args == ("off",):
            yield spot.directive, "answers are forwarded only as fast as the client reads"


RULES: tuple[NginxRule, ...] = (
    NginxRule(
        "upstream-without-keepalive",
        "costs",
        _no_upstream_keepalive,
        "A connection for each request costs about half of a proxy's throughput where answers are"
        " small",
        "an upstream block with keepalive 32; proxy_http_version 1.1; proxy_set_header"
        ' Connection ""; but a location that upgrades to WebSockets keeps its Connection header',
        _UPSTREAM + "keepalive",
    ),
    NginxRule(
        "grpc-without-keepalive",
        "costs",
        _no_grpc_keepalive,
        "A connection for each call costs a handshake, under TLS a second one",
        "an upstream block with keepalive 32;",
        _UPSTREAM + "keepalive",
    ),
    NginxRule(
        "upstream-keepalive-http-1.0",
        "wrong",
        _old_http,
        "HTTP/1.0 closes connections, so none is kept",
        "proxy_http_version 1.1;",
        _PROXY + "proxy_http_version",
    ),
    NginxRule(
        "upstream-keepalive-connection-header",
        "wrong",
        _connection_header,
        "The header asks the upstream to close, so no connection is kept. If an inner block sets"
        " any header, it does not inherit the outer ones",
        'proxy_set_header Connection ""; in the same block as the other proxy_set_header',
        _UPSTREAM + "keepalive",
    ),
    NginxRule(
        "upstream-keepalive-fastcgi",
        "wrong",
        _fastcgi,
        "By default the application closes after each answer, so no connection is kept",
        "fastcgi_keep_conn on;",
        _UPSTREAM + "keepalive",
    ),
    NginxRule(
        "keepalive-before-balancing",
        "wrong",
        _keepalive_first,
        "A later balancing method replaces keepalive",
        "put keepalive last in the upstream",
        _UPSTREAM + "keepalive",
    ),
    NginxRule(
        "buffering-off",
        "costs",
        _buffering_off,
        "An upstream is occupied for as long as the slowest client reads",
        "buffering on, and off only where answers are streams",
        _PROXY + "proxy_buffering",
    ),
)
