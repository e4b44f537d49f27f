"""The server block and the location that answer a request.

Only the rules that decide where a request ends up are followed: server names, listening sockets and
locations. https://nginx.org/en/docs/http/request_processing.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tuner.errors import DefinitionError
from tuner.own.nginx.answerable import Answering
from tuner.own.nginx.locations import PASSES, is_url, leaves, route
from tuner.own.nginx.tree import Directive, Tree

_REDIRECTS = range(300, 400)
_URL = re.compile(r"(?:https?|\$scheme)://([^/?$]*)")
_OWN_NAME = re.compile(r"\$\{?(host|http_host|server_name)\b")
"""Variables in a redirect that keep the requested name."""
_ANY_PATH = ("^", "^/", "^(.*)$", "^(.*)", "^/(.*)$", "^/(.*)", ".*", "(.*)", "/")
"""Expressions of ``rewrite`` that match every path."""


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
    notes: tuple[str, ...] = ()
    """Notes on the choice of the server."""

    @property
    def blocks(self) -> tuple[Directive, ...]:
        """The innermost blocks, each once."""
        return tuple({chain[-1].key: chain[-1] for chain in self.chains}.values())

    def upstream(self, name: str) -> Directive | None:
        """Return the ``upstream`` block of that name."""
        found = (block for block in self.http.children("upstream") if block.args[:1] == (name,))
        return next(found, None)


def serving(
    tree: Tree,
    paths: Sequence[str],
    *,
    server_name: str,
    tls: bool,
    proxied: bool,
    lab: Answering | None = None,
) -> NginxServing:
    """Choose the server, its socket, and the location of every path.

    Args:
        tree: the configuration.
        paths: what the workload asks for.
        server_name: chosen by the user; empty: the default server, or the first that the lab can
            answer for, that does more than redirect.
        tls: whether the workload asks over TLS. A server that speaks nothing else is asked over
            TLS all the same; see ``NginxServing.tls``.
        proxied: whether a server behind this one answers.
        lab: what the lab can answer; None: the server answers with all that it has.

    Raises:
        DefinitionError: there is no such server, or it does not do what the workload asks.
    """
    http = tree.http()
    lacking = f"; {', '.join(tree.unmatched)}: put the sites there" if tree.unmatched else ""
    found = _Choice(http, tuple(paths), tls=tls, proxied=proxied, lab=lab, lacking=lacking)
    server, notes = found.of(server_name)
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
    chains = {tuple(found.key for found in chain): chain for chain in found.chains(server)}
    made = NginxServing(tree, http, server, listen, same, tls, tuple(chains.values()), notes)
    if lab is not None:
        lab.check(http, server, paths, proxied=proxied)
    return made


def is_tls(listen: Directive, server: Directive) -> bool:
    """Return whether a socket speaks TLS; ``ssl on`` said it for a whole server until 1.25.1."""
    old = any(found.args == ("on",) for found in server.children("ssl"))
    return old or "ssl" in listen.args


def servers(http: Directive) -> Iterator[Directive]:
    """Yield the ``server`` blocks, in order."""
    return http.children("server")


def count_sites(http: Directive) -> int:
    """Return the number of sites: servers that serve pages; those of the same names count once."""
    found = (server for server in servers(http) if not _only_redirects(server))
    return len({tuple(sorted(names(server))) or server.key for server in found})


def names(server: Directive) -> list[str]:
    """Its names."""
    return [name for found in server.children("server_name") for name in found.args]


def covers(name: str, wanted: str) -> bool:
    """Return whether a ``server_name`` is for a host: exact, with a wildcard, or an expression.

    https://nginx.org/en/docs/http/server_names.html
    """
    if name.startswith("~"):
        try:
            return re.search(name[1:].replace("(?<", "(?P<"), wanted) is not None
        except re.error:
            return False
    if name.startswith("."):
        return wanted == name[1:] or wanted.endswith(name)
    if name.startswith("*."):
        return wanted.endswith(name[1:])
    if name.endswith(".*"):
        return wanted.startswith(name[:-1])
    return name == wanted


def address_of(listen: str) -> str:
    """Normalise an address: ``80``, ``*:80`` and ``0.0.0.0:80`` are one socket."""
    for anywhere in ("*:", "0.0.0.0:"):
        listen = listen.removeprefix(anywhere)
    return listen if not listen.replace(".", "").isalpha() else f"{listen}:80"


def _is_http(listen: Directive) -> bool:
    return "quic" not in listen.args and not listen.args[0].startswith("unix:")


@dataclass(frozen=True, slots=True)
class _Choice:
    """The choice of a server for a workload."""

    http: Directive
    paths: tuple[str, ...]
    tls: bool
    proxied: bool
    lab: Answering | None
    lacking: str = ""
    """Files of sites that are not there, for messages."""

    def of(self, wanted: str) -> tuple[Directive, tuple[str, ...]]:
        """Return the server for a name, and notes on it.

        Raises:
            DefinitionError: there is none.
        """
        found = list(servers(self.http))
        if not found:
            raise self._error(f"the http block has no server{self.lacking}")
        if wanted:
            return self._named(wanted, found)
        serve = [server for server in found if not _only_redirects(server)]
        if not serve:
            raise self._error(
                "every server here only redirects or refuses; name the file of the server that"
                " answers (--config), or add its server block"
            )
        # `min` takes the first of equals, so the order of the file decides last, as for Nginx.
        return min(serve, key=lambda server: (*self._rank(server), not _is_default(server))), ()

    def chains(self, server: Directive) -> list[tuple[Directive, ...]]:
        """Return the blocks around the answer to every path."""
        return [
            (self.http, server, *route(server, path.partition("?")[0], proxied=self.proxied))
            for path in self.paths
        ]

    def _named(self, wanted: str, found: Sequence[Directive]) -> tuple[Directive, tuple[str, ...]]:
        named = _named(found, wanted)
        if not named:
            known = sorted({name for server in found for name in names(server)})
            raise DefinitionError(
                f"no server is called {wanted!r}; here are: {', '.join(known) or 'none'}",
                path="--server-name",
            )
        notes = []
        answering = [server for server in named if not _only_redirects(server)]
        if not answering:
            answering, target = self._followed(wanted, named, found)
            notes.append(f"{named[0].where}: {wanted} redirects to {target}, which is tuned")
        heard, hidden = _heard(answering, wanted)
        notes += [
            f"{server.where}: Nginx ignores {wanted} here, because {first.where} has the same name"
            " and address"
            for server, first in hidden
        ]
        # The same name often stands twice: in cleartext, and for TLS.
        return min(heard, key=self._rank), tuple(notes)

    def _followed(
        self, wanted: str, named: Sequence[Directive], found: Sequence[Directive]
    ) -> tuple[list[Directive], str]:
        """Return the servers that a redirect leads to, and their name."""
        for server in named:
            target = _redirect(server)
            at = [one for one in _named(found, target) if not _only_redirects(one)]
            if at:
                return at, target
        others = [
            name
            for server in found
            if not _only_redirects(server)
            for name in names(server)
            if name and name[0] not in "~_*."
        ]
        raise DefinitionError(
            f"every server called {wanted!r} only redirects or refuses ({named[0].where}); name one"
            f" that answers: {', '.join(sorted(set(others))) or 'there is none in these files'}",
            path="--server-name",
        )

    def _rank(self, server: Directive) -> tuple[bool, bool]:
        """Return the rank of a server; the least is the best."""
        fits = self.lab is None or not any(map(self.lab.why_not, self.chains(server)))
        return not fits, not _speaks(server, tls=self.tls)

    def _error(self, message: str) -> DefinitionError:
        return DefinitionError(message, path=self.http.file, line=self.http.line)


def _named(found: Sequence[Directive], wanted: str) -> list[Directive]:
    """Return the servers for a name: those that have it, else those with a pattern for it."""
    exact = [server for server in found if wanted in names(server)]
    return exact or [
        server for server in found if any(covers(name, wanted) for name in names(server))
    ]


def _heard(
    found: Sequence[Directive], name: str
) -> tuple[list[Directive], list[tuple[Directive, Directive]]]:
    """Return the servers that Nginx asks for a name, and the others with the first of each.

    The first of several servers with one name at one address is asked
    (``conflicting server name``, ngx_http_add_server).
    """
    first: dict[str, Directive] = {}
    heard: list[Directive] = []
    hidden: list[tuple[Directive, Directive]] = []
    for server in found:
        at = [address_of(listen.args[0]) for listen in server.children("listen")] or ["80"]
        taken = [first[address] for address in at if address in first]
        if name in names(server) and len(taken) == len(at):
            hidden.append((server, taken[0]))
            continue
        heard.append(server)
        for address in at:
            first.setdefault(address, server)
    return heard, hidden


def _speaks(server: Directive, *, tls: bool) -> bool:
    sockets = [listen for listen in server.children("listen") if _is_http(listen)]
    return any(is_tls(listen, server) == tls for listen in sockets) or not (sockets or tls)


def _is_default(server: Directive) -> bool:
    return any(
        word in listen.args
        for listen in server.children("listen")
        for word in ("default_server", "default")
    )


def _answers(server: Directive) -> Iterator[Directive]:
    """Yield the directives that answer every request of a server without a page."""
    yield from (found for found in server.children("return") if _is_answer(found, server))
    for found in server.children("rewrite"):
        if found.args[0] in _ANY_PATH and leaves(found):
            yield found
    for location in server.children("location"):
        if location.args == ("/",):
            for found in location.children("return"):
                away = any(map(is_url, found.args)) or not _serves_below(server)
                if away and _is_answer(found, server, location):
                    yield found
            rewrites = location.children("rewrite")
            yield from (r for r in rewrites if r.args[0] in _ANY_PATH and is_url(r.args[1]))


def _serves_below(server: Directive) -> bool:
    """Return whether other locations than ``/`` have pages, not counting those of ACME."""
    others = (
        location
        for location in server.children("location")
        if location.args[-1] != "/" and "well-known" not in location.args[-1]
    )
    return any(True for location in others for _ in location.children(*PASSES, "root", "alias"))


def _only_redirects(server: Directive) -> bool:
    """Return whether every request gets a redirect, or is turned away: no page comes from here."""
    return any(True for _ in _answers(server))


def _redirect(server: Directive) -> str:
    """Return the host that a server redirects to; empty if it is not a plain name."""
    for found in _answers(server):
        for word in found.args:
            target = _URL.match(word)
            if target and target[1]:
                return target[1]
            if target and _OWN_NAME.match(word, target.end()):
                return next(iter(names(server)), "")
    return ""


def _is_answer(found: Directive, *around: Directive) -> bool:
    code = found.args[0] if found.args else ""
    # `return 418` with an error_page is a jump to a location.
    jumps = any(code in page.args[:-1] for block in around for page in block.children("error_page"))
    return not code.isdigit() or int(code) in _REDIRECTS or (int(code) >= 400 and not jumps)
