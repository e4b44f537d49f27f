"""The site that answers, and the handlers that a request passes.

Routes are followed as Caddy does (https://caddyserver.com/docs/json/apps/http/servers/routes/):
in order, into subroutes, with rewrites, up to the handler that answers. A matcher that cannot be
decided from here counts as one that may match, so the request passes its handlers too.
"""

from __future__ import annotations

import fnmatch
import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tuner.errors import DefinitionError
from tuner.own.caddy.origin import SERVERS
from tuner.own.caddy.tree import Json, JsonPath, look, walk
from tuner.workload.workload import Request, Workload

_CLIENT = ipaddress.ip_address("127.0.0.1")
_URI = ("{http.request.uri}", "{http.request.orig_uri}")
_PATH = "{http.request.uri.path}"
_MATCHED = "{http.matchers.file.relative}"
_REFUSED = 400


@dataclass(frozen=True, slots=True)
class Served:
    """A handler that serves files, with the changes that a request meets before it."""

    place: JsonPath
    root: JsonPath | None
    """The handler that sets the document root; None without one."""
    prefix: str
    """Prefix that an earlier handler strips: ``/static`` in ``handle_path /static/*``."""


@dataclass(frozen=True, slots=True)
class PassedHandlers:
    """The handlers that the workload's requests pass, each place once."""

    proxies: tuple[JsonPath, ...] = ()
    files: tuple[Served, ...] = ()
    encodes: tuple[JsonPath, ...] = ()
    gates: tuple[JsonPath, ...] = ()
    """Handlers that ask another server for permission, or the client for a password."""
    walls: tuple[JsonPath, ...] = ()
    """Routes that reject requests by the client's address."""


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


def serving(
    config: Json, workload: Workload, server_name: str, file: str, *, either: bool = False
) -> CaddyServing:
    """Choose the site, and follow the workload's requests through it.

    Args:
        config: Caddy's JSON.
        workload: the workload.
        server_name: name that the user chose; empty: the first site that serves the workload.
        file: the user's file, for messages.
        either: whether both a proxy and files may answer, for any workload.

    Raises:
        DefinitionError: no site has this name, or it does not serve the workload.
    """
    servers = look(config, SERVERS) or {}
    sites = [
        (place, host)
        for place in ((*SERVERS, name) for name in servers)
        for host in hosts(look(config, place))
    ]
    if not sites:
        raise DefinitionError("serves no site over HTTP", path=file)
    if server_name:
        named = [site for site in sites if site[1] and covers(site[1], server_name)]
        if not named:
            known = ", ".join(sorted({host for _, host in sites if host}))
            raise DefinitionError(
                f"no site is called {server_name!r}; here are: {known or 'none'}",
                path="--server-name",
            )
        sites = list({place: (place, server_name) for place, _ in named}.values())
    wanted = workload.wire.tls is not None
    needs = _Needs(workload, either)
    found = [_follow(config, place, host, needs) for place, host in sites]
    # `sorted` keeps the order of the file among equals.
    found = sorted(found, key=lambda each: each.tls != wanted)
    for each in found:
        if needs.met_by(each.passed):
            if wanted and not each.tls:
                break
            return each
    raise DefinitionError(_why_not(found, needs), path=(server_name and "--server-name") or file)


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


def covers(pattern: str, host: str) -> bool:
    """Return whether a host name, or a pattern with stars for labels, matches a host."""
    labels, wanted = pattern.lower().split("."), host.lower().split(".")
    return pattern.lower() == host.lower() or (
        len(labels) == len(wanted)
        and all(label in ("*", other) for label, other in zip(labels, wanted, strict=True))
    )


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


def matches(found: Json, ask: RoutedRequest) -> bool | None:
    """Return whether a request meets a route's matchers; None if unknown."""
    if not found:
        return True
    return _either(_all(_one(name, value, ask) for name, value in one.items()) for one in found)


@dataclass(slots=True)
class RoutedRequest:
    """One request on its way through the routes."""

    host: str
    request: Request
    tls: bool
    site: frozenset[str] | None
    """Paths of the files; None if unknown."""
    path: str | None
    """Path after the rewrites so far; None if unknown."""
    root: JsonPath | None = None


