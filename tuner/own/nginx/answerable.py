"""The requests that the lab can answer, and what to ask instead of the others.

Behind ``proxy_pass``, ``fastcgi_pass`` and their like stands the lab's backend, and below the
document root are the workload's files. A request that nothing answers would fail after the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from tuner.errors import DefinitionError
from tuner.own.nginx.locations import PASSES, PROTOCOLS, Location, route
from tuner.own.nginx.scripts import scripts
from tuner.own.nginx.tree import Directive, walk
from tuner.own.ways_out import ways_out
from tuner.workload.below import below
from tuner.workload.workload import BackendProtocol

Content = Literal["backend", "files", "own"]
"""Content that a workload requests: the lab's backend, its files, or that of the server."""
_SPEAKS = {
    "grpc_pass": "gRPC",
    "fastcgi_pass": "FastCGI",
    "uwsgi_pass": "uwsgi",
    "scgi_pass": "SCGI",
    "memcached_pass": "memcached",
    "proxy_pass": "an HTTP server behind it",
}
_HANDLERS = (
    *("return", "stub_status", "empty_gif", "perl", "js_content", "mruby_content_handler"),
    *("content_by_lua", "content_by_lua_block", "content_by_lua_file", "echo", "api"),
)
"""Directives that answer by themselves, without a file or a server behind."""
_ANYWHERE = "/app/"
"""A path for ``location /``, which answers wherever no other location does."""
_ORDINARY: frozenset[BackendProtocol] = frozenset({"http", "fastcgi", "uwsgi", "scgi"})
_GRPC: frozenset[BackendProtocol] = frozenset({"grpc"})


@dataclass(frozen=True, slots=True)
class Answering:
    """The requests that the lab can answer."""

    content: Content
    keep_upstreams: bool = False
    """True if the upstreams of the configuration answer."""
    speaks: frozenset[BackendProtocol] = _ORDINARY
    """Protocols in which the lab's backend can answer the workload."""

    def why_not(self, chain: Sequence[Directive]) -> str:
        """Return why the lab cannot answer where a chain of blocks ends; empty if it can."""
        last = chain[-1]
        passes = [found for found in last.children(*PASSES) if not self._stands(found)]
        if passes:
            return self._needed(passes[0])
        if self.content == "own":
            return ""
        for block in dict.fromkeys((chain[1], last)) if len(chain) > 1 else (last,):
            for found in block.children(*_HANDLERS):
                words = " ".join((found.name, *found.args[:1]))
                return f"is answered by {words[:40]} ({found.where})"
        if self.content == "backend" and not any(True for _ in last.children(*PASSES)):
            return "has no proxy_pass"
        return ""

    def _needed(self, found: Directive) -> str:
        """Return what a location with a directive needs that the lab does not have."""
        kind = f"needs {_SPEAKS[found.name]} ({found.where})"
        if found.name not in PROTOCOLS:
            return f"{kind}, which the lab does not have"
        if self.content != "backend":
            return f"{kind}, and this workload requests files"
        if PROTOCOLS[found.name] in _GRPC:
            return f"{kind}, which this workload does not ask for"
        if self.speaks == _GRPC:
            return f"{kind}, and this workload asks for gRPC"
        return f"{kind}, and the files of a site are behind proxy_pass only"

    def check(
        self, http: Directive, server: Directive, paths: Sequence[str], *, proxied: bool
    ) -> None:
        """Raise DefinitionError if the lab cannot answer a path.

        Args:
            http: the outer block.
            server: the chosen server.
            paths: of the workload.
            proxied: whether a server behind this one answers.

        Raises:
            DefinitionError: it cannot; with the ways out that work in this configuration.
        """
        for path in paths:
            chain = (http, server, *route(server, path.partition("?")[0], proxied=proxied))
            why = self.why_not(chain)
            if why:
                last = chain[-1]
                ways = self._ways_out(http, server, paths, needs=why.startswith("needs"))
                raise DefinitionError(
                    f"{path} is requested, and {_called(last)} {why}; {ways}",
                    path=last.file,
                    line=last.line,
                )

    def _ways_out(
        self, http: Directive, server: Directive, paths: Sequence[str], *, needs: bool
    ) -> str:
        """Return the requests that work instead, in words."""
        return ways_out(
            locations=(f"--location {name}" for name in self._locations(http, server, paths)),
            servers=self._servers(http, server, paths),
            workloads=self._workloads(http, server),
            own_site=self.content == "own",
            upstreams=needs,
        )

    def _locations(self, http: Directive, server: Directive, paths: Sequence[str]) -> Iterator[str]:
        """Yield locations of this server in which the lab can answer all paths."""
        locations = [Location.of(one) for one in walk((server,)) if one.name == "location"]
        named = {
            location.pattern if location.pattern != "/" else _ANYWHERE: location.directive
            for location in locations
            if location.modifier in ("", "^~") and location.pattern.startswith("/")
        }
        # What belongs to no other location comes last.
        for path, found in sorted(named.items(), key=lambda pair: pair[0] == _ANYWHERE):
            if _answers(self, http, server, [below(path, one) for one in paths]):
                yield f"{path} ({found.where})"
        for script in scripts(server, ()) if self.content == "backend" else ():
            # `location ~ \.php(/|$)` takes what follows the name of a script.
            if _answers(self, http, server, [below(script, one) for one in paths]):
                yield f"{script} ({server.where})"

    def _servers(self, http: Directive, server: Directive, paths: Sequence[str]) -> Iterator[str]:
        """Yield options for other servers that the lab can answer for all paths."""
        for other in http.children("server"):
            known = [name for one in other.children("server_name") for name in one.args]
            plain = [name for name in known if name and name[0] not in "_~*."]
            if other.key != server.key and plain and _answers(self, http, other, paths):
                yield f"--server-name {plain[0]} ({other.where})"

    def _workloads(self, http: Directive, server: Directive) -> Iterator[str]:
        """Yield built-in workloads of other kinds that this server answers."""
        for one in _BUILT_IN:
            same = one.content != "backend" or one.speaks == self.speaks
            if one.content == self.content and same:
                continue
            other = Answering(one.content, self.keep_upstreams, one.speaks)
            if _answers(other, http, server, (one.path,)):
                yield one.option
            else:
                below_them = other._locations(http, server, (one.path,))
                yield from (f"{one.option} --location {name}" for name in islice(below_them, 1))

    def _stands(self, found: Directive) -> bool:
        """Return whether a server stands behind a directive in the lab."""
        if self.keep_upstreams:
            return True
        return self.content == "backend" and PROTOCOLS.get(found.name) in self.speaks


@dataclass(frozen=True, slots=True)
class _BuiltIn:
    """A built-in workload for one kind of content."""

    content: Content
    speaks: frozenset[BackendProtocol]
    path: str
    """A path that it requests."""
    option: str


_BUILT_IN = (
    _BuiltIn("files", _ORDINARY, "/index.html", "measure its files: --workload static"),
    _BuiltIn("backend", _ORDINARY, "/api/x", "measure it as a proxy: --workload proxy"),
    _BuiltIn("backend", _GRPC, "/shop.Orders/Get", "measure it with gRPC: --workload grpc"),
)


def _answers(lab: Answering, http: Directive, server: Directive, paths: Sequence[str]) -> bool:
    """Return whether the lab can answer all paths of a server."""
    proxied = lab.content == "backend"
    routes = (route(server, path.partition("?")[0], proxied=proxied) for path in paths)
    return not any(lab.why_not((http, server, *found)) for found in routes)


def _called(block: Directive) -> str:
    return " ".join((block.name, *block.args)) if block.args else f"this {block.name}"
