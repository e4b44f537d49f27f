"""Parameters of servers behind Nginx that do not speak HTTP: kept connections, and caches.

https://nginx.org/en/docs/http/ngx_http_upstream_module.html#keepalive
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tuner.own.bound import UnplaceableError
from tuner.own.nginx.edits import Edit, Insert, Set
from tuner.own.nginx.locations import target_of
from tuner.own.nginx.places import (
    ContextLevel,
    DirectiveSpot,
    NginxScope,
    Plain,
    agreed,
    removed,
    spots,
)
from tuner.own.nginx.serving import NginxServing
from tuner.own.nginx.tree import Directive
from tuner.own.nginx.upstreams import KEEPS_CONNECTIONS


@dataclass(frozen=True, slots=True)
class KeptApplications:
    """``keepalive`` in an upstream, with the directive that has FastCGI keep its connections.

    An address that is passed to gets its own upstream block.
    """

    level: ContextLevel
    asks: str = ""
    """Directive that asks the application to keep connections; empty if none is needed."""

    @property
    def names(self) -> tuple[str, ...]:
        """Implement ``BoundGroup``."""
        return (*([self.asks] if self.asks else []), f"{self.level}_keepalive")

    def read(self, scope: NginxScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        counts: dict[Directive | None, str | None] = {}
        for spot, passed, block in self._places(scope.serving):
            found = tuple(block.children("keepalive")) if block else ()
            if block is None:
                _check_address(spot, passed)
            counts[found[-1] if found else None] = found[-1].args[0] if found else None
        asked = Plain(self.asks, self.level).read(scope) if self.asks else {}
        return {**asked, self.names[-1]: agreed(counts)}

    def edits(self, scope: NginxScope, wanted: Mapping[str, str]) -> Iterator[Edit]:
        """Implement ``BoundGroup``."""
        if self.asks:
            yield from Plain(self.asks, self.level).edits(scope, wanted)
        count = wanted.get(self.names[-1])
        if count is None:
            return
        none = count == "0" and scope.facts.server_version < KEEPS_CONNECTIONS
        made: dict[str, str] = {}
        for spot, passed, block in self._places(scope.serving):
            if block is not None and none:
                yield from removed(tuple(block.children("keepalive")))
            elif block is not None:
                yield DirectiveSpot((block,), block).put("keepalive", count)
            elif not none:
                yield from _named(scope.serving, spot, passed, count, made)

    def _places(
        self, serving: NginxServing
    ) -> Iterator[tuple[DirectiveSpot, Directive, Directive | None]]:
        """Yield the locations with their directive, and their upstream block if they have one."""
        seen = set()
        for spot in spots(serving, self.level):
            (passed, *_) = spot.chain[-1].children(f"{self.level}_pass")
            if passed.key not in seen:
                seen.add(passed.key)
                yield spot, passed, serving.upstream(target_of(passed)[1])


def _named(
    serving: NginxServing,
    spot: DirectiveSpot,
    passed: Directive,
    count: str,
    made: dict[str, str],
) -> Iterator[Edit]:
    """Yield an upstream block for an address, once, and its use.

    Args:
        serving: the part of the configuration.
        spot: the location.
        passed: its directive.
        count: value of ``keepalive``.
        made: names of the new blocks by address, to which a new one is added.
    """
    scheme, address = target_of(passed)
    if address not in made:
        made[address] = f"kept_{re.sub(r'[^A-Za-z0-9]', '_', address)}"
        lines = (("server", address), ("keepalive", count))
        yield Insert(serving.http, "upstream", (made[address],), lines)
    yield Set(passed, (f"{scheme}{made[address]}", *passed.words[2:]))
    if passed.name == "grpc_pass" and not _sets_host(spot):
        yield Insert(spot.into, "grpc_set_header", ("Host", address))


def _check_address(spot: DirectiveSpot, passed: Directive) -> None:
    """Raise UnplaceableError if an upstream block in place of an address would be visible.

    Raises:
        UnplaceableError: it would, or the address differs between requests.
    """
    where = f"{passed.where} passes to {passed.args[0]}"
    remedy = "; put the address into an upstream block to have its connections kept"
    if "$" in passed.args[0]:
        raise UnplaceableError(f"{where}, which is another for each request")
    if passed.args[0].startswith("grpcs://"):
        raise UnplaceableError(f"{where}, which is not an address in cleartext{remedy}")
    headers = {found.key for found in spot.found("grpc_set_header")}
    inside = {found.key for found in spot.chain[-1].block or ()}
    # Headers are inherited together or not at all, so a Host inside would replace the others.
    if passed.name == "grpc_pass" and headers - inside and not _sets_host(spot):
        raise UnplaceableError(f"{where}, and headers are set outside of its location{remedy}")


def _sets_host(spot: DirectiveSpot) -> bool:
    return any(found.args[0].lower() == "host" for found in spot.found("grpc_set_header"))


@dataclass(frozen=True, slots=True)
class CacheUpdates:
    """Fetching of pages that a cache lacks, or that have expired, where there is one."""

    level: ContextLevel

    @property
    def names(self) -> tuple[str, str]:
        """Implement ``BoundGroup``."""
        return f"{self.level}_cache_lock", f"{self.level}_cache_background_update"

    def read(self, scope: NginxScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        cache = f"{self.level}_cache"
        for spot in spots(scope.serving, self.level):
            found = spot.found(cache)
            if not found or found[-1].args == ("off",):
                raise UnplaceableError(f"{spot.chain[-1].where} has no {cache}")
        both = [Plain(name, self.level).read(scope) for name in self.names]
        return {name: text for values in both for name, text in values.items()}

    def edits(self, scope: NginxScope, wanted: Mapping[str, str]) -> Iterator[Edit]:
        """Implement ``BoundGroup``."""
        for name in self.names:
            yield from Plain(name, self.level).edits(scope, wanted)
        if wanted.get(self.names[1]) != "on":
            return
        stale = f"{self.level}_cache_use_stale"
        for spot in spots(scope.serving, self.level):
            found = spot.found(stale)
            words = [word for word in found[-1].words[1:] if word != "off"] if found else []
            if "updating" not in words:
                yield spot.put(stale, *words, "updating")