@dataclass(slots=True)
class _Follower:
    config: Json
    server: JsonPath
    ask: RoutedRequest
    proxies: dict[JsonPath, None] = field(default_factory=dict)
    files: dict[JsonPath, Served] = field(default_factory=dict)
    encodes: dict[JsonPath, None] = field(default_factory=dict)
    gates: dict[JsonPath, None] = field(default_factory=dict)
    walls: dict[JsonPath, None] = field(default_factory=dict)

    def routes(self, place: JsonPath) -> bool:
        """Follow a list of routes; return whether one of them certainly answered."""
        done: set[str] = set()
        for index, route in enumerate(look(self.config, place) or ()):
            group = route.get("group", "")
            if group and group in done:
                continue
            met = matches(route.get("match"), self.ask)
            here = (*place, index)
            if met is not False and _is_wall(route):
                self.walls[here] = None
                continue
            if met is False:
                continue
            before = replace(self.ask)
            ended = self.handlers((*here, "handle"), route.get("handle") or ())
            if not met:
                self.ask = before
                continue
            if group:
                done.add(group)
            if ended or route.get("terminal"):
                return True
        return False

    def handlers(self, place: JsonPath, handlers: Sequence[Mapping[str, Any]]) -> bool:
        """Follow the handlers of one route; return whether one of them answered."""
        return any(self.handler((*place, index), each) for index, each in enumerate(handlers))

    def handler(self, place: JsonPath, handler: Mapping[str, Any]) -> bool:
        """Follow one handler; return whether it answered."""
        match handler.get("handler"):
            case "subroute":
                return self.routes((*place, "routes"))
            case "invoke":
                return self.routes((*self.server, "named_routes", handler["name"], "routes"))
            case "rewrite":
                self.ask.path = _rewritten(self.ask.path, handler)
            case "vars" if "root" in handler:
                self.ask.root = place
            case "encode":
                self.encodes[place] = None
            case "authentication":
                self.gates[place] = None
            case "reverse_proxy" if is_gate(handler):
                self.gates[place] = None
            case "reverse_proxy":
                self.proxies[place] = None
                return True
            case "file_server":
                self.files[place] = Served(place, self.ask.root, self._prefix())
                return not handler.get("pass_thru")
            case "static_response" | "error" | "acme_server" | "php":
                return True
            case _:
                pass
        return False

    def _prefix(self) -> str:
        asked, now = self.ask.request.path.partition("?")[0], self.ask.path
        return asked.removesuffix(now) if now and asked.endswith(now) else ""


def is_gate(handler: Mapping[str, Any]) -> bool:
    """Return whether a proxy only asks for permission (``forward_auth``)."""
    return look(handler, ("rewrite", "method")) == "GET" and bool(handler.get("handle_response"))


def is_http(handler: Mapping[str, Any]) -> bool:
    """Return whether a proxy speaks HTTP to its upstreams, and not FastCGI."""
    return bool(look(handler, ("transport", "protocol"), "http") == "http")


@dataclass(frozen=True, slots=True)
class _Needs:
    """The requirements of a workload on a site."""

    workload: Workload
    either: bool

    @property
    def words(self) -> str:
        if self.either:
            return "a file_server or a reverse_proxy"
        return "a reverse_proxy" if self.workload.backend is not None else "a file_server"

    def met_by(self, passed: PassedHandlers) -> bool:
        if self.either:
            return bool(passed.proxies or passed.files)
        return bool(passed.proxies if self.workload.backend is not None else passed.files)


def _follow(config: Json, server: JsonPath, host: str, needs: _Needs) -> CaddyServing:
    workload = needs.workload
    tls = is_tls(config, server)
    passed = PassedHandlers()
    site = None if workload.own_site else frozenset(file.path for file in workload.site)
    for request in workload.requests:
        ask = RoutedRequest(host, request, tls, site, request.path.partition("?")[0])
        follower = _Follower(config, server, ask)
        follower.routes((*server, "routes"))
        passed = PassedHandlers(
            tuple(dict.fromkeys((*passed.proxies, *follower.proxies))),
            tuple(
                {each.place: each for each in (*passed.files, *follower.files.values())}.values()
            ),
            tuple(dict.fromkeys((*passed.encodes, *follower.encodes))),
            tuple(dict.fromkeys((*passed.gates, *follower.gates))),
            tuple(dict.fromkeys((*passed.walls, *follower.walls))),
        )
        if not needs.met_by(
            PassedHandlers(tuple(follower.proxies), tuple(follower.files.values()))
        ):
            return CaddyServing(server, host, tls, PassedHandlers())
    return CaddyServing(server, host, tls, passed)


def _why_not(found: Sequence[CaddyServing], needs: _Needs) -> str:
    paths = ", ".join(request.path for request in needs.workload.requests[:3])
    if any(needs.met_by(each.passed) for each in found):
        return (
            "the workload asks over TLS, and what answers it here speaks cleartext only; choose"
            " another site (--server-name) or workload"
        )
    return (
        f"no site hands {paths} to {needs.words}, as workload {needs.workload.name!r} needs it;"
        " choose another workload (--workload), whose paths lead there"
    )


