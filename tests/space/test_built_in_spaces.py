"""The spaces that tuner ships: what they search, and that their baselines are what they say."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.spaces import load_space
from tuner.servers import caddy
from tuner.space.space import BASELINES, Space, spaces
from tuner.testing.draw import draw_configuration

VERSIONS = [(1, 9, 4), (1, 18, 0), (1, 22, 1), (1, 26, 3), (1, 29, 7), (1, 31, 5)]
DOCUMENTATION = {
    "nginx": ("https://nginx.org/en/docs/",),
    "caddy": ("https://caddyserver.com/docs/", "https://go.dev/doc/", "https://pkg.go.dev/"),
    "nghttpx": ("https://nghttp2.org/documentation/",),
    "haproxy": ("https://docs.haproxy.org/",),
    "apache": ("https://httpd.apache.org/docs/2.4/",),
    "envoy": ("https://www.envoyproxy.io/docs/envoy/latest/",),
}


def bind(name: str, version: tuple[int, ...] = (1, 22, 1), cores: int = 4) -> Space:
    """Return a built-in space."""
    return load_space(name, server_cores=cores, server_version=version)


def trades(space: Space) -> list[str]:
    """Return names that ``--allow`` takes."""
    return [parameter.name for parameter in space.parameters if parameter.trades]


def test_envoy_reads_its_file_only_when_it_starts() -> None:
    """Without its hot restart, which a service of systemd has not, nothing is reloaded."""
    assert {parameter.apply for parameter in bind("envoy/proxy").parameters} == {"restart"}


@pytest.mark.parametrize("name", ["caddy/static", "caddy/proxy"])
def test_the_environment_of_a_process_needs_a_restart(name: str) -> None:
    """A reload keeps the process, and with it the environment that it was started with."""
    applied = {parameter.name: parameter.apply for parameter in bind(name).parameters}
    assert {each for each, how in applied.items() if how == "restart"} == set(
        caddy.syntax.environment
    )


def test_what_the_static_space_searches() -> None:
    """Without allowing anything: what changes nothing that clients or operators rely on."""
    assert [parameter.name for parameter in bind("nginx/static").searched()] == [
        "worker_processes",
        "worker_cpu_affinity",
        "multi_accept",
        "reuseport",
        "backlog",
        "keepalive_requests",
        "sendfile",
        "tcp_nopush",
        "sendfile_max_chunk",
        "output_buffers_number",
        "output_buffers_size",
    ]


def test_what_the_proxy_space_searches() -> None:
    """The upstream's side, and how the work is spread."""
    assert [parameter.name for parameter in bind("nginx/proxy").searched()] == [
        "worker_processes",
        "reuseport",
        "proxy_http_version",
        "upstream_keepalive",
        "upstream_keepalive_requests",
        "proxy_buffer_size",
        "proxy_buffers_number",
        "proxy_buffers_size",
    ]


def test_what_the_space_of_haproxy_searches() -> None:
    """Its threads, its sockets, its scheduler, its buffers, and its idle connections."""
    assert [parameter.name for parameter in bind("haproxy/proxy", (2, 6, 12)).searched()] == [
        "nbthread",
        "backlog",
        "shards",
        "tune_listener_multi_queue",
        "tune_maxaccept",
        "tune_maxpollevents",
        "tune_runqueue_depth",
        "tune_sched_low_latency",
        "tune_bufsize",
        "tune_recv_enough",
        "pool_max_conn",
        "pool_low_conn",
        "tune_idle_pool_shared",
    ]


def test_what_the_spaces_of_apache_search() -> None:
    """Processes and threads, connections, memory, and how files or answers are read."""
    shared = ["threads_per_child", "start_threads", "async_request_worker_factor"]
    shared += ["listen_backlog", "max_mem_free"]
    assert [parameter.name for parameter in bind("apache/static", (2, 4, 62)).searched()] == [
        *shared,
        "max_keep_alive_requests",
        "enable_sendfile",
        "enable_mmap",
    ]
    assert [parameter.name for parameter in bind("apache/proxy", (2, 4, 62)).searched()] == [
        *shared,
        "proxy_io_buffer_size",
    ]


def test_what_the_space_of_envoy_searches() -> None:
    """Its threads and their sockets, its buffers, and how long connections to backends last."""
    assert [parameter.name for parameter in bind("envoy/proxy", (1, 40, 0)).searched()] == [
        "concurrency",
        "enable_reuse_port",
        "connection_balance",
        "tcp_backlog_size",
        "max_connections_to_accept_per_socket_event",
        "per_connection_buffer_limit_bytes",
        "upstream_buffer_limit_bytes",
        "max_requests_per_connection",
    ]


