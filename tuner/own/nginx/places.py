"""Places of parameters in an Nginx configuration, present or possible.

A parameter's place is where Nginx finds it for the workload's answers: the innermost level with its
directive. An existing directive is changed there. A missing one is added to the ``http`` block, or
to the location that proxies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tuner.own import bound as bounds
from tuner.own.bound import OneParameter, UnplaceableError
from tuner.own.nginx.edits import Edit, Insert, Remove, Set
from tuner.own.nginx.locations import effective, innermost, passed
from tuner.own.nginx.serving import NginxServing, address_of, servers
from tuner.own.nginx.tree import Directive
from tuner.space.space import SpaceFacts

ContextLevel = Literal[
    "main", "events", "request", "server", "proxy", "fastcgi", "uwsgi", "scgi", "grpc"
]

SOCKET_OPTIONS = (
    *("setfib", "fastopen", "backlog", "rcvbuf", "sndbuf", "accept_filter", "deferred", "bind"),
    *("ipv6only", "reuseport", "so_keepalive", "multipath"),
)
"""Socket options that apply once to an address, from any server block
(https://nginx.org/en/docs/http/ngx_http_core_module.html#listen).
"""


@dataclass(frozen=True, slots=True)
class NginxScope:
    """The part of a configuration that holds parameters, with facts of the server."""

    serving: NginxServing
    facts: SpaceFacts


@dataclass(frozen=True, slots=True)
class DirectiveSpot:
    """A place where a directive applies to the workload."""

    chain: tuple[Directive, ...]
    """The enclosing blocks, outermost first."""
    into: Directive | None
    """Block for a missing directive; None: the main file."""

    def found(self, *names: str) -> tuple[Directive, ...]:
        """Return the directives of these names in effect here."""
        return effective(self.chain, *names)

    def put(self, name: str, *args: str) -> Edit:
        """Return the edit that sets the directive's arguments."""
        found = self.found(name)
        return Set(found[-1], args) if found else Insert(self.into, name, args)


def spots(serving: NginxServing, level: ContextLevel) -> list[DirectiveSpot]:
    """Return the places of a level.

    Raises:
        UnplaceableError: the configuration has no such level.
    """
    match level:
        case "main":
            root = Directive("", (), serving.tree.file, 1, serving.tree.directives)
            return [DirectiveSpot((root,), None)]
        case "events":
            return [DirectiveSpot((block,), block) for block in serving.tree.children("events")]
        case "request":
            return [DirectiveSpot(chain, serving.http) for chain in serving.chains]
        case "server":
            return [DirectiveSpot((serving.http, serving.server), serving.server)]
        case _:
            return _passing(serving, f"{level}_pass")


def _passing(serving: NginxServing, name: str) -> list[DirectiveSpot]:
    """Return the locations that pass requests on by a directive; others may use another one.

    Raises:
        UnplaceableError: there is none, or a location passes no requests on.
    """
    chains = [chain for chain in serving.chains if any(chain[-1].children(name))]
    for chain in serving.chains:
        if not chains or passed(chain[-1]) is None:
            raise UnplaceableError(f"{chain[-1].where} has no {name}")
    return [DirectiveSpot(chain, innermost(chain)) for chain in chains]


def agreed(values: Mapping[Directive | None, str | None]) -> str | None:
    """Return the one value of several places.

    Raises:
        UnplaceableError: they differ.
    """
    return bounds.agreed(
        (found.where if found else "elsewhere", value) for found, value in values.items()
    )


@dataclass(frozen=True, slots=True)
class Plain(OneParameter):
    """A directive with one value: ``sendfile on``. Further arguments stay unchanged."""

    level: ContextLevel = "request"
    directive: str = ""
    """Name of the directive; empty: the parameter's."""

    @property
    def word(self) -> str:
        """The directive's name."""
        return self.directive or self.name

    def read(self, scope: NginxScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        values: dict[Directive | None, str | None] = {}
        for spot in spots(scope.serving, self.level):
            found = spot.found(self.word)
            values[found[-1] if found else None] = found[-1].args[0] if found else None
        return {self.name: agreed(values)}

    def edits(self, scope: NginxScope, wanted: Mapping[str, str]) -> Iterator[Edit]:
        """Implement ``BoundGroup``."""
        if self.name not in wanted:
            return
        for spot in spots(scope.serving, self.level):
            found = spot.found(self.word)
            rest = found[-1].words[2:] if found else ()
            yield spot.put(self.word, wanted[self.name], *rest)


@dataclass(frozen=True, slots=True)
class Pair:
    """A directive with two values: ``output_buffers 2 32k``."""

    names: tuple[str, str]
    directive: str
    level: ContextLevel = "request"

    def read(self, scope: NginxScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        both: list[dict[Directive | None, str | None]] = [{}, {}]
        for spot in spots(scope.serving, self.level):
            found = spot.found(self.directive)
            for values, at in zip(both, (0, 1), strict=True):
                values[found[-1] if found else None] = found[-1].args[at] if found else None
        return {name: agreed(values) for name, values in zip(self.names, both, strict=True)}

    def edits(self, scope: NginxScope, wanted: Mapping[str, str]) -> Iterator[Edit]:
        """Implement ``BoundGroup``."""
        if not all(name in wanted for name in self.names):
            return
        for spot in spots(scope.serving, self.level):
            yield spot.put(self.directive, *(wanted[name] for name in self.names))


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """Options of the listening socket: ``reuseport``, ``backlog=4096``. One directive has all."""

    flags: tuple[str, ...]
    valued: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Implement ``BoundGroup``."""
        return (*self.flags, *self.valued)

    def read(self, scope: NginxScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        if scope.serving.listen is None:
            where = scope.serving.server.where
            raise UnplaceableError(f"{where} has no listen directive; add: listen 80;")
        options = socket_options(scope.serving.http, scope.serving.listen)
        said = dict(word.partition("=")[::2] for word in options)
        flags = {name: "on" if name in said else "off" for name in self.flags}
        return {**flags, **{name: said.get(name) for name in self.valued}}

    def edits(self, scope: NginxScope, wanted: Mapping[str, str]) -> Iterator[Edit]:
        """Implement ``BoundGroup``."""
        added = [name for name in self.flags if wanted.get(name) == "on"]
        added += [f"{n}={wanted[n]}" for n in self.valued if wanted.get(n, "off") != "off"]
        for address in {listen.args[0]: listen for listen in scope.serving.listens}.values():
            at = _holder(scope.serving.http, address)
            kept = [word for word in at.words[1:] if word.partition("=")[0] not in wanted]
            yield Set(at, (*kept, *added))


def socket_options(http: Directive, listen: Directive) -> tuple[str, ...]:
    """Return the options of a socket, from any server."""
    return tuple(word for word in _holder(http, listen).args[1:] if _is_option(word))


def _holder(http: Directive, listen: Directive) -> Directive:
    """Return the directive that sets this socket's options; by default the directive itself."""
    for other in (found for server in servers(http) for found in server.children("listen")):
        same = address_of(other.args[0]) == address_of(listen.args[0])
        if same and "quic" not in other.args and any(map(_is_option, other.args[1:])):
            return other
    return listen


def _is_option(word: str) -> bool:
    return word.partition("=")[0] in SOCKET_OPTIONS


def removed(found: Sequence[Directive]) -> Iterator[Edit]:
    """Yield the removal of directives."""
    return (Remove(directive) for directive in found)
