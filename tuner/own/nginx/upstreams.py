"""Kept connections to upstreams, in a configuration that may not mention them.

Three settings are needed: ``keepalive`` in an ``upstream`` block, HTTP/1.1, and a ``Connection``
header that does not ask for a close
(https://nginx.org/en/docs/http/ngx_http_upstream_module.html#keepalive). WebSockets, which need the
header, and the address that a backend sees must stay unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tuner.own.bound import FixedValue, UnplaceableError
from tuner.own.nginx.edits import Edit, Insert, Set
from tuner.own.nginx.locations import effective, innermost
from tuner.own.nginx.places import (
    DirectiveSpot,
    NginxScope,
    Plain,
    agreed,
    removed,
    spots,
)
from tuner.own.nginx.serving import NginxServing
from tuner.own.nginx.tree import Directive

KEEPS_CONNECTIONS = (1, 29, 7)
"""First version of Nginx that keeps connections to upstreams by default."""
_MORE_REQUESTS = (1, 19, 10)
_VERSION, _COUNT = "proxy_http_version", "upstream_keepalive"
_IN_BLOCK = {
    _COUNT: "keepalive",
    "upstream_keepalive_requests": "keepalive_requests",
    "upstream_keepalive_timeout": "keepalive_timeout",
}
_OF_ADDRESS = ("$proxy_host", "$proxy_port")
"""Variables with the text of ``proxy_pass``, which an upstream block changes."""


@dataclass(frozen=True, slots=True)
class KeptUpstreams:
    """``keepalive`` with its settings, and the HTTP version for the upstream.

    An address in ``proxy_pass`` gets its own upstream block. The headers and redirects that Nginx
    derives from the address are then set explicitly.
    """

    names: tuple[str, ...] = (_VERSION, *_IN_BLOCK)

    def read(self, scope: NginxScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        places = [_Place.of(scope.serving, spot) for spot in spots(scope.serving, "proxy")]
        version = Plain(_VERSION, "proxy").read(scope)[_VERSION]
        for place in places:
            if place.upgrades is None:
                continue
            if version != "1.1":
                raise UnplaceableError(
                    f"{place.upgrades.where} sets Connection for WebSockets, which need"
                    " proxy_http_version 1.1"
                )
            version = FixedValue(version)
        return {_VERSION: version, **{name: _common_value(places, name) for name in _IN_BLOCK}}

    def edits(self, scope: NginxScope, wanted: Mapping[str, str]) -> Iterator[Edit]:
        """Implement ``BoundGroup``."""
        yield from Plain(_VERSION, "proxy").edits(scope, wanted)
        silent = _compiled_in(scope.facts.server_version)
        lines = tuple((word, wanted[n]) for n, word in _IN_BLOCK.items() if n in wanted)
        # A 0 is refused earlier, and connections are kept only on request.
        none = wanted.get(_COUNT) == "0" and scope.facts.server_version < KEEPS_CONNECTIONS
        for place in (_Place.of(scope.serving, spot) for spot in spots(scope.serving, "proxy")):
            if lines and none:
                yield from removed(tuple(place.block.children("keepalive")) if place.block else ())
            elif lines:
                yield from place.keeps(lines, silent)
            if _VERSION in wanted:
                yield from place.connects(wanted[_VERSION])


def _compiled_in(version: tuple[int, ...]) -> frozenset[tuple[str, str]]:
    """Return directives that equal Nginx's defaults, with their values."""
    requests = "1000" if version >= _MORE_REQUESTS else "100"
    return frozenset({("keepalive_requests", requests), ("keepalive_timeout", "60s")})


def _common_value(places: Sequence[_Place], name: str) -> str | None:
    values: dict[Directive | None, str | None] = {}
    for place in places:
        found = tuple(place.block.children(_IN_BLOCK[name])) if place.block else ()
        values[found[-1] if found else None] = found[-1].args[0] if found else None
    return agreed(values)


