"""Rules for Envoy's configurations, and what they are right not to find."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spaces import load_space
from tuner.errors import DefinitionError
from tuner.lint.envoy_rules import RULES, lint, lint_file, parse
from tuner.lint.finding import Finding, LintFacts
from tuner.own.server import OwnOptions
from tuner.servers import envoy

HERE = LintFacts(version=(1, 40, 0), cores=4, somaxconn=4096)
TYPE = "type.googleapis.com/envoy.extensions."
GOOD = f"""\
admin:
  address: {{socket_address: {{address: 127.0.0.1, port_value: 9901}}}}
overload_manager:
  resource_monitors:
  - name: envoy.resource_monitors.global_downstream_max_connections
    typed_config:
      "@type": {TYPE}resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig
      max_active_downstream_connections: 50000
static_resources:
  listeners:
  - address: {{socket_address: {{address: 0.0.0.0, port_value: 443}}}}
    per_connection_buffer_limit_bytes: 32768
    filter_chains:
    - transport_socket:
        typed_config:
          "@type": {TYPE}transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            alpn_protocols: [h2, http/1.1]
      filters:
      - typed_config:
          "@type": {TYPE}filters.network.http_connection_manager.v3.HttpConnectionManager
          use_remote_address: true
          normalize_path: true
          request_headers_timeout: 10s
          http_filters:
          - typed_config:
              "@type": {TYPE}filters.http.rbac.v3.RBAC
  clusters:
  - name: shop
    circuit_breakers: {{thresholds: [{{max_connections: 4096}}]}}
    load_assignment: {{cluster_name: shop}}
    transport_socket:
      typed_config:
        "@type": {TYPE}transport_sockets.tls.v3.UpstreamTlsContext
        common_tls_context:
          validation_context: {{trusted_ca: {{filename: /etc/ssl/ca.pem}}}}
"""
"""A configuration in which no rule finds anything."""
WORSE = {
    "open-admin": ("127.0.0.1", "0.0.0.0"),  # noqa: S104 - in a text
    "removed-api": (
        f"{TYPE}filters.http.rbac.v3.RBAC",
        "type.googleapis.com/envoy.config.filter.http.rbac.v2.RBAC",
    ),
    "unverified-backend": ("validation_context: {trusted_ca: {filename: /etc/ssl/ca.pem}}", "{}"),
    "believed-addresses": ("use_remote_address: true", "stat_prefix: site"),
    "raw-paths": ("normalize_path: true", "stat_prefix: site"),
    "no-request-timeout": ("request_headers_timeout: 10s", "request_timeout: 0s"),
    "no-connection-limit": ("downstream_connections.v3.DownstreamConnectionsConfig", "a.v3.B"),
    "large-buffers": ("per_connection_buffer_limit_bytes: 32768", "tcp_backlog_size: 1"),
    "default-circuit-breakers": (
        "circuit_breakers: {thresholds: [{max_connections: 4096}]}",
        "lb_policy: RANDOM",
    ),
    "connection-per-request": ("lb_policy: RANDOM", "max_requests_per_connection: 1"),
    "no-http2": ("alpn_protocols: [h2, http/1.1]", "alpn_protocols: [http/1.1]"),
}
"""By rule, a part of the good text with a worse one in its place."""


def found(text: str) -> tuple[Finding, ...]:
    """Return the findings of a text."""
    return lint(parse(text, "envoy.yaml"), HERE)


def test_nothing_is_said_of_what_is_right() -> None:
    """And every rule has an example of what is not."""
    assert found(GOOD) == ()
    assert set(WORSE) == {rule.id for rule in RULES}


@pytest.mark.parametrize("rule", WORSE)
def test_a_mistake_is_found_at_its_line(rule: str) -> None:
    """By its rule alone, with what is wrong there."""
    good, worse = WORSE[rule]
    text = GOOD if good in GOOD else GOOD.replace("name: shop", f"name: shop\n    {good}", 1)
    (finding,) = found(text.replace(good, worse, 1))
    assert finding.rule == rule
    assert finding.line
    assert finding.what
    assert finding.link.startswith("https://www.envoyproxy.io/docs/envoy/latest/")


def test_a_listener_of_its_own_host_serves_no_strangers() -> None:
    """Another proxy in front of it has the limits."""
    assert found(GOOD.replace("0.0.0.0, port_value: 443", "127.0.0.1, port_value: 443")) == ()
    local = GOOD.replace("0.0.0.0, port_value: 443", "127.0.0.1, port_value: 443")
    assert found(local.replace("    per_connection_buffer_limit_bytes: 32768\n", "")) == ()


def test_what_tuner_exports_has_no_mistake() -> None:
    """The baseline that follows Envoy's recommendations has one cost: circuit breakers are set."""
    space = load_space("envoy/proxy", server_version=(1, 40, 0))
    text = envoy.export_text(space.baseline("hand"), space)
    assert [each for each in found(text) if each.severity == "wrong"] == []


def test_a_file_that_is_no_configuration_is_refused_with_its_line(tmp_path: Path) -> None:
    """A list is none, and neither is broken YAML."""
    file = tmp_path / "envoy.yaml"
    for text in ("- a\n", "a: [\n"):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(DefinitionError, match=r"envoy\.yaml"):
            lint_file(OwnOptions(config=str(file)), HERE, "")
