"""The site that answers a workload, and what to ask instead where none does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from tuner.errors import DefinitionError
from tuner.own.caddy.following import Follower, PassedHandlers, protocol_of, said_of
from tuner.own.caddy.matching import RoutedRequest, covers
from tuner.own.caddy.origin import SERVERS
from tuner.own.caddy.tree import Json, JsonPath, look, walk
from tuner.own.ways_out import ways_out
from tuner.workload.below import moved_below
from tuner.workload.workload import Request, Workload, load_workload

_ANYWHERE = "/app/"
"""A path for a site without conditions on paths."""
_BUILT_IN = {
    True: ("static", "measure its files: --workload static"),
    False: ("proxy", "measure it as a proxy: --workload proxy"),
}
"""Name and option of the built-in workload for the other kind of content, by ``has a backend``."""


@dataclass(frozen=True, slots=True)
class CaddyServing:
    """The part of a configuration that a workload reaches."""

    server: JsonPath
    host: str
    """The site; empty: any host name."""
    tls: bool
    passed: PassedHandlers

    @property
    def words(self) -> str:
        """Name of the site for messages: ``example.com``."""
        return self.host or "the site for every host"


@dataclass(frozen=True, slots=True)
class Needs:
    """The requirements of a workload on a site."""

    workload: Workload
    either: bool = False
    """True if both a proxy and files may answer."""
    keep_upstreams: bool = False
    """True if the upstreams of the configuration answer."""
    strict: bool = False
    """True if routes that may reject a request are taken to reject it."""

    @property
    def words(self) -> str:
        """The handlers that may answer, in words."""
        if self.either:
            return "a file_server or a reverse_proxy"
        return "a reverse_proxy" if self.workload.backend is not None else "a file_server"

    def met_by(self, config: Json, follower: Follower) -> bool:
        """Return whether the lab can answer a request that was followed."""
        proxies = [
            place
            for place in follower.proxies
            if self.keep_upstreams
            or self.either
            or protocol_of(look(config, place)) in self.workload.answerable
        ]
        if self.either:
            return bool(proxies or follower.files)
        return bool(proxies if self.workload.backend is not None else follower.files)


@dataclass(frozen=True, slots=True)
class _Unserved:
    """A site that does not answer a workload."""

    tls: bool
    path: str
    why: str


def serving(
    config: Json, needs: Needs, server_name: str, file: str, lacking: Sequence[str] = ()
) -> CaddyServing:
    """Choose the site, and follow the workload's requests through it.

    Args:
        config: Caddy's JSON.
        needs: what the workload requires.
        server_name: name that the user chose; empty: the first site that serves the workload.
        file: the user's file, for messages.
        lacking: masks of imports that no file matches, for messages.

    Raises:
        DefinitionError: no site has this name, or it does not serve the workload; with what works
            instead.
    """
    every = sites = _sites(config)
    if not sites:
        words = f"; no file matches {', '.join(lacking)}: put the sites there" if lacking else ""
        raise DefinitionError(f"serves no site over HTTP{words}", path=file)
    if server_name:
        named = [site for site in sites if site[1] and covers(site[1], server_name)]
        if not named:
            known = ", ".join(sorted({host for _, host in sites if host}))
            raise DefinitionError(
                f"no site is called {server_name!r}; here are: {known or 'none'}",
                path="--server-name",
            )
        sites = list({place: (place, server_name) for place, _ in named}.values())
    wanted = needs.workload.wire.tls is not None
    # `sorted` keeps the order of the file among equals.
    found = sorted(_followed(config, sites, needs), key=lambda each: each.tls != wanted)
    path = "--server-name" if server_name else file
    for each in found:
        if isinstance(each, CaddyServing):
            if wanted and not each.tls:
                raise DefinitionError(
                    "the workload asks over TLS, and what answers it here speaks cleartext only;"
                    " choose another site (--server-name) or workload",
                    path=path,
                )
            return each
    first = next(each for each in found if isinstance(each, _Unserved))
    options = _instead(config, needs, sites, every if server_name else ())
    raise DefinitionError(
        f"no site hands {first.path} to {needs.words}: {first.why}; {options}", path=path
    )


def hosts(server: Json) -> list[str]:
    """Return the host names of a server's routes: outer ones, "" for any other, then inner ones."""
    routes = server.get("routes") or []
    inner = [host for _, one in walk(routes) if isinstance(one, Mapping) for host in _named(one)]
    return list(dict.fromkeys((*_outer(server), "", *inner)))


def _outer(server: Json) -> list[str]:
    """Return the host names of the outermost routes, which decide about automatic HTTPS."""
    routes = server.get("routes") or []
    return [host for route in routes for one in route.get("match") or () for host in _named(one)]


