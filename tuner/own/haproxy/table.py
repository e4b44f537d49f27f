"""The parameters of HAProxy's space: reading from a configuration, and writing to it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tuner.own import bound as bounds
from tuner.own.bound import BoundGroup, BoundSpace, UnplaceableError
from tuner.own.haproxy.places import (
    Backlog,
    BindOption,
    ConnectionMode,
    FixedSetting,
    GlobalFlag,
    GlobalLine,
    ProxyLine,
    ProxyOption,
    ServerOption,
)
from tuner.own.haproxy.serving import HaproxyServing
from tuner.own.haproxy.tree import HaproxyTree, LineEdit, edited, parse
from tuner.space.configuration import Configuration
from tuner.space.space import Space


def logs(serving: HaproxyServing) -> str:
    """Return whether requests are logged: ``log global`` needs a global target."""
    targets = {line.words[1:2] for line in serving.frontend.all("log")}
    somewhere = next(serving.tree.globals("log"), None) is not None
    return "on" if targets - {("global",)} or (targets and somewhere) else "off"


def _forwards(serving: HaproxyServing) -> str:
    asked = (serving.frontend, *serving.backends)
    return "on" if any(section.has("option", "forwardfor") for section in asked) else "off"


def _tickets(serving: HaproxyServing) -> str:
    words = {word for line in serving.bindings for word in line.words}
    words |= {w for line in serving.tree.globals("ssl-default-bind-options") for w in line.words}
    return "off" if "no-tls-tickets" in words else "on"


def _curves(serving: HaproxyServing) -> None:
    named = {word for line in serving.bindings for word in line.words} & {"curves", "ecdhe"}
    if named or any(serving.tree.globals("ssl-default-bind-curves")):
        raise UnplaceableError("the file names the curves")


GROUPS: tuple[BoundGroup[HaproxyServing, LineEdit], ...] = (
    GlobalLine("nbthread", "nbthread"),
    Backlog(),
    BindOption("shards", "shards"),
    GlobalLine("tune_listener_multi_queue", "tune.listener.multi-queue"),
    GlobalLine("tune_maxaccept", "tune.maxaccept"),
    GlobalLine("tune_maxpollevents", "tune.maxpollevents"),
    GlobalLine("tune_runqueue_depth", "tune.runqueue-depth"),
    GlobalLine("tune_sched_low_latency", "tune.sched.low-latency"),
    GlobalFlag("busy_polling", "busy-polling"),
    GlobalLine("tune_bufsize", "tune.bufsize", "bytes"),
    GlobalLine("tune_recv_enough", "tune.recv_enough", "bytes"),
    ProxyLine("http_reuse", ("http-reuse",), "server"),
    ConnectionMode(),
    ServerOption("pool_max_conn", "pool-max-conn"),
    ServerOption("pool_low_conn", "pool-low-conn"),
    ServerOption("pool_purge_delay", "pool-purge-delay", "seconds"),
    ServerOption("server_maxconn", "maxconn"),
    GlobalLine("tune_idle_pool_shared", "tune.idle-pool.shared"),
    GlobalLine("tune_pool_low_fd_ratio", "tune.pool-low-fd-ratio"),
    ProxyLine("http_keep_alive_timeout", ("timeout", "http-keep-alive"), "client", "seconds"),
    ProxyOption("http_no_delay", "http-no-delay", "client"),
    GlobalLine("tune_h2_initial_window_size", "tune.h2.initial-window-size", "bytes"),
    GlobalLine("tune_h2_max_concurrent_streams", "tune.h2.max-concurrent-streams"),
    GlobalLine("tune_h2_header_table_size", "tune.h2.header-table-size", "bytes"),
    GlobalLine("tune_ssl_cachesize", "tune.ssl.cachesize"),
    GlobalLine("tune_ssl_maxrecord", "tune.ssl.maxrecord", "bytes"),
    GlobalLine("tune_idletimer", "tune.idletimer", "milliseconds"),
    ProxyLine("timeout_connect", ("timeout", "connect"), "server", "seconds"),
    ProxyLine("timeout_client", ("timeout", "client"), "client", "seconds"),
    ProxyLine("timeout_server", ("timeout", "server"), "server", "seconds"),
    ProxyLine("balance", ("balance",), "server"),
    FixedSetting("access_log", logs),
    FixedSetting("forwardfor", _forwards),
    FixedSetting("tls_tickets", _tickets),
    FixedSetting("curves", _curves),
)
UNPLACED: Mapping[str, str] = MappingProxyType(
    {
        "cpu_map": "is not tuned: it names CPUs of the host, and the lab has others",
        "splice": "is not located in a configuration yet",
        "tune_pipesize": "is not located in a configuration yet",
    }
)
"""Parameters of the space that are not located in a configuration, with the reason."""


def bind(space: Space, serving: HaproxyServing) -> BoundSpace:
    """Read every parameter's value from a configuration; see ``bound.bind``.

    Raises:
        DefinitionError: no parameter of the space is left.
    """
    return bounds.bind(space, GROUPS, serving, unplaced=UNPLACED, path=serving.tree.file)


def changed(
    bound: BoundSpace,
    serving: HaproxyServing,
    configuration: Configuration,
    *,
    reference: Configuration | None = None,
) -> HaproxyTree:
    """Return the user's configuration with the values of another one.

    One parameter after the other, because two may change one line.
    """
    tree = serving.tree
    for group, wanted in bounds.changed(bound, GROUPS, configuration, reference=reference):
        now = serving.reread(tree)
        tree = parse(edited(tree.text, group.edits(now, wanted)), tree.file)
    return tree
