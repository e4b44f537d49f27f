"""Envoy's template and scalars: YAML of one structure with any values."""

from __future__ import annotations

import functools
import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from tests.render.placed import LAB
from tests.servers.labs import here
from tests.spaces import load_space
from tuner.errors import DefinitionError
from tuner.reading.envoy_text import statements
from tuner.render.render import EXPORT, Placement, render
from tuner.servers import envoy
from tuner.space.configuration import Configuration
from tuner.space.space import bind_space
from tuner.workload.wire import WireProtocol

SPACE = load_space("envoy/proxy", server_version=(1, 40, 0), server_cores=2)
HAND = SPACE.baseline("hand")
STOCK = SPACE.baseline("stock")
PLACEMENT = replace(LAB, upstreams=("127.0.0.1:18081",))
# The one in C takes a tenth of the time.
READER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
HOSTILE = st.text(st.sampled_from("ab{}[]\\\"'#:;%-&*!|>, \n\r\t\x00é/"), max_size=12)


def written(placement: Placement = PLACEMENT, configuration: Configuration = HAND) -> str:
    """Return the file of a configuration."""
    return render("envoy/proxy", configuration, SPACE, placement, envoy.syntax)


def parsed(placement: Placement = PLACEMENT, configuration: Configuration = HAND) -> Any:
    """Return the file as data."""
    return yaml.load(written(placement, configuration), READER)  # noqa: S506 - a safe one


def shape(data: object) -> object:
    """Return the fields of some data without their values."""
    match data:
        case dict():
            return {key: shape(value) for key, value in data.items()}
        case list():
            return [shape(each) for each in data]
        case _:
            return None


@functools.cache
def names(text: str) -> frozenset[str]:
    """Return the names of the fields in a text."""
    return frozenset(each.name for each in statements(text))


def listeners(protocol: WireProtocol, tls_dir: str = "/srv/tls") -> list[dict[str, Any]]:
    """Return the listeners of an instance."""
    found: list[dict[str, Any]] = parsed(replace(PLACEMENT, protocol=protocol, tls_dir=tls_dir))[
        "static_resources"
    ]["listeners"]
    return found


def test_a_setting_that_is_left_to_envoy_is_not_written() -> None:
    """`auto` and `off` stand for the field's absence; no overload manager, no log of requests."""
    (listener,) = parsed(configuration=STOCK)["static_resources"]["listeners"]
    assert {"tcp_backlog_size", "tcp_fast_open_queue_length"}.isdisjoint(listener)
    assert "overload_manager" not in parsed(configuration=STOCK)
    values = {"tcp_backlog_size": 2000, "tcp_fast_open_queue_length": 512}
    (listener,) = parsed(configuration=SPACE.complete(values, HAND))["static_resources"][
        "listeners"
    ]
    assert {name: listener[name] for name in values} == values
    assert "overload_manager" in parsed(configuration=HAND)


def test_tls_and_http3_are_written_where_the_workload_asks_for_them() -> None:
    """A listener offers what is asked for; HTTP/3 has a second one on the same port."""
    (cleartext,) = listeners("http1", tls_dir="")
    assert "transport_socket" not in cleartext["filter_chains"][0]
    offered = {}
    for protocol in ("http1", "http2", "http3"):
        for listener in listeners(protocol):
            config = listener["filter_chains"][0]["transport_socket"]["typed_config"]
            config = config.get("downstream_tls_context", config)["common_tls_context"]
            offered[protocol, listener["name"]] = config["alpn_protocols"]
    assert offered == {
        ("http1", "site"): ["http/1.1"],
        ("http2", "site"): ["h2", "http/1.1"],
        ("http3", "site"): ["h2", "http/1.1"],
        ("http3", "site-http3"): ["h3"],
    }


def test_settings_of_tls_stand_only_where_there_is_tls() -> None:
    """A study over HTTP/3 is exported in cleartext too, where its key exchange has no place."""
    facts = replace(SPACE.facts, tls=True, protocol="http3")
    space = bind_space(SPACE.name, facts)
    values = space.complete({"curves": "classic", "early_data": False}, space.baseline("stock"))
    assert "ecdh_curves" not in envoy.export_text(values, space)
    secure = replace(PLACEMENT, protocol="http3", tls_dir="/srv/tls")
    text = render(space.template, values, space, secure, envoy.syntax)
    assert (text.count("ecdh_curves"), text.count("enable_early_data: false")) == (2, 1)


def test_names_of_backends_are_resolved() -> None:
    """An address is one, also of IPv6; a name asks DNS."""
    kinds = {}
    for upstream in ("10.0.0.1:80", "[fd00::a]:80", "app.internal:80"):
        (cluster,) = parsed(replace(PLACEMENT, upstreams=(upstream,)))["static_resources"][
            "clusters"
        ]
        (group,) = cluster["load_assignment"]["endpoints"]
        address = group["lb_endpoints"][0]["endpoint"]["address"]["socket_address"]
        kinds[address["address"]] = cluster["type"]
    assert kinds == {"10.0.0.1": "STATIC", "fd00::a": "STATIC", "app.internal": "STRICT_DNS"}