def test_the_trades_are_off_unless_allowed() -> None:
    """Log durability and stale files; with one comes what belongs to it."""
    space = bind("nginx/static")
    searched = {parameter.name for parameter in space.searched()}
    assert searched.isdisjoint(trades(space))
    for baseline in BASELINES:
        values = space.baseline(baseline).values
        assert (values["open_file_cache"], values["access_log_buffer"]) == ("off", 0)
    more = {parameter.name for parameter in space.searched(("access_log_buffer",))} - searched
    assert more == {"access_log_buffer", "access_log_flush"}


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        ("nginx/proxy", "upstream_keepalive_timeout"),
        ("nginx/static", "keepalive_timeout"),
        ("nginx/static", "deferred"),
        ("caddy/proxy", "upstream_keepalive_timeout"),
        ("caddy/proxy", "upstream_connections"),
        ("caddy/proxy", "idle_timeout"),
        ("caddy/static", "gomemlimit"),
        ("nghttpx/terminator", "backend_keep_alive_timeout"),
        ("haproxy/proxy", "http_reuse"),
        ("haproxy/proxy", "pool_purge_delay"),
        ("haproxy/proxy", "server_maxconn"),
        ("apache/static", "accept_filter"),
        ("apache/static", "listen_cores_buckets_ratio"),
        ("apache/proxy", "proxy_max"),
        ("apache/proxy", "proxy_ttl"),
        ("envoy/proxy", "idle_timeout"),
        ("envoy/proxy", "upstream_idle_timeout"),
        ("envoy/proxy", "per_upstream_preconnect_ratio"),
        ("envoy/proxy", "connection_pool_per_downstream_connection"),
    ],
)
def test_harm_that_the_lab_cannot_show_is_a_trade(name: str, parameter: str) -> None:
    """Time between requests, slow clients and other backends are not in the lab."""
    found = bind(name).parameter(parameter)
    assert found.trades
    assert found.unseen
    assert found not in bind(name).searched()


@pytest.mark.parametrize("name", spaces())
def test_every_parameter_is_explained(name: str) -> None:
    """In a sentence, with a link to the server's own documentation."""
    for parameter in bind(name).parameters:
        assert parameter.about, parameter.name
        assert parameter.link.startswith(DOCUMENTATION[name.partition("/")[0]]), parameter.name


def test_stock_is_what_nginx_does_without_a_configuration() -> None:
    """nginx.org's documented defaults, and not those of any package."""
    static = bind("nginx/static").baseline("stock").values
    assert static == {
        "worker_processes": 1,
        "worker_cpu_affinity": "none",
        "worker_connections": 512,
        "multi_accept": False,
        "reuseport": False,
        "backlog": 511,
        "deferred": False,
        "fastopen": "off",
        "keepalive_requests": 1000,
        "keepalive_timeout": 75,
        "sendfile": False,
        "output_buffers_number": 2,
        "output_buffers_size": 32 << 10,
        "open_file_cache": "off",
        "access_log_buffer": 0,
        "gzip": False,
    }


@pytest.mark.parametrize(("version", "kept"), [((1, 29, 6), None), ((1, 29, 7), 32)])
def test_the_proxys_stock_changed_with_1_29_7(version: tuple[int, ...], kept: int | None) -> None:
    """Before: HTTP/1.0 and a connection for each request. Since: 1.1 and 32 kept."""
    values = bind("nginx/proxy", version).baseline("stock").values
    assert values["proxy_http_version"] == ("1.0" if kept is None else "1.1")
    assert values.get("upstream_keepalive") == kept


@pytest.mark.parametrize("name", spaces())
@pytest.mark.parametrize("version", VERSIONS)
def test_every_proposal_is_valid_on_every_version(name: str, version: tuple[int, ...]) -> None:
    """No relation between parameters is left to luck: a search wastes no trial on it."""
    rng = random.Random(1)
    for cores, baseline in itertools.product((1, 2, 16), BASELINES):
        space = bind(name, version, cores)
        base = space.baseline(baseline)
        for _ in range(70):
            configuration = draw_configuration(rng, space, base, trades(space))
            assert space.complete(configuration.values, configuration) == configuration