def _named(one: Mapping[str, Any]) -> list[str]:
    found = one.get("host")
    return [str(each) for each in found] if isinstance(found, list) else []


def is_tls(config: Json, place: JsonPath) -> bool:
    """Return whether a server speaks TLS, by automatic HTTPS or by configuration.

    https://caddyserver.com/docs/automatic-https#activation
    """
    server, http = look(config, place), look(config, SERVERS[:2])
    if server.get("tls_connection_policies"):
        return True
    automatic = server.get("automatic_https") or {}
    if automatic.get("disable"):
        return False
    ports = {_port(address) for address in server.get("listen") or ()}
    if ports == {str(http.get("https_port", 443))}:
        return True
    known = set(_outer(server)) - set(automatic.get("skip") or ())
    return ports != {str(http.get("http_port", 80))} and bool(known)


_Site = tuple[JsonPath, str]
"""A server, and a host name of it; empty: any other name."""


def _sites(config: Json) -> list[_Site]:
    servers = look(config, SERVERS) or {}
    places = ((*SERVERS, name) for name in servers)
    return [(place, host) for place in places for host in hosts(look(config, place))]


def _followed(
    config: Json, sites: Sequence[_Site], needs: Needs
) -> Iterator[CaddyServing | _Unserved]:
    return (_follow(config, place, host, needs) for place, host in sites)


def answering(config: Json, found: CaddyServing, needs: Needs, request: Request) -> JsonPath | None:
    """Return the place of the handler that answers a request of the workload; None if unknown."""
    alone = replace(needs, workload=replace(needs.workload, requests=(request,)))
    served = _follow(config, found.server, found.host, alone)
    if isinstance(served, _Unserved):
        return None
    files = tuple(each.place for each in served.passed.files)
    places = files if needs.workload.backend is None else served.passed.proxies
    return (places or served.passed.proxies or (None,))[-1]


def _follow(config: Json, server: JsonPath, host: str, needs: Needs) -> CaddyServing | _Unserved:
    workload = needs.workload
    tls = is_tls(config, server)
    passed = PassedHandlers()
    site = None if workload.own_site else frozenset(file.path for file in workload.site)
    for request in workload.requests:
        ask = RoutedRequest(host, request, tls, site, request.path.partition("?")[0])
        follower = Follower(config, server, ask, strict=needs.strict)
        follower.routes((*server, "routes"))
        if not needs.met_by(config, follower):
            name = host or "the site for every host"
            return _Unserved(tls, request.path, f"{name} {said_of(config, follower.ended)}")
        passed = passed.joined(follower)
    return CaddyServing(server, host, tls, passed)


def _instead(config: Json, needs: Needs, sites: Sequence[_Site], others: Sequence[_Site]) -> str:
    """Return the requests that work instead, in words."""
    workload = needs.workload
    prefixes = _prefixes(config)
    name, measure = _BUILT_IN[workload.backend is not None]
    other = replace(needs, workload=load_workload(name))
    below = _answered(config, other, sites, prefixes)
    if _serves(config, other, sites):
        measures = [measure]
    else:
        measures = [f"{measure} --location {prefix}" for prefix in below][:1]
    return ways_out(
        locations=(f"--location {each}" for each in _answered(config, needs, sites, prefixes)),
        servers=(
            f"--server-name {host}"
            for place, host in others
            if host and "*" not in host and _serves(config, needs, [(place, host)])
        ),
        workloads=() if workload.own_site else measures,
        own_site=workload.own_site,
        upstreams=not needs.keep_upstreams,
    )


def _answered(
    config: Json, needs: Needs, sites: Sequence[_Site], prefixes: Sequence[str]
) -> Iterator[str]:
    """Yield the paths below which a workload is answered."""
    for prefix in prefixes:
        moved = replace(needs, workload=moved_below(prefix, needs.workload))
        if _serves(config, moved, sites):
            yield prefix


def _serves(config: Json, needs: Needs, sites: Sequence[_Site]) -> bool:
    return any(isinstance(each, CaddyServing) for each in _followed(config, sites, needs))


def _prefixes(config: Json) -> list[str]:
    """Return the prefixes that routes name, and one that belongs to no other route."""
    patterns = chain.from_iterable(
        value
        for place, value in walk(look(config, SERVERS) or {})
        if place[-1:] == ("path",) and isinstance(value, list)
    )
    found = (str(pattern).removesuffix("*") for pattern in patterns if str(pattern)[-1:] == "*")
    plain = (prefix for prefix in found if len(prefix) > 1 and not {"*", "{"} & set(prefix))
    return list(dict.fromkeys((*(each for each in plain if each[0] == "/"), _ANYWHERE)))


def _port(address: str) -> str:
    return address.rpartition(":")[2]
