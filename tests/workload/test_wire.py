"""The wire: the protocol that a workload asks for, and the one agreed on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.measurement.windows import GATES, raw_window
from tuner.measurement.measuring import measure
from tuner.workload.wire import NegotiatedTerms, Tls, Wire, unlike

AGREED = NegotiatedTerms(tls_version="TLSv1_3", cipher="TLS13_AES_256_GCM_SHA384", group="X25519")


@pytest.mark.parametrize(
    ("asked", "protocol", "words"),
    [
        (Wire(), "http/1.1", ""),
        (Wire("http2", Tls()), "h2", ""),
        (Wire("http3", Tls()), "http/3", ""),
        (
            Wire("http2", Tls()),
            "http/1.1",
            "asked for protocol h2, but http/1.1 was negotiated",
        ),
        (Wire(tls=Tls(version="TLSv1.3", cipher="TLS_AES_256_GCM_SHA384")), "http/1.1", ""),
        (
            Wire(tls=Tls(cipher="TLS_AES_128_GCM_SHA256")),
            "http/1.1",
            (
                "asked for cipher TLS_AES_128_GCM_SHA256,"
                " but TLS13_AES_256_GCM_SHA384 was negotiated"
            ),
        ),
        (
            Wire(tls=Tls(group="P-256")),
            "http/1.1",
            "asked for group P-256, but X25519 was negotiated",
        ),
    ],
)
def test_what_was_agreed_on_is_held_against_what_was_asked(
    asked: Wire, protocol: str, words: str
) -> None:
    """However a library spells the names."""
    assert unlike(asked, protocol, AGREED) == words


def test_where_no_connection_came_to_it_nothing_differs() -> None:
    """The connections' errors say what is wrong."""
    assert unlike(Wire("http2", Tls(cipher="X")), "", NegotiatedTerms()) == ""


def test_a_window_over_another_protocol_is_the_configurations_fault() -> None:
    """A window over another protocol counts against the configuration."""
    raw = replace(raw_window(), protocol="http/1.1", agreed=AGREED)
    found = measure(raw, None, GATES, Wire("http2", Tls()))
    assert found.bad
    assert found.invalid == ("asked for protocol h2, but http/1.1 was negotiated",)
    assert found.agreed == AGREED
    assert measure(raw, None, GATES, Wire()).valid


def test_a_wire_in_words() -> None:
    """A wire's words name protocol, TLS, streams and requests per connection."""
    assert Wire().words == "http/1.1, cleartext"
    wire = Wire("http2", Tls(), streams=8, requests_per_connection=100)
    assert wire.words == (
        "h2 over TLS, 8 streams on each connection, a new connection every 100 requests"
    )
