"""The parameters of Nginx's spaces: how each is read from a configuration, and written into it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from tuner.configuration import Configuration, Value
from tuner.errors import DefinitionError
from tuner.own.compound import (
    AccessLog,
    KeptUpstreams,
    OpenFileCache,
    ProxyBuffers,
    WorkerAffinity,
    WorkerConnections,
    WorkerProcesses,
)
from tuner.own.edits import Edit
from tuner.own.places import Group, ListenOptions, Pair, Plain, Scope, UnplacedError
from tuner.own.serving import Serving
from tuner.own.tls_and_disk import FileThreads, KernelTls, SessionCache
from tuner.parameter import OWN, Parameter
from tuner.space import Space

GROUPS: tuple[Group, ...] = (
    WorkerProcesses(),
    WorkerAffinity(),
    WorkerConnections(),
    Plain("multi_accept", "events"),
    Plain("accept_mutex", "events"),
    ListenOptions(flags=("reuseport", "deferred"), valued=("backlog", "fastopen")),
    Plain("keepalive_requests"),
    Plain("keepalive_timeout"),
    Plain("sendfile"),
    Plain("tcp_nopush"),
    Plain("tcp_nodelay"),
    Plain("sendfile_max_chunk"),
    Plain("postpone_output"),
    Plain("directio"),
    Pair(("output_buffers_number", "output_buffers_size"), "output_buffers"),
    OpenFileCache(),
    Plain("open_file_cache_valid"),
    Plain("open_file_cache_min_uses"),
    AccessLog(),
    Plain("gzip"),
    Plain("gzip_comp_level"),
    Plain("gzip_static"),
    FileThreads(),
    KernelTls(),
    SessionCache(),
    Plain("ssl_buffer_size", "server"),
    Plain("http2_chunk_size"),
    Plain("http2_max_concurrent_streams", "server"),
    Plain("http2_recv_buffer_size", "server"),
    Plain("http3_stream_buffer_size", "server"),
    Plain("http3_max_concurrent_streams", "server"),
    Plain("quic_gso", "server"),
    KeptUpstreams(),
    Plain("upstream_keepalive_requests", "upstream", "keepalive_requests"),
    Plain("upstream_keepalive_timeout", "upstream", "keepalive_timeout"),
    ProxyBuffers(),
    Plain("proxy_buffering", "proxy"),
    Plain("proxy_max_temp_file_size", "proxy"),
)

UNPLACED: Mapping[str, str] = MappingProxyType(
    {
        "gzip_types": "is left as it is: what is compressed is nothing to be tuned",
        "x_forwarded_for": "is left as it is: what applications are told is nothing to be tuned",
    }
)
"""Parameters of the spaces that cannot be found in a configuration, with the reason."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A space with the user's configuration as one of its baselines."""

    space: Space
    """Without the parameters that cannot be changed in this configuration."""
    baseline: Configuration
    said: Mapping[str, Value]
    """What the configuration says of each parameter, or what is compiled in."""


def bind(space: Space, serving: Serving) -> Bound:
    """Read every parameter's value from a configuration.

    A parameter that cannot be read or changed is left out of the space with the reason, and so is
    what depends on it: both arms of every comparison keep what the user wrote.

    Raises:
        DefinitionError: nothing of the space is left.
    """
    said: dict[str, Value] = {}
    lost: dict[str, str] = {}
    for group in groups(space):
        try:
            said.update(_read(space, group, serving))
        except UnplacedError as error:
            lost.update(dict.fromkeys(_names(space, group), f"stays as you have it: {error}"))
    for parameter in space.parameters:
        if parameter.name not in said and parameter.name not in lost:
            lost[parameter.name] = UNPLACED.get(
                parameter.name, "cannot be looked for in a file of yours"
            )
        for name in _needed(parameter):
            if name in lost and parameter.name not in lost:
                lost[parameter.name] = f"depends on {name}, which is left out"
    kept = tuple(
        _own(found, said[found.name]) for found in space.parameters if found.name not in lost
    )
    if not kept:
        raise DefinitionError(
            f"no parameter of {space.name} can be changed here: "
            + "; ".join(f"{name} {reason}" for name, reason in lost.items()),
            path=serving.tree.file,
        )
    bound = replace(
        space,
        parameters=kept,
        orders=tuple(order for order in space.orders if not order.names & lost.keys()),
        left_out=(*space.left_out, *lost.items()),
    )
    values = {found.name: said[found.name] for found in kept}
    baseline = bound.complete(values, Configuration.of(space.name, {}))
    return Bound(bound, baseline, MappingProxyType(values))


def changes(
    bound: Bound,
    serving: Serving,
    configuration: Configuration,
    *,
    reference: Configuration | None = None,
) -> Iterator[Edit]:
    """The changes that turn the user's configuration into another one.

    Args:
        bound: the space and what the user's files say.
        serving: where the parameters stand.
        configuration: what is wanted.
        reference: what counts as the user's own; by default what the files say. The baseline
            differs from that where a floor of the lab raised a value.
    """
    own = {**bound.said, **(reference.values if reference else {})}
    values = configuration.values
    for group in groups(bound.space):
        names = [name for name in _names(bound.space, group) if name in values]
        changed = [name for name in names if values[name] != own[name]]
        if changed:
            # Options of a socket stand side by side and need nothing of each other.
            names = changed if isinstance(group, ListenOptions) else names
            wanted = {name: bound.space.parameter(name).format(values[name]) for name in names}
            yield from group.edits(Scope(serving, bound.space.facts), wanted)


def groups(space: Space) -> Iterator[Group]:
    """The groups that hold parameters of a space."""
    return (group for group in GROUPS if _names(space, group))


def _names(space: Space, group: Group) -> list[str]:
    known = {parameter.name for parameter in space.parameters}
    return [name for name in group.names if name in known]


def _read(space: Space, group: Group, serving: Serving) -> dict[str, Value]:
    texts = group.read(Scope(serving, space.facts))
    found: dict[str, Value] = {}
    for name in _names(space, group):
        parameter, text = space.parameter(name), texts[name]
        if text is None:
            found[name] = parameter.defaults["stock"]
            continue
        try:
            found[name] = parameter.read(text)
        except ValueError:
            raise UnplacedError(f"{name} is {text}, which the search has no word for") from None
        if parameter.kind == "choice" and text not in (*parameter.choices, *parameter.special):
            raise UnplacedError(f"{name} is {text}; known are {parameter.allowed}")
    return found


def _needed(parameter: Parameter) -> list[str]:
    """The parameters that its conditions refer to."""
    either = (condition for group in parameter.either for condition in group)
    return [condition.parameter for condition in (*parameter.when, *either)]


def _own(parameter: Parameter, value: Value) -> Parameter:
    """The parameter with the user's value as a default, which is allowed whatever the range."""
    return replace(parameter, defaults={**parameter.defaults, OWN: value})
