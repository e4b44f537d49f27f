"""The server block and the location that answer a request.

Only the rules that decide where a request ends up are followed: server names, listening sockets,
locations, ``try_files`` and ``index``. https://nginx.org/en/docs/http/request_processing.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tuner.errors import DefinitionError
from tuner.own.nginx.tree import Directive, Tree

PASSES = (
    *("proxy_pass", "grpc_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "memcached_pass"),
)
"""Directives that pass a request to a server behind this one."""
_MODIFIERS = ("=", "~", "~*", "^~")
_REDIRECTS = range(300, 400)


@dataclass(frozen=True, slots=True)
class NginxServing:
    """The part of a configuration that a workload reaches."""

    tree: Tree
    http: Directive
    server: Directive
    listen: Directive | None
    """The socket that is asked; None: the compiled-in port 80."""
    listens: tuple[Directive, ...]
    """All sockets of the server that are of the same kind (IPv4, IPv6), to be kept alike."""
    tls: bool
    chains: tuple[tuple[Directive, ...], ...]
    """For every path of the workload the blocks around its answer: http, server, locations."""

    @property
    def blocks(self) -> tuple[Directive, ...]:
        """The innermost blocks, each once."""
        return tuple({chain[-1].key: chain[-1] for chain in self.chains}.values())

    def upstream(self, name: str) -> Directive | None:
        """Return the ``upstream`` block of that name."""
        found = (block for block in self.http.children("upstream") if block.args[:1] == (name,))
        return next(found, None)


def serving(
    tree: Tree, paths: Sequence[str], *, server_name: str, tls: bool, proxied: bool
) -> NginxServing:
    """Choose the server, its socket, and the location of every path.

    Args:
        tree: the configuration.
        paths: what the workload asks for.
        server_name: chosen by the user; empty: the default server, or the first that does more
            than redirect.
        tls: whether the workload asks over TLS. A server that speaks nothing else is asked over
            TLS all the same; see ``NginxServing.tls``.
        proxied: whether a server behind this one answers.

    Raises:
        DefinitionError: there is no such server, or it does not do what the workload asks.
    """
    http = tree.http()
    server = _choose(http, server_name, tls=tls)
    sockets = [listen for listen in server.children("listen") if _is_http(listen)]
    same = tuple(listen for listen in sockets if is_tls(listen, server) == tls)
    if sockets and not same:
        if tls:
            raise DefinitionError(
                "the workload asks over TLS, and this server listens in cleartext only; choose"
                " another server (--server-name) or workload",
                path=server.file,
                line=server.line,
            )
        tls, same = True, tuple(sockets)
    listen = min(same, key=lambda found: found.args[0].startswith("["), default=None)
    chains = {
        tuple(found.key for found in chain): chain
        for chain in (
            (http, server, *_route(server, path.partition("?")[0], proxied=proxied))
            for path in paths
        )
    }
    return NginxServing(tree, http, server, listen, same, tls, tuple(chains.values()))


def is_tls(listen: Directive, server: Directive) -> bool:
    """Return whether a socket speaks TLS; ``ssl on`` said it for a whole server until 1.25.1."""
    old = any(found.args == ("on",) for found in server.children("ssl"))
    return old or "ssl" in listen.args


def effective(chain: Sequence[Directive], *names: str) -> tuple[Directive, ...]:
    """Return the directives of these names on the innermost level that has any: what holds there.

    https://nginx.org/en/docs/dev/development_guide.html#http_conf
    """
    for block in reversed(chain):
        found = tuple(block.children(*names))
        if found:
            return found
    return ()


def servers(http: Directive) -> Iterator[Directive]:
    """Yield the ``server`` blocks, in order."""
    return http.children("server")


def names(server: Directive) -> list[str]:
    """Its names."""
    return [name for found in server.children("server_name") for name in found.args]


def _is_http(listen: Directive) -> bool:
    return "quic" not in listen.args and not listen.args[0].startswith("unix:")


def _choose(http: Directive, wanted: str, *, tls: bool) -> Directive:
    found = list(servers(http))
    if not found:
        raise DefinitionError("the http block has no server", path=http.file, line=http.line)
    if wanted:
        named = [server for server in found if wanted in names(server)]
        if not named:
            known = sorted({name for server in found for name in names(server)})
            raise DefinitionError(
                f"no server is called {wanted!r}; here are: {', '.join(known) or 'none'}",
                path="--server-name",
            )
        # The same name often stands twice: one server redirects to the other.
        return min(
            named, key=lambda server: (_only_redirects(server), not _speaks(server, tls=tls))
        )
    serve = [server for server in found if not _only_redirects(server)]
    if not serve:
        raise DefinitionError(
            "every server here only redirects; there is nothing to be tuned",
            path=http.file,
            line=http.line,
        )
    # `min` takes the first of equals, so the order of the file decides last, as for Nginx.
    return min(serve, key=lambda server: (not _speaks(server, tls=tls), not _is_default(server)))


def _speaks(server: Directive, *, tls: bool) -> bool:
    sockets = [listen for listen in server.children("listen") if _is_http(listen)]
    return any(is_tls(listen, server) == tls for listen in sockets) or not (sockets or tls)


def _is_default(server: Directive) -> bool:
    return any(
        word in listen.args
        for listen in server.children("listen")
        for word in ("default_server", "default")
    )


def _only_redirects(server: Directive) -> bool:
    """Return whether every request gets a redirect, or is turned away: no page comes from here."""
    return any(_is_answer(found) for found in server.children("return")) or (
        any(
            location.args == ("/",) and any(_is_answer(f) for f in location.children("return"))
            for location in server.children("location")
        )
    )


def _is_answer(found: Directive) -> bool:
    code = found.args[0] if found.args else ""
    return not code.isdigit() or int(code) in _REDIRECTS or int(code) >= 400


def _route(server: Directive, path: str, *, proxied: bool) -> tuple[Directive, ...]:
    """Return the locations around a path's answer, outermost first."""
    chain = _match(server, path)
    if proxied:
        chain = _behind(server, chain)
    elif path.endswith("/"):
        # `index` redirects inside, and the file's own location answers.
        chain = _match(server, f"{path}index.html")
    return chain


