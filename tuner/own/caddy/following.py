"""The handlers that a request passes on its way to the answer.

Routes are followed as Caddy does (https://caddyserver.com/docs/json/apps/http/servers/routes/):
in order, into subroutes, with rewrites, up to the handler that answers. A matcher that cannot be
decided from here counts as one that may match, so the request passes its handlers too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tuner.own.caddy.matching import PATH, RoutedRequest, matches
from tuner.own.caddy.tree import Json, JsonPath, look, walk, written
from tuner.own.scripts import scripts_in

_URI = ("{http.request.uri}", "{http.request.orig_uri}")
_MATCHED = "{http.matchers.file.relative}"
_LEAST_REJECTION = 300
"""Least status of a redirect or an error."""
_OF_CLIENT = frozenset(
    {
        *("method", "header", "header_regexp", "protocol", "query", "expression", "tls"),
        *("vars", "vars_regexp"),
    }
)
"""Matchers that look at who asks and how, not at what is asked for."""


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
    walls: Mapping[JsonPath, str] = field(default_factory=dict)
    """Routes that reject the workload's requests by who asks, and how, with the reason."""

    def joined(self, follower: Follower) -> PassedHandlers:
        """Return the handlers with those of one more request."""
        return PassedHandlers(
            tuple(dict.fromkeys((*self.proxies, *follower.proxies))),
            tuple({each.place: each for each in (*self.files, *follower.files.values())}.values()),
            tuple(dict.fromkeys((*self.encodes, *follower.encodes))),
            tuple(dict.fromkeys((*self.gates, *follower.gates))),
            {**self.walls, **follower.walls},
        )


@dataclass(slots=True)
class Follower:
    """A request on its way, with the handlers that it passed."""

    config: Json
    server: JsonPath
    ask: RoutedRequest
    strict: bool = False
    """True if a route that may reject the request by who asks is taken to reject it."""
    ended: JsonPath | None = None
    """The handler that answers; None without one."""
    proxies: dict[JsonPath, None] = field(default_factory=dict)
    files: dict[JsonPath, Served] = field(default_factory=dict)
    encodes: dict[JsonPath, None] = field(default_factory=dict)
    gates: dict[JsonPath, None] = field(default_factory=dict)
    walls: dict[JsonPath, str] = field(default_factory=dict)

    def routes(self, place: JsonPath) -> bool:
        """Follow a list of routes; return whether one of them certainly answered."""
        done: set[str] = set()
        for index, route in enumerate(look(self.config, place) or ()):
            group = route.get("group", "")
            if group and group in done:
                continue
            met = matches(route.get("match"), self.ask)
            here = (*place, index)
            if met is False:
                continue
            wall = _wall(route, certain=self.strict or bool(met))
            if wall:
                self.walls[here] = wall
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
        for index, each in enumerate(handlers):
            if self.handler((*place, index), each):
                if look(self.config, (*place, index, "routes")) is None:
                    self.ended = (*place, index)
                return True
        return False

    def handler(self, place: JsonPath, handler: Mapping[str, Any]) -> bool:
        """Follow one handler; return whether it answered."""
        match handler.get("handler"):
            case "subroute":
                return self.routes((*place, "routes"))
            case "invoke":
                return self.routes((*self.server, "named_routes", handler["name"], "routes"))
            case "rewrite":
                self.ask.path = _rewritten(self.ask, handler)
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


def protocol_of(handler: Mapping[str, Any]) -> str:
    """Return the protocol in which a proxy asks its upstreams: ``http`` or ``fastcgi``."""
    return str(look(handler, ("transport", "protocol"), "http"))


def sought(config: Json, paths: Sequence[str]) -> tuple[str, ...]:
    """Return the paths of the scripts that a configuration looks for.

    Args:
        config: Caddy's JSON.
        paths: requested paths.
    """
    tried = (
        str(each)
        for place, found in walk(config)
        if place[-1:] == ("try_files",) and isinstance(found, list)
        for each in found
    )
    return scripts_in((*(path.partition("?")[0] for path in paths), *tried))


def said_of(config: Json, ended: JsonPath | None) -> str:
    """Return how a handler answers, in words."""
    if ended is None:
        return "has no handler for it"
    handler, at = look(config, ended), written(ended)
    match handler.get("handler"):
        case "reverse_proxy" if protocol_of(handler) != "http":
            return f"passes it to {protocol_of(handler)} ({at})"
        case "reverse_proxy":
            return f"passes it to a reverse_proxy ({at})"
        case "file_server":
            return f"answers it with a file ({at})"
        case name:
            code = handler.get("status_code", 200)
            return f"answers it by itself: {name} {code} ({at})"


def _wall(route: Mapping[str, Any], *, certain: bool) -> str:
    """Return why a route rejects requests by who asks and how; empty if it does not.

    Args:
        route: a route with conditions that the request meets or may meet.
        certain: whether it meets them.
    """
    rejects = any(
        value.get("handler") == "error"
        or (value.get("handler") == "static_response" and _rejects(value))
        for _, value in walk(route.get("handle") or [])
        if isinstance(value, Mapping)
    )
    names = {place[-1] for place, _ in walk(route.get("match") or []) if place}
    if not rejects:
        return ""
    if names & {"remote_ip", "client_ip"}:
        return "the workload comes from another address"
    if certain and names & _OF_CLIENT:
        return "it turns the requests of the workload away"
    return ""


def _rejects(answer: Mapping[str, Any]) -> bool:
    code = str(answer.get("status_code") or 0)
    return bool(answer.get("abort")) or (code.isdigit() and int(code) >= _LEAST_REJECTION)


def _rewritten(ask: RoutedRequest, handler: Mapping[str, Any]) -> str | None:
    path = ask.path
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
    new = str(uri).partition("?")[0].replace(_MATCHED, ask.matched or path).replace(PATH, path)
    for whole in _URI:
        new = new.replace(whole, path)
    return None if "{" in new else new or path
