"""Envoy as a host's service: settings of the lab in its own file, for ``tuner apply``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from tuner.own import bound as bounds
from tuner.own.bound import BoundGroup, BoundSpace
from tuner.own.envoy.places import (
    Breaker,
    ConnectionBalance,
    EnvoyEdit,
    EnvoyField,
    UpstreamOption,
    edited,
)
from tuner.own.envoy.serving import EnvoyServing, serving
from tuner.own.envoy.tree import EnvoyFile, read
from tuner.own.files import Files
from tuner.own.home import Home
from tuner.own.patch import plain
from tuner.own.reader import Commands, FoundService
from tuner.space.configuration import Configuration
from tuner.space.parameter import Parameter
from tuner.space.space import Space

_AUTO = MappingProxyType({"auto": "null"})
_HTTP2 = "http2_protocol_options"
_QUIC = ("http3_protocol_options", "quic_protocol_options")
_COMMON = "common_http_protocol_options"

GROUPS: tuple[BoundGroup[EnvoyServing, EnvoyEdit], ...] = (
    EnvoyField("enable_reuse_port", "listener", ("enable_reuse_port",)),
    ConnectionBalance(),
    EnvoyField("tcp_backlog_size", "listener", ("tcp_backlog_size",), _AUTO),
    EnvoyField(
        "max_connections_to_accept_per_socket_event",
        "listener",
        ("max_connections_to_accept_per_socket_event",),
        _AUTO,
    ),
    EnvoyField(
        "tcp_fast_open_queue_length", "listener", ("tcp_fast_open_queue_length",), {"off": "0"}
    ),
    EnvoyField(
        "per_connection_buffer_limit_bytes",
        "every listener",
        ("per_connection_buffer_limit_bytes",),
    ),
    EnvoyField("upstream_buffer_limit_bytes", "cluster", ("per_connection_buffer_limit_bytes",)),
    EnvoyField("http2_max_concurrent_streams", "manager", (_HTTP2, "max_concurrent_streams")),
    EnvoyField(
        "http2_initial_stream_window_size", "manager", (_HTTP2, "initial_stream_window_size")
    ),
    EnvoyField(
        "http2_initial_connection_window_size",
        "manager",
        (_HTTP2, "initial_connection_window_size"),
    ),
    EnvoyField("http2_hpack_table_size", "manager", (_HTTP2, "hpack_table_size")),
    EnvoyField("quic_max_concurrent_streams", "quic manager", (*_QUIC, "max_concurrent_streams")),
    EnvoyField(
        "quic_initial_stream_window_size", "quic manager", (*_QUIC, "initial_stream_window_size")
    ),
    EnvoyField(
        "quic_initial_connection_window_size",
        "quic manager",
        (*_QUIC, "initial_connection_window_size"),
    ),
    EnvoyField("idle_timeout", "every manager", (_COMMON, "idle_timeout")),
    UpstreamOption("upstream_idle_timeout", "cluster", (_COMMON, "idle_timeout")),
    UpstreamOption(
        "max_requests_per_connection", "cluster", (_COMMON, "max_requests_per_connection")
    ),
    EnvoyField(
        "per_upstream_preconnect_ratio",
        "cluster",
        ("preconnect_policy", "per_upstream_preconnect_ratio"),
    ),
    EnvoyField(
        "connection_pool_per_downstream_connection",
        "cluster",
        ("connection_pool_per_downstream_connection",),
    ),
    EnvoyField("generate_request_id", "every manager", ("generate_request_id",)),
    EnvoyField("suppress_envoy_headers", "router", ("suppress_envoy_headers",)),
    EnvoyField("dynamic_stats", "router", ("dynamic_stats",)),
    EnvoyField("stats_flush_interval", "root", ("stats_flush_interval",)),
    Breaker("max_connections", "cluster", ("max_connections",)),
    Breaker("max_pending_requests", "cluster", ("max_pending_requests",)),
    Breaker("max_requests", "cluster", ("max_requests",)),
)
UNPLACED: Mapping[str, str] = MappingProxyType(
    {
        "concurrency": "is an option of Envoy's command line, which is in none of its files",
        "connect_timeout": "is not tuned: it decides how long a lost backend is waited for",
        "request_timeout": "is not tuned: it decides how long slow clients may take",
        "max_heap_size_bytes": "is not tuned: it decides which requests an overload refuses",
        "max_active_downstream_connections": "is not tuned: it decides which clients are refused",
        "normalize_path": "is not tuned: it decides which requests rules apply to",
        "access_log": "is not tuned: it decides what is logged",
        "x_forwarded_for": "is not tuned: it decides which addresses the backend sees",
        "lb_policy": "is not tuned: it decides which backend answers",
        "early_data": "is not tuned: it decides which requests may come twice",
        "curves": "is not tuned: it decides how clients connect",
    }
)
"""Parameters of the space that are not located in a configuration, with the reason."""


@dataclass(frozen=True, slots=True)
class FoundEnvoy(FoundService):
    """The file of a service, read."""

    tree: EnvoyFile


@dataclass(frozen=True, slots=True)
class PlacedEnvoy:
    """Implement ``Placed``."""

    bound: BoundSpace
    serving: EnvoyServing

    def texts(self, configuration: Configuration) -> dict[str, str]:
        """Implement ``Placed``."""
        before = tree = self.serving.tree
        changes = bounds.changed(self.bound, GROUPS, configuration, reference=self.bound.baseline)
        for group, wanted in changes:
            tree = edited(tree, group.edits(self.serving.reread(tree), wanted))
        return {tree.file: tree.text} if tree.text != before.text else {}


def read_service(
    main: str,
    files: Files,
    home: Callable[[], Home],  # noqa: ARG001 - the port's, for servers whose program reads the files
) -> FoundService:
    """Implement ``ServiceReader.read_service``."""
    tree = read(main, files)
    return FoundEnvoy(main, {main: tree.text}, plain(tree.text), tree)


def place(
    found: FoundService, space: Space, *, server_name: str, tls: bool, proxied: bool
) -> PlacedEnvoy:
    """Implement ``PlaceFinder``."""
    assert isinstance(found, FoundEnvoy)  # noqa: S101 - of ``read_service``
    reached = serving(found.tree, name=server_name, tls=tls, proxied=proxied)
    # How many threads a service has is unknown here, and these do no harm with one.
    space = replace(space, parameters=tuple(map(_for_any_threads, space.parameters)))
    bound = bounds.bind(space, GROUPS, reached, unplaced=UNPLACED, path=found.main)
    return PlacedEnvoy(bound, reached)


def _for_any_threads(parameter: Parameter) -> Parameter:
    when = tuple(each for each in parameter.when if each.parameter != "concurrency")
    return replace(parameter, when=when)


def commands(main: str, *, usual: bool) -> Commands:  # noqa: ARG001 - it has no usual file
    """Implement ``ServiceReader.commands``."""
    quiet = ("--log-level", "error")
    return Commands(("envoy", "--mode", "validate", "--disable-hot-restart", *quiet, "-c", main))
