"""The parameters of Caddy's spaces: reading from a configuration, and writing into it.

A parameter belongs to a server, to a handler that the workload passes, or to the environment of
the process, which is not part of a configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tuner.own import bound as bounds
from tuner.own.bound import BoundGroup, BoundSpace, OneParameter, UnplaceableError
from tuner.own.caddy.caddyfile import Setting
from tuner.own.caddy.following import protocol_of
from tuner.own.caddy.origin import CaddyOrigin, JsonChange
from tuner.own.caddy.serving import CaddyServing
from tuner.own.caddy.tree import ABSENT, Json, JsonPath, look, written
from tuner.reading.located import parse_duration_s, parse_size
from tuner.servers.caddy import binary_size, syntax
from tuner.space.configuration import Configuration
from tuner.space.space import Space, SpaceFacts

_WHOLE_DEFAULTS = (2, 11)
"""First version in which setting one field of ``keep_alive`` keeps the others' defaults."""
_NS = {"": 1e-9, "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"([0-9.]+)(ns|us|µs|ms|s|m|h|d)")
_MEMORY = re.compile(r"([0-9]+)(B|KiB|MiB|GiB|TiB)?")
_MEMORY_UNIT = {None: 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_TRANSPORT = (("transport", "http"),)


@dataclass(frozen=True, slots=True)
class CaddyScope:
    """The part of a configuration that holds parameters, with facts of the server."""

    origin: CaddyOrigin
    serving: CaddyServing
    facts: SpaceFacts

    def value(self, place: JsonPath) -> Json:
        """Return the value at a place of the configuration."""
        return look(self.origin.config, place)

    def setting(self, owners: Sequence[JsonPath], place: JsonPath) -> Json:
        """Return the common value of several owners at a place.

        Raises:
            UnplaceableError: the values differ.
        """
        found = {str(self.value((*owner, *place))): owner for owner in owners}
        if len(found) > 1:
            words = ", ".join(f"{written((*o, *place))} is {v}" for v, o in found.items())
            raise UnplaceableError(f"the workload's requests meet different values: {words}")
        return self.value((*owners[0], *place))

    def proxies(self) -> tuple[JsonPath, ...]:
        """Return the proxies that pass the workload's requests on.

        Raises:
            UnplaceableError: no proxy does.
        """
        if not self.serving.passed.proxies:
            raise UnplaceableError("no reverse_proxy answers the workload")
        return self.serving.passed.proxies

    def http_proxies(self) -> tuple[JsonPath, ...]:
        """Return the proxies that pass the workload's requests on by HTTP.

        Raises:
            UnplaceableError: no proxy does, or one of them speaks another protocol.
        """
        for place in self.proxies():
            protocol = protocol_of(self.value(place))
            if protocol != "http":
                raise UnplaceableError(f"{written(place)} speaks {protocol} to what is behind it")
        return self.proxies()


@dataclass(frozen=True, slots=True)
class Environment(OneParameter):
    """A variable of Caddy's process."""

    def read(self, scope: CaddyScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        text = scope.origin.home.variables.get(self.name.upper()) or None
        if text and self.name == "gomemlimit":
            found = _MEMORY.fullmatch(text)
            text = str(int(found[1]) * _MEMORY_UNIT[found[2]]) if found else text
        return {self.name: text}

    def edits(self, scope: CaddyScope, wanted: Mapping[str, str]) -> Iterator[JsonChange]:  # noqa: ARG002
        """Return no changes: the environment of the instance has the variable."""
        return iter(())


@dataclass(frozen=True, slots=True)
class IdleTimeout:
    """The idle timeout of a server: ``servers { timeouts { idle 5m } }``."""

    names: tuple[str, ...] = ("idle_timeout",)

    def read(self, scope: CaddyScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        return {self.names[0]: seconds(scope.value((*scope.serving.server, "idle_timeout")))}

    def edits(self, scope: CaddyScope, wanted: Mapping[str, str]) -> Iterator[JsonChange]:
        """Implement ``BoundGroup``."""
        text = wanted[self.names[0]]
        setting = Setting("idle", (text,), (("timeouts",),))
        yield JsonChange((scope.serving.server,), ("idle_timeout",), nanoseconds(text), setting)


@dataclass(frozen=True, slots=True)
class Transport(OneParameter):
    """One field of a proxy's transport: ``transport http { read_buffer 4KiB }``."""

    field: str
    key: str
    """Name of the field in a Caddyfile."""

    def read(self, scope: CaddyScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        found = scope.setting(scope.http_proxies(), ("transport", self.field))
        return {self.name: None if found is None else str(found)}

    def edits(self, scope: CaddyScope, wanted: Mapping[str, str]) -> Iterator[JsonChange]:
        """Implement ``BoundGroup``."""
        size = parse_size(wanted[self.name])
        text = binary_size(size) if self.field.endswith("_size") else str(size)
        # A 0 means what is compiled in, and Caddy itself does not write it.
        setting = Setting(self.key, (text,) if size else None, _TRANSPORT)
        yield from _http(scope) if size else ()
        yield JsonChange(scope.http_proxies(), ("transport", self.field), size or ABSENT, setting)


@dataclass(frozen=True, slots=True)
class Compression:
    """Compression between proxy and upstream: ``transport http { compression off }``."""

    names: tuple[str, ...] = ("upstream_compression",)

    def read(self, scope: CaddyScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        found = scope.setting(scope.http_proxies(), ("transport", "compression"))
        return {self.names[0]: "off" if found is False else "on"}

    def edits(self, scope: CaddyScope, wanted: Mapping[str, str]) -> Iterator[JsonChange]:
        """Implement ``BoundGroup``."""
        off = wanted[self.names[0]] == "off"
        setting = Setting("compression", ("off",) if off else None, _TRANSPORT)
        yield from _http(scope) if off else ()
        value = False if off else ABSENT
        yield JsonChange(scope.http_proxies(), ("transport", "compression"), value, setting)


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """Idle connections to upstreams: their number and timeout."""

    names: tuple[str, ...] = ("upstream_keepalive_connections", "upstream_keepalive_timeout")

    def read(self, scope: CaddyScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        kept = scope.setting(scope.http_proxies(), ("transport", "keep_alive")) or {}
        if kept.get("enabled") is False:
            where = written((*scope.http_proxies()[0], "transport", "keep_alive"))
            raise UnplaceableError(f"{where} is off; take `keepalive off` out to have it searched")
        count, idle = kept.get("max_idle_conns_per_host"), kept.get("idle_timeout")
        if kept and scope.facts.server_version < _WHOLE_DEFAULTS:
            # What Go's own transport has (net/http, DefaultMaxIdleConnsPerHost).
            count, idle = count or 2, idle or 0
        return {
            self.names[0]: None if count is None else str(count),
            self.names[1]: seconds(idle),
        }

    def edits(self, scope: CaddyScope, wanted: Mapping[str, str]) -> Iterator[JsonChange]:
        """Implement ``BoundGroup``."""
        count, idle = (wanted.get(name) for name in self.names)
        kept: JsonPath = ("transport", "keep_alive")
        yield from _http(scope)
        if idle is not None:
            setting = Setting("keepalive", (idle,), _TRANSPORT)
            yield JsonChange(
                scope.http_proxies(), (*kept, "idle_timeout"), nanoseconds(idle), setting
            )
        if count is not None:
            setting = Setting("keepalive_idle_conns_per_host", (count,), _TRANSPORT)
            place = (*kept, "max_idle_conns_per_host")
            yield JsonChange(scope.http_proxies(), place, int(count), setting)


@dataclass(frozen=True, slots=True)
class Flush:
    """Immediate flushing of answers: ``flush_interval -1``."""

    names: tuple[str, ...] = ("flush_immediately",)

    def read(self, scope: CaddyScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        found = scope.setting(scope.proxies(), ("flush_interval",))
        if found not in (None, -1):
            raise UnplaceableError(f"flush_interval is {seconds(found)}, which the search has not")
        return {self.names[0]: "on" if found == -1 else "off"}

    def edits(self, scope: CaddyScope, wanted: Mapping[str, str]) -> Iterator[JsonChange]:
        """Implement ``BoundGroup``."""
        on = wanted[self.names[0]] == "on"
        setting = Setting("flush_interval", ("-1",) if on else None)
        yield JsonChange(scope.proxies(), ("flush_interval",), -1 if on else ABSENT, setting)


@dataclass(frozen=True, slots=True)
class Policy:
    """The load-balancing policy: ``lb_policy round_robin``."""

    names: tuple[str, ...] = ("lb_policy",)

    def read(self, scope: CaddyScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        found = scope.setting(scope.proxies(), ("load_balancing", "selection_policy"))
        return {self.names[0]: found.get("policy") if found else None}

    def edits(self, scope: CaddyScope, wanted: Mapping[str, str]) -> Iterator[JsonChange]:
        """Implement ``BoundGroup``."""
        name = wanted[self.names[0]]
        place: JsonPath = ("load_balancing", "selection_policy")
        setting = Setting("lb_policy", (name,))
        yield JsonChange(scope.proxies(), place, {"policy": name}, setting)


@dataclass(frozen=True, slots=True)
class Encode:
    """Compression of answers, which is fixed; other parameters depend on it."""

    names: tuple[str, ...] = ("encode",)

    def read(self, scope: CaddyScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        return {"encode": "on" if scope.serving.passed.encodes else "off"}

    def edits(self, scope: CaddyScope, wanted: Mapping[str, str]) -> Iterator[JsonChange]:  # noqa: ARG002
        """Return no changes: the parameter is fixed."""
        return iter(())


@dataclass(frozen=True, slots=True)
class EncoderLevel(OneParameter):
    """The level of one format: ``encode { gzip 5 }``."""

    format: str

    def read(self, scope: CaddyScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        owners = scope.serving.passed.encodes
        if not owners:
            return {self.name: None}
        formats = scope.setting(owners, ("encodings",)) or {}
        if self.format not in formats:
            raise UnplaceableError(f"{written(owners[0])} does not compress with {self.format}")
        level = (formats[self.format] or {}).get("level")
        return {self.name: None if level is None else str(level)}

    def edits(self, scope: CaddyScope, wanted: Mapping[str, str]) -> Iterator[JsonChange]:
        """Implement ``BoundGroup``."""
        text, owners = wanted[self.name], scope.serving.passed.encodes
        value = int(text) if text.isdigit() else text
        formats = scope.setting(owners, ("prefer",)) or list(scope.setting(owners, ("encodings",)))
        setting = Setting(self.format, (text,), formats=tuple(formats))
        yield JsonChange(owners, ("encodings", self.format, "level"), value, setting)


@dataclass(frozen=True, slots=True)
class MinimumLength:
    """The least size of a compressed answer: ``encode { minimum_length 512 }``."""

    names: tuple[str, ...] = ("encode_minimum_length",)

    def read(self, scope: CaddyScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        owners = scope.serving.passed.encodes
        found = scope.setting(owners, ("minimum_length",)) if owners else None
        # Caddy takes a 0 for its default.
        return {self.names[0]: str(found) if found else None}

    def edits(self, scope: CaddyScope, wanted: Mapping[str, str]) -> Iterator[JsonChange]:
        """Implement ``BoundGroup``."""
        size = parse_size(wanted[self.names[0]])
        setting = Setting("minimum_length", (str(size),))
        yield JsonChange(scope.serving.passed.encodes, ("minimum_length",), size, setting)


GROUPS: tuple[BoundGroup[CaddyScope, JsonChange], ...] = (
    *map(Environment, syntax.environment),
    IdleTimeout(),
    Encode(),
    EncoderLevel("encode_gzip_level", "gzip"),
    EncoderLevel("encode_zstd_level", "zstd"),
    MinimumLength(),
    KeepAlive(),
    Transport("upstream_connections", "max_conns_per_host", "max_conns_per_host"),
    Transport("upstream_read_buffer", "read_buffer_size", "read_buffer"),
    Transport("upstream_write_buffer", "write_buffer_size", "write_buffer"),
    Compression(),
    Flush(),
    Policy(),
)

_ASIDE = "is left as it is: what clients or operators get is nothing to be tuned"
UNPLACED: Mapping[str, str] = MappingProxyType(
    {
        "access_log": _ASIDE,
        "access_log_sampling": _ASIDE,
        "curves": _ASIDE,
        "early_data": _ASIDE,
        "precompressed": "is left as it is: it belongs to the site's files",
    }
)
"""Parameters of the spaces that are not read from a configuration, with the reason."""


def bind(
    space: Space,
    origin: CaddyOrigin,
    serving: CaddyServing,
    aside: Mapping[str, str] = MappingProxyType({}),
) -> BoundSpace:
    """Return the space bound to a configuration of Caddy; see ``bound.bind``.

    Args:
        space: the parameters.
        origin: the configuration.
        serving: the part of it that the workload reaches.
        aside: further parameters that are not read, with the reason.

    Raises:
        DefinitionError: the configuration has no place for any parameter.
    """
    scope = CaddyScope(origin, serving, space.facts)
    groups = [group for group in GROUPS if not aside.keys() & set(group.names)]
    return bounds.bind(space, groups, scope, unplaced={**UNPLACED, **aside}, path=origin.file)


def changes(
    bound: BoundSpace,
    origin: CaddyOrigin,
    serving: CaddyServing,
    configuration: Configuration,
    *,
    reference: Configuration | None = None,
) -> Iterator[JsonChange]:
    """Yield the changes from the user's configuration to another one; see ``bound.changed``."""
    scope = CaddyScope(origin, serving, bound.space.facts)
    whole = scope.facts.server_version >= _WHOLE_DEFAULTS
    for group, wanted in bounds.changed(
        bound,
        GROUPS,
        configuration,
        reference=reference,
        apart=lambda group: whole or not isinstance(group, KeepAlive),
    ):
        yield from group.edits(scope, wanted)


def seconds(found: Json) -> str | None:
    """Return a duration of the JSON, in nanoseconds or Go's notation (``1m30s``), in seconds."""
    if found is None:
        return None
    text = str(found)
    parts = _DURATION.findall(text)
    day = {"d": 86_400.0}
    total = (
        sum(float(number) * {**_NS, **day}[unit] for number, unit in parts)
        if parts
        else float(text) * _NS[""]
    )
    return f"{total:g}s"


def nanoseconds(text: str) -> int:
    """Return a duration in the notation of a Caddyfile in nanoseconds."""
    return round(parse_duration_s(text) * 1e9)


def _http(scope: CaddyScope) -> Iterator[JsonChange]:
    """Yield the name of the transport, which every field of it requires."""
    for owner in scope.http_proxies():
        if scope.value((*owner, "transport", "protocol")) is None:
            yield JsonChange((owner,), ("transport", "protocol"), "http", None)