@dataclass(frozen=True, slots=True)
class _Place:
    """A location that proxies."""

    spot: DirectiveSpot
    http: Directive
    passed: Directive
    block: Directive | None
    """The named upstream block; None for an address."""
    headers: tuple[Directive, ...]
    """The request headers in effect."""
    upgrades: Directive | None
    """The ``Connection`` header for WebSockets, if there is one."""
    closes: Directive | None
    """Map entry that makes the header ``close`` for a request without upgrade."""

    @classmethod
    def of(cls, serving: NginxServing, spot: DirectiveSpot) -> _Place:
        """Analyse a location.

        Raises:
            UnplaceableError: connections cannot be kept there by a rule.
        """
        (passed, *_) = spot.chain[-1].children("proxy_pass")
        headers = spot.found("proxy_set_header")
        block = serving.upstream(passed.args[0].partition("://")[2].partition("/")[0])
        if block is None:
            _check_address(serving, spot.chain, passed, headers)
        upgrades = closes = None
        for header in _called("connection", headers):
            if "$" in header.args[-1]:
                upgrades, closes = header, _closing(serving, header)
            elif "upgrade" in header.args[-1].lower():
                upgrades = header
        return cls(spot, serving.http, passed, block, headers, upgrades, closes)

    def keeps(
        self, lines: Iterable[tuple[str, str]], silent: frozenset[tuple[str, str]]
    ) -> Iterator[Edit]:
        """Yield edits of the upstream's directives, in its block or in a new one.

        Args:
            lines: directives with their values.
            silent: directives that are not needed without others.
        """
        at = None if self.block is None else DirectiveSpot((self.block,), self.block)
        lines = [line for line in lines if line not in silent or (at and at.found(line[0]))]
        if at is not None:
            yield from (at.put(word, value) for word, value in lines)
            return
        url = self.passed.args[0]
        host, slash, path = url.removeprefix("http://").partition("/")
        name = f"kept_{re.sub(r'[^A-Za-z0-9]', '_', host)}"
        yield Insert(self.http, "upstream", (name,), (("server", host), *lines))
        yield Set(self.passed, (f"http://{name}{slash}{path}", *self.passed.words[2:]))
        location = innermost(self.spot.chain)
        if not _called("host", self.headers):
            yield Insert(location, "proxy_set_header", ("Host", host))
        if not self.spot.found("proxy_redirect"):
            # The meaning of `default` (ngx_http_proxy_merge_loc_conf).
            new = (url, location.args[-1]) if slash else (f"{url}/", "/")
            yield Insert(location, "proxy_redirect", new)

    def connects(self, version: str) -> Iterator[Edit]:
        """Yield the ``Connection`` header for an HTTP version."""
        if self.upgrades is not None:
            if self.closes is not None:
                # An empty header is not sent; one for upgrades stays.
                yield Set(self.closes, ('""',))
            return
        found = _called("connection", self.headers)
        # Before 1.29.7 the default header is `close`.
        if found and found[-1].args[-1] != ("" if version != "1.0" else "close"):
            new = "close" if version == "1.0" else '""'
            yield Set(found[-1], (found[-1].words[1], new))
        elif not found and version != "1.0":
            # Headers are inherited together or not at all, so this one joins the others.
            owner = _owner(self.spot.chain) or self.spot.into
            yield Insert(owner, "proxy_set_header", ("Connection", '""'))


def _check_address(
    serving: NginxServing,
    chain: Sequence[Directive],
    passed: Directive,
    headers: Sequence[Directive],
) -> None:
    """Raise UnplaceableError if an upstream block in place of the address would be visible.

    Raises:
        UnplaceableError: it cannot.
    """
    target, where = passed.args[0], f"{passed.where} proxies to {passed.args[0]}"
    remedy = "; put the address into an upstream block to have its connections kept"
    if "$" in target:
        raise UnplaceableError(f"{where}, which is another for each request")
    if not target.startswith("http://") or target.startswith("http://unix:"):
        raise UnplaceableError(f"{where}, which is not an address in cleartext{remedy}")
    if any(
        part in word for found in serving.tree.walk() for word in found.args for part in _OF_ADDRESS
    ):
        raise UnplaceableError(f"{where}, and $proxy_host or $proxy_port is used{remedy}")
    if any("default" in found.args for found in effective(chain, "proxy_redirect")):
        raise UnplaceableError(f"{where}, and proxy_redirect default is set{remedy}")
    owner = _owner(chain)
    if not _called("host", headers) and owner is not None and owner is not innermost(chain):
        raise UnplaceableError(
            f"{where}, and the headers of {owner.where} do not set Host; set it there, or put the"
            " address into an upstream block, to have its connections kept"
        )


def _closing(serving: NginxServing, header: Directive) -> Directive | None:
    """Return the entry of a map that makes the header ``close`` where nothing is upgraded.

    Raises:
        UnplaceableError: the header does not come from such a map, or the map is used elsewhere.
    """
    variable = header.args[-1]
    where = f"{header.where} sets Connection to {variable}"
    maps = [found for found in serving.http.children("map") if found.args[1:] == (variable,)]
    if not maps or maps[-1].args[0] != "$http_upgrade":
        raise UnplaceableError(f"{where}, which is not from a map of $http_upgrade for WebSockets")
    for found in serving.tree.walk():
        used = any(variable in word for word in found.args) and found is not maps[-1]
        if used and (found.name, found.args[0].lower()) != ("proxy_set_header", "connection"):
            raise UnplaceableError(f"{where}, which {found.where} also uses")
    entries = {found.name: found for found in maps[-1].block or ()}
    entry = entries.get("", entries.get("default"))
    value = entry.args[0].lower() if entry and entry.args else ""
    if "$" in value or (value == "close" and entry is not entries.get("")):
        raise UnplaceableError(f"{where}, and its map at {maps[-1].where} has no entry for ''")
    return entry if value == "close" else None


def _called(name: str, headers: Sequence[Directive]) -> tuple[Directive, ...]:
    return tuple(header for header in headers if header.args[0].lower() == name)


def _owner(chain: Sequence[Directive]) -> Directive | None:
    """Return the block with the request headers in effect."""
    for block in reversed(chain):
        if any(True for _ in block.children("proxy_set_header")):
            return block
    return None