def _is_wall(route: Mapping[str, Any]) -> bool:
    """Return whether a route rejects requests by the client's address."""
    by_address = any(
        place[-1:] in (("remote_ip",), ("client_ip",))
        for place, _ in walk(route.get("match") or [])
    )
    return by_address and any(
        value.get("handler") in ("static_response", "error")
        and (value.get("abort") or _code(value.get("status_code")) >= _REFUSED)
        for _, value in walk(route.get("handle") or [])
        if isinstance(value, Mapping)
    )


def _code(found: Json) -> int:
    text = str(found or 0)
    return int(text) if text.isdigit() else 0


def _port(address: str) -> str:
    return address.rpartition(":")[2]


def _rewritten(path: str | None, handler: Mapping[str, Any]) -> str | None:
    if path is None:
        return None
    prefix, suffix = handler.get("strip_path_prefix", ""), handler.get("strip_path_suffix", "")
    if prefix:
        rest = path.removeprefix(prefix)
        path = rest if rest.startswith("/") or rest == path else f"/{rest}"
    path = path.removesuffix(suffix) if suffix else path
    if handler.get("uri_substring") or handler.get("path_regexp"):
        return None
    uri = handler.get("uri")
    if uri is None:
        return path
    new = str(uri).partition("?")[0].replace(_MATCHED, path).replace(_PATH, path)
    for whole in _URI:
        new = new.replace(whole, path)
    return None if "{" in new else new or path


# --- matchers --------------------------------------------------------------------------------


def _either(met: Iterator[bool | None]) -> bool | None:
    found = list(met)
    return True if True in found else None if None in found else False


def _all(met: Iterator[bool | None]) -> bool | None:
    found = list(met)
    return False if False in found else None if None in found else True


def _one(name: str, value: Json, ask: RoutedRequest) -> bool | None:
    match name:
        case "host":
            return _host(value, ask.host)
        case "path":
            return _either(_path(pattern, ask.path) for pattern in value)
        case "path_regexp":
            return _regexp(str(value.get("pattern", "")), ask.path)
        case "method":
            return ask.request.method in value
        case "protocol":
            return {"https": ask.tls, "http": not ask.tls}.get(value, False)
        case "header":
            return _all(_header(field_name, wanted, ask) for field_name, wanted in value.items())
        case "remote_ip" | "client_ip":
            return _either(_address(text) for text in value.get("ranges") or ())
        case "not":
            met = matches(value, ask)
            return None if met is None else not met
        case "file":
            return _file(value, ask)
        case _:
            return None


def _host(wanted: Sequence[str], host: str) -> bool | None:
    if any(covers(each, host) for each in wanted):
        return True
    return None if any("{" in each for each in wanted) else False


def _path(pattern: str, path: str | None) -> bool | None:
    """Match a path: https://caddyserver.com/docs/json/apps/http/servers/routes/match/path/."""
    if pattern == "*":
        return True
    if path is None or "{" in pattern:
        return None
    text, wanted = path.lower(), pattern.lower()
    if wanted.startswith("*") and wanted.endswith("*") and "*" not in wanted[1:-1]:
        return wanted[1:-1] in text
    if wanted.endswith("*") and "*" not in wanted[:-1]:
        return text.startswith(wanted[:-1])
    if wanted.startswith("*") and "*" not in wanted[1:]:
        return text.endswith(wanted[1:])
    return fnmatch.fnmatchcase(text, wanted)


def _regexp(pattern: str, path: str | None) -> bool | None:
    if path is None:
        return None
    try:
        return re.search(pattern, path) is not None
    except re.error:
        return None


def _header(name: str, wanted: Json, ask: RoutedRequest) -> bool | None:
    found = [value for other, value in ask.request.headers if other.lower() == name.lower()]
    if name.lower() == "host":
        return None
    if not wanted:
        return not found if wanted is None else bool(found)
    return any(fnmatch.fnmatchcase(value, pattern) for value in found for pattern in wanted)


def _address(text: str) -> bool | None:
    try:
        return _CLIENT in ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _file(value: Json, ask: RoutedRequest) -> bool | None:
    """Return whether a file exists; None for the user's own files, which are unknown."""
    if ask.site is None or ask.path is None:
        return None
    if (value or {}).get("try_policy") == "first_exist_fallback":
        return True
    tried = (value or {}).get("try_files") or [_PATH]
    paths = [str(each).replace(_PATH, ask.path) for each in tried]
    if any(path in ask.site or f"{path.rstrip('/')}/index.html" in ask.site for path in paths):
        return True
    return None if any("{" in path for path in paths) else False
