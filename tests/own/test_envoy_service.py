"""Settings of a study of the lab in Envoy's own file on a host, as ``tuner apply`` sets them."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.app.services import FakeHost, no_home
from tests.app.services import host as a_host
from tests.servers.labs import here
from tuner.errors import DefinitionError
from tuner.hosts import local
from tuner.machine.facts import ServerFacts
from tuner.own.envoy.service import GROUPS, UNPLACED, PlacedEnvoy, place, read_service
from tuner.servers import envoy
from tuner.space.configuration import Value
from tuner.space.facts import space_facts
from tuner.space.space import Space, bind_space
from tuner.testing.draw import draw_configuration
from tuner.workload.wire import Tls, Wire
from tuner.workload.workload import load_workload

MAIN = "/etc/envoy/envoy.yaml"
_FILTERS = "type.googleapis.com/envoy.extensions.filters"
_TLS = "type.googleapis.com/envoy.extensions.transport_sockets"
PLAIN = f"""\
# As we have it.
static_resources:
  listeners:
  - name: www   # the site
    address: {{socket_address: {{address: 0.0.0.0, port_value: 80}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": {_FILTERS}.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: www
          common_http_protocol_options:
            # Shorter than the balancer's.
            idle_timeout: 300s   # ours
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {{prefix: /}}
                route: {{cluster: application}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{"@type": {_FILTERS}.http.router.v3.Router}}
  clusters:
  - name: application
    connect_timeout: 1s
    load_assignment:
      cluster_name: application
      endpoints:
      - lb_endpoints:
        - endpoint:
            address: {{socket_address: {{address: 127.0.0.1, port_value: 8080}}}}
  - name: metrics
    connect_timeout: 1s
admin:
  address: {{socket_address: {{address: 127.0.0.1, port_value: 9901}}}}
"""
COMPACT = f"""\
{{static_resources: {{
  listeners: [{{
    address: {{socket_address: {{address: 0.0.0.0, port_value: 80}}}},
    filter_chains: [{{filters: [{{
      name: envoy.filters.network.http_connection_manager,
      typed_config: {{
        "@type": {_FILTERS}.network.http_connection_manager.v3.HttpConnectionManager,
        stat_prefix: www,
        route_config: {{virtual_hosts: [{{name: all, domains: ["*"], routes: [
          {{match: {{prefix: /}}, route: {{weighted_clusters: {{clusters: [
            {{name: blue, weight: 90}}, {{name: green, weight: 10}}]}}}}}}]}}]}},
        http_filters: [{{
          name: envoy.filters.http.router,
          typed_config: {{"@type": {_FILTERS}.http.router.v3.Router}}}}]}}}}]}}]}}],
  clusters: [
    {{name: blue, load_assignment: {{cluster_name: blue}}}},
    {{name: green, load_assignment: {{cluster_name: green}}}}]}}}}
"""


def over_quic(tls: str, quic: str) -> str:
    """Return a configuration that answers over TLS and HTTP/3, with these sockets."""
    head, _, rest = PLAIN.partition("  - name: www   # the site\n")
    listener, _, clusters = rest.partition("  clusters:\n")
    listener = listener.replace(
        "    - filters:\n", "    - transport_socket: SOCKET\n      filters:\n"
    )
    listener = listener.replace("port_value: 80}", "port_value: 443}")
    udp = listener.replace("{address: 0", "{protocol: UDP, address: 0").replace(
        "    filter_chains:\n", "    udp_listener_config: {quic_options: {}}\n    filter_chains:\n"
    )
    udp = udp.replace('"@type"', 'codec_type: HTTP3\n          "@type"', 1)
    return (
        f"{head}  - name: tls\n{listener.replace('SOCKET', tls)}"
        f"  - name: quic\n{udp.replace('SOCKET', quic)}  clusters:\n{clusters}"
    )


SECURE = over_quic("{name: envoy.transport_sockets.tls}", "{name: envoy.transport_sockets.quic}")


def bound_space(wire: Wire | None = None) -> Space:
    """Return the space of a proxy, for four cores and a wire."""
    workload = load_workload("proxy")
    server = ServerFacts("envoy", "/usr/bin/envoy", "1.40.0", ("BoringSSL",), "")
    facts = space_facts(local.facts(), server, replace(workload, wire=wire or Wire()), 4)
    return bind_space("envoy/proxy", facts)


def placed(space: Space, text: str, *, server_name: str = "", tls: bool = False) -> PlacedEnvoy:
    """Return the space's places in a host's file."""
    found = read_service(MAIN, FakeHost({MAIN: text}), lambda: no_home(a_host(), ""))
    return place(found, space, server_name=server_name, tls=tls, proxied=True)


def changed(wanted: Mapping[str, Value], text: str = PLAIN) -> str:
    """Return the file with other values."""
    there = placed(bound_space(), text)
    missing = wanted.keys() - {each.name for each in there.bound.space.parameters}
    if missing:
        raise DefinitionError(dict(there.bound.space.left_out)[missing.pop()], path=MAIN)
    return there.texts(there.bound.space.complete(wanted, there.bound.baseline))[MAIN]


def test_every_parameter_has_a_place_or_a_reason() -> None:
    """No parameter of the space is forgotten, and none is both."""
    located = {name for group in GROUPS for name in group.names}
    wires = (Wire(), Wire("http2", Tls()), Wire("http3", Tls()))
    names = {each.name for wire in wires for each in bound_space(wire).parameters}
    assert located | set(UNPLACED) >= names
    assert not located & set(UNPLACED)


def test_a_field_is_changed_where_it_stands() -> None:
    """Its comment stays, and everything else byte by byte."""
    assert changed({"idle_timeout": 600}) == PLAIN.replace("300s   # ours", "600s   # ours")


@pytest.mark.parametrize(
    ("wanted", "before", "after"),
    [
        ({"per_connection_buffer_limit_bytes": 32 << 10}, "port_value: 80}}\n",
         "port_value: 80}}\n    per_connection_buffer_limit_bytes: 32768\n"),
        ({"connection_balance": "exact"}, "port_value: 80}}\n",
         "port_value: 80}}\n    connection_balance_config: {exact_balance: {}}\n"),
        ({"stats_flush_interval": 60}, "static_resources:\n",
         "stats_flush_interval: 60s\nstatic_resources:\n"),
        ({"generate_request_id": False}, "stat_prefix: www\n",
         "stat_prefix: www\n          generate_request_id: false\n"),
        ({"dynamic_stats": False}, "router.v3.Router}", "router.v3.Router, dynamic_stats: false}"),
        ({"max_connections": 5000, "max_requests": 6000}, "application\n    connect_timeout: 1s\n",
         ("application\n    connect_timeout: 1s\n    circuit_breakers: {thresholds: "
         "[{max_connections: 5000, max_requests: 6000}]}\n")),
        ({"upstream_idle_timeout": 60}, "application\n    connect_timeout: 1s\n",
         ("application\n    connect_timeout: 1s\n    typed_extension_protocol_options: "
         "{envoy.extensions.upstreams.http.v3.HttpProtocolOptions: "
         '{"@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",'
         " explicit_http_config: {http_protocol_options: {}},"
         " common_http_protocol_options: {idle_timeout: 60s}}}\n")),
    ],
)  # fmt: skip
def test_a_missing_field_is_added_next_to_its_like(
    wanted: Mapping[str, Value], before: str, after: str
) -> None:
    """After the short fields of what holds it, in the style of the file."""
    assert changed(wanted) == PLAIN.replace(before, after, 1)


def test_lines_keep_their_ends() -> None:
    """A file of Windows has them in the added lines too."""
    text = PLAIN.replace("\n", "\r\n")
    made = changed({"generate_request_id": False}, text)
    assert made == text.replace(
        "prefix: www\r\n", "prefix: www\r\n          generate_request_id: false\r\n"
    )


def test_a_setting_is_taken_back_to_envoys_own() -> None:
    """By null, which Envoy takes for a missing field."""
    text = changed({"tcp_backlog_size": 4096})
    assert "    tcp_backlog_size: 4096\n" in text
    assert "    tcp_backlog_size: null\n" in changed({"tcp_backlog_size": "auto"}, text)


def test_every_cluster_of_the_routes_is_changed() -> None:
    """Those with a weight too; without their fields on lines of their own."""
    made = changed({"upstream_buffer_limit_bytes": 64 << 10}, COMPACT)
    assert made.count("per_connection_buffer_limit_bytes: 65536") == 2


def test_http3_has_its_own_manager() -> None:
    """At the same port; what counts for both is set in both."""
    space = bound_space(Wire("http3", Tls()))
    there = placed(space, SECURE, tls=True)
    wanted = {"quic_max_concurrent_streams": 200, "idle_timeout": 600}
    made = there.texts(there.bound.space.complete(wanted, there.bound.baseline))[MAIN]
    tls, quic = made.split("  - name: quic\n")
    option = "http3_protocol_options: {quic_protocol_options: {max_concurrent_streams: 200}}"
    assert option in quic
    assert option not in tls
    assert [part.count("idle_timeout: 600s") for part in (tls, quic)] == [1, 1]


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("concurrency", "", "", "an option of Envoy's command line"),
        ("idle_timeout", "300s", "0.5s", "which the space cannot express"),
        ("idle_timeout", "            idle_timeout: 300s   # ours",
         "            idle_timeout: {seconds: 300}", "has no single value"),
        ("dynamic_stats", "/envoy.extensions.filters.http.router", "/shop",
         "has no router with a typed_config"),
        ("connection_balance", "    filter_chains",
         "    connection_balance_config: {extend_balance: {}}\n    filter_chains",
         f"{MAIN}:6 has another kind of balance"),
        ("upstream_idle_timeout", "    load_assignment", ("    http2_protocol_options: {}\n"
         "    load_assignment"), "has http2_protocol_options, which has other options"),
        ("max_requests", "    load_assignment", ("    circuit_breakers: {thresholds: "
         "[{priority: HIGH}]}\n    load_assignment"), "has no thresholds of the usual priority"),
        ("upstream_idle_timeout", "{cluster: application}", "{cluster_header: x-cluster}",
         "name no cluster of static_resources"),
    ],
)  # fmt: skip
def test_a_setting_without_a_safe_place_stays(name: str, old: str, new: str, said: str) -> None:
    """With the reason."""
    text = PLAIN.replace(old, new, 1)
    assert text != PLAIN or not old
    assert said in dict(placed(bound_space(), text).bound.space.left_out)[name]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("static_resources: [\n", f"{MAIN}:2: is not YAML"),
        ("- a list\n", f"{MAIN}:1: expected a mapping"),
        ("dynamic_resources: {lds_config: {ads: {}}}\n", "has no listener with an HttpConnection"),
        (SECURE, "has no listener without TLS"),
    ],
)
def test_a_file_without_a_fitting_listener_is_refused(text: str, said: str) -> None:
    """With what is missing."""
    with pytest.raises(DefinitionError) as refused:
        placed(bound_space(), text)
    assert said in str(refused.value)


def test_a_listener_may_be_named() -> None:
    """An unknown one is refused with those known."""
    assert placed(bound_space(), PLAIN, server_name="www").serving.clusters
    with pytest.raises(DefinitionError, match="has no listener 'shop'; it has: www"):
        placed(bound_space(), PLAIN, server_name="shop")


def test_a_file_that_is_no_yaml_by_its_name_is_refused() -> None:
    """Envoy would read it as JSON."""
    with pytest.raises(DefinitionError, match="no name of a YAML file"):
        read_service("/etc/envoy/envoy.json", FakeHost({}), lambda: no_home(a_host(), ""))


@pytest.mark.integration
@pytest.mark.parametrize("text", [PLAIN, COMPACT], ids=["plain", "compact"])
def test_envoy_takes_what_a_search_proposes(text: str, tmp_path: Path) -> None:
    """Ten configurations in the host's file, one after the other; what was set is read again."""
    server = here(envoy.name)
    space, rng = bound_space(), random.Random(5)
    for _ in range(10):
        there = placed(space, text)
        trades = [each.name for each in there.bound.space.parameters if each.trades]
        wanted = draw_configuration(rng, there.bound.space, there.bound.baseline, trades)
        text = there.texts(wanted).get(MAIN, text)
        assert dict(placed(space, text).bound.configured) == dict(wanted.values)
        file = tmp_path / "envoy.yaml"
        file.write_text(text)
        command = (server.binary, "--mode", "validate", "--disable-hot-restart")
        done = subprocess.run(
            [*command, "--log-level", "error", "-c", str(file)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{done.stderr}\n{text}"