def test_an_export_says_how_many_threads_unless_they_are_envoys_own() -> None:
    """By itself Envoy starts one on each CPU of its host, which may have more than the lab."""
    assert "--concurrency" not in envoy.export_text(HAND, SPACE)
    tuned = SPACE.complete({"concurrency": 3}, HAND)
    assert "--concurrency 3\n" in envoy.export_text(tuned, SPACE)
    server = envoy.parse_build("envoy  version: 9e5/1.40.0/Clean/RELEASE/BoringSSL\n", "envoy")
    files = envoy.export_files(tuned, SPACE, server)
    assert files[envoy.ENVIRONMENT_FILE].endswith("CONCURRENCY=3\n")
    address = yaml.safe_load(envoy.export_text(tuned, SPACE, EXPORT))["static_resources"]
    assert address["listeners"][0]["address"]["socket_address"] == {
        "address": "0.0.0.0",  # noqa: S104 - in a text
        "port_value": 80,
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (0, "0"),
        (1.5, "1.5"),
        ("", '""'),
        ("off", '"off"'),
        ("10", '"10"'),
        ("a: b #", '"a: b #"'),
        ('say "\\n"', '"say \\"\\\\n\\""'),
        ("é", '"é"'),
    ],
)
def test_how_values_are_written(value: object, text: str) -> None:
    """Text is between quotes, also if it looks like a number; numbers and switches are bare."""
    assert envoy.quote_envoy(value) == text


@given(HOSTILE)
@example("\N{GRINNING FACE}")
def test_every_value_is_read_as_it_was_meant(value: str) -> None:
    """The same text by the rules of YAML and of JSON, or a refusal."""
    try:
        text = envoy.quote_envoy(value)
    except DefinitionError:
        return
    assert yaml.safe_load(f"a: {{b: {text}}}") == {"a": {"b": value}}
    assert json.loads(text) == value


@given(st.sampled_from(["log_dir", "digest", "live_path", "tls_dir"]), HOSTILE)
def test_no_placement_adds_a_field(field: str, value: str) -> None:
    """The file has the same structure as with harmless paths, or is refused."""
    if not value:
        return  # empty means that there is none
    base = replace(PLACEMENT, tls_dir="/srv/tls")
    try:
        data = parsed(replace(base, **{field: value}))  # type: ignore[arg-type]
    except DefinitionError:
        return
    assert shape(data) == shape(parsed(base))


@given(st.sampled_from(sorted(HAND.values)), HOSTILE)
def test_no_value_adds_a_field(name: str, value: str) -> None:
    """Even one that no space would allow, as from a record that somebody edited."""
    edited = Configuration.of(SPACE.name, {**HAND.values, name: value})
    try:
        text = written(PLACEMENT, edited)
    except DefinitionError:
        return
    # Those that `hand` leaves to Envoy.
    more = {"tcp_backlog_size", "max_connections_to_accept_per_socket_event",
            "tcp_fast_open_queue_length", "max_requests_per_connection", "suppress_envoy_headers",
            "connection_pool_per_downstream_connection"}  # fmt: skip
    assert names(text) <= names(written()) | more


def test_its_text_is_read_as_fields_within_fields() -> None:
    """Lists are within the field that holds them; what could hide a field is refused."""
    found = list(statements("a:\n  b: [1, x]\n  c:\n  - {d: '#'}\n"))
    assert [(each.words, each.within) for each in found] == [
        (("a",), ()),
        (("b", "1", "x"), (("a",),)),
        (("c",), (("a",),)),
        (("d", "#"), (("a",), ("c",))),
    ]
    with pytest.raises(DefinitionError, match="anchors"):
        list(statements("a: &x {b: 1}\nc: *x\n"))


@pytest.mark.integration
def test_a_real_envoy_reads_a_value_as_it_was_meant(tmp_path: Path) -> None:
    """Its message about an unknown cluster quotes the name."""
    binary = here("envoy").binary
    value = "a: [b] {c} # 'd' \\n %e é \" on"
    text = written(configuration=STOCK).replace(
        "route: {cluster: application}", f"route: {{cluster: {envoy.quote_envoy(value)}}}"
    )
    file = tmp_path / "envoy.yaml"
    file.write_text(text, encoding="utf-8")
    command = (binary, "--mode", "validate", "--disable-hot-restart", "-c", str(file))
    done = subprocess.run(
        [*command, "--log-level", "error", "--log-format", "%v"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"unknown cluster '{value}'" in done.stderr
