"""Rules for what stands behind Nginx: connections that are kept, answers that are passed on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tuner.lint.finding import LintFacts
from tuner.lint.nginx_rule import DOCS, Found, NginxRule
from tuner.lint.nginx_scope import ScopedDirective, spots
from tuner.own.nginx.tree import Directive, Tree

_PROXY = DOCS + "http/ngx_http_proxy_module.html#"
_UPSTREAM = DOCS + "http/ngx_http_upstream_module.html#"
_KEPT_BY_DEFAULT = (1, 29, 7)
"""Since then connections to upstreams are kept, over HTTP/1.1, unless a configuration says no."""
_BALANCING = ("least_conn", "ip_hash", "hash", "random", "least_time")
_TARGET = re.compile(r"https?://([^/:$]+|\[[^\]]+\])(?=[/:]|$)")


def _passes(tree: Tree) -> Iterator[tuple[ScopedDirective, Directive | None]]:
    """Yield every ``proxy_pass`` to a name that is known here, with the upstream that it means."""
    named = {
        spot.directive.args[0]: spot.directive
        for spot in spots(tree, "upstream")
        if spot.directive.args
    }
    for spot in spots(tree, "proxy_pass"):
        target = _TARGET.match(spot.directive.args[0]) if spot.directive.args else None
        if target is not None:
            yield spot, named.get(target[1])


def _no_upstream_keepalive(tree: Tree, facts: LintFacts) -> Found:
    for spot, upstream in _passes(tree):
        if upstream is None:
            yield spot.directive, "every request opens a connection to the upstream"
        elif facts.version < _KEPT_BY_DEFAULT and not any(upstream.children("keepalive")):
            yield upstream, "every request opens a connection to the upstream"


def _kept(tree: Tree, facts: LintFacts) -> Iterator[ScopedDirective]:
    """Yield every ``proxy_pass`` whose upstream keeps connections."""
    for spot, upstream in _passes(tree):
        if upstream is None or facts.version >= _KEPT_BY_DEFAULT:
            continue
        if any(one.args != ("0",) for one in upstream.children("keepalive")):
            yield spot


def _old_http(tree: Tree, facts: LintFacts) -> Found:
    for spot in _kept(tree, facts):
        version = spot.one("proxy_http_version")
        if version is None or version.args == ("1.0",):
            yield spot.directive, "the upstream keeps connections, and is spoken to in HTTP/1.0"


def _connection_header(tree: Tree, facts: LintFacts) -> Found:
    for spot in _kept(tree, facts):
        headers = [one for one in spot.all_of("proxy_set_header") if len(one.args) == 2]
        values = [one.args[1] for one in headers if one.args[0].lower() == "connection"]
        # What upgrades WebSockets, a word or a variable, does not ask to close.
        if not values or values[-1].lower() == "close":
            sent = values[-1] if values else "close"
            yield spot.directive, f"the upstream keeps connections, and is sent Connection: {sent}"


def _fastcgi(tree: Tree, _: LintFacts) -> Found:
    kept = {
        spot.directive.args[0]
        for spot in spots(tree, "upstream")
        if spot.directive.args
        and any(one.args != ("0",) for one in spot.directive.children("keepalive"))
    }
    for spot in spots(tree, "fastcgi_pass"):
        if kept.intersection(spot.directive.args) and not spot.has("fastcgi_keep_conn", "on"):
            yield spot.directive, "the upstream keeps connections, and FastCGI is told to close"


def _keepalive_first(tree: Tree, _: LintFacts) -> Found:
    for spot in spots(tree, "upstream"):
        seen: Directive | None = None
        for child in spot.directive.block or ():
            if child.name == "keepalive":
                seen = child
            elif child.name in _BALANCING and seen is not None:
                yield seen, f"keepalive stands before {child.name}, which replaces it"


def _buffering_off(tree: Tree, _: LintFacts) -> Found:
    for spot in spots(tree, "proxy_buffering", "fastcgi_buffering"):
        if spot.directive.args == ("off",):
            yield spot.directive, "answers are passed on only as fast as the client reads"


RULES: tuple[NginxRule, ...] = (
    NginxRule(
        "upstream-without-keepalive",
        "doubtful",
        _no_upstream_keepalive,
        "A connection for each request costs about half of a proxy's throughput where answers are"
        " small",
        "an upstream block with keepalive 32; proxy_http_version 1.1; proxy_set_header"
        ' Connection ""; but a location that upgrades to WebSockets keeps its Connection header',
        _UPSTREAM + "keepalive",
    ),
    NginxRule(
        "upstream-keepalive-http-1.0",
        "wrong",
        _old_http,
        "HTTP/1.0 ends with the connection, so none is ever kept",
        "proxy_http_version 1.1;",
        _PROXY + "proxy_http_version",
    ),
    NginxRule(
        "upstream-keepalive-connection-header",
        "wrong",
        _connection_header,
        "The header asks the upstream to close, so no connection is ever kept; and where an inner"
        " block sets any header, those of the outer one are gone",
        'proxy_set_header Connection ""; in the same block as the other proxy_set_header',
        _UPSTREAM + "keepalive",
    ),
    NginxRule(
        "upstream-keepalive-fastcgi",
        "wrong",
        _fastcgi,
        "The application closes after each answer unless it is told not to, so none is ever kept",
        "fastcgi_keep_conn on;",
        _UPSTREAM + "keepalive",
    ),
    NginxRule(
        "keepalive-before-balancing",
        "wrong",
        _keepalive_first,
        "A balancing method that comes later replaces keepalive",
        "put keepalive last in the upstream",
        _UPSTREAM + "keepalive",
    ),
    NginxRule(
        "buffering-off",
        "doubtful",
        _buffering_off,
        "An upstream is held as long as the slowest client reads",
        "buffering on, and off only where answers are streams",
        _PROXY + "proxy_buffering",
    ),
)