def _behind(server: Directive, chain: tuple[Directive, ...]) -> tuple[Directive, ...]:
    """Return the fallback of ``try_files`` where a server behind this one answers."""
    inner = (server, *chain)
    if any(True for _ in inner[-1].children(*PASSES)):
        return chain
    for found in effective(inner, "try_files"):
        last = found.args[-1]
        for location in server.children("location"):
            if last.startswith("@") and location.args == (last,):
                return (location,)
        if last.startswith("/"):
            return _match(server, last.partition("?")[0])
    return chain


def _match(block: Directive, path: str) -> tuple[Directive, ...]:
    """The location that Nginx chooses (ngx_http_core_find_location), with those around it."""
    locations = [_Location.of(found) for found in block.children("location")]
    for location in locations:
        if location.modifier == "=" and location.pattern == path:
            return (location.directive,)
    prefixes = [
        location
        for location in locations
        if location.modifier in ("", "^~") and path.startswith(location.pattern)
    ]
    longest = max(prefixes, key=lambda location: len(location.pattern), default=None)
    inner: tuple[Directive, ...] = ()
    if longest is not None:
        inner = _match(longest.directive, path)
        settled = longest.modifier == "^~" or any(_Location.of(f).is_regex for f in inner[-1:])
        if settled:
            return (longest.directive, *inner)
    for location in locations:
        if location.is_regex and location.matches(path):
            return (location.directive, *_match(location.directive, path))
    return () if longest is None else (longest.directive, *inner)


@dataclass(frozen=True, slots=True)
class _Location:
    directive: Directive
    modifier: str
    pattern: str

    @classmethod
    def of(cls, directive: Directive) -> _Location:
        args = directive.args
        if len(args) > 1:
            return cls(directive, args[0], args[1])
        text = args[0] if args else ""
        # The modifier may touch its pattern: `location =/x`, `location ~*\.png$`.
        for modifier in sorted(_MODIFIERS, key=len, reverse=True):
            if text.startswith(modifier):
                return cls(directive, modifier, text.removeprefix(modifier))
        return cls(directive, "", text)

    @property
    def is_regex(self) -> bool:
        return self.modifier.startswith("~")

    def matches(self, path: str) -> bool:
        flags = re.IGNORECASE if self.modifier == "~*" else 0
        # PCRE names groups as Python does with a P; what else Python cannot read does not match.
        pattern = re.sub(r"\(\?<(?![=!])", "(?P<", self.pattern)
        try:
            return re.search(pattern, path, flags) is not None
        except re.error:
            return False
