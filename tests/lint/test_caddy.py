"""Rules for Caddy, over its JSON."""

from __future__ import annotations

from typing import Any

import pytest

from tuner.lint.caddy_rules import lint
from tuner.lint.finding import LintFacts

HERE = LintFacts(version=(2, 11, 4), cores=4, somaxconn=4096)


def config(handler: dict[str, Any] | None = None, **server: Any) -> dict[str, Any]:
    """Return a server with one handler."""
    route = {"handle": [handler or {"handler": "file_server"}]}
    return {"apps": {"http": {"servers": {"srv0": {"routes": [route], **server}}}}}


def proxy(**more: Any) -> dict[str, Any]:
    """Return a reverse proxy."""
    return {"handler": "reverse_proxy", "upstreams": [{"dial": "localhost:8080"}], **more}


def kept(**values: Any) -> dict[str, Any]:
    """Return a proxy with this about its idle connections."""
    return proxy(transport={"protocol": "http", "keep_alive": values})


def test_nothing_is_said_of_what_is_right() -> None:
    """Files, a proxy, and one with more idle connections."""
    for handler in (None, proxy(), kept(max_idle_conns_per_host=256)):
        assert lint(config(handler), "Caddyfile", HERE) == ()


@pytest.mark.parametrize(
    ("wrong", "rule", "place"),
    [
        (config(kept(enabled=False)), "upstream-without-keepalive", "/transport/keep_alive"),
        (config(kept(max_idle_conns_per_host=8)), "few-idle-connections", "_conns_per_host"),
        (config(proxy(flush_interval=-1)), "flush-each-piece", "/handle/0/flush_interval"),
        (
            config({"handler": "encode", "encodings": {"gzip": {"level": 9}}}),
            "high-compression",
            "/encodings/gzip",
        ),
        (config(idle_timeout=5_000_000_000), "short-idle-timeout", "/srv0/idle_timeout"),
        (config(enable_full_duplex=True), "full-duplex", "/srv0/enable_full_duplex"),
        ({"logging": {"logs": {"default": {"level": "DEBUG"}}}}, "debug-log", "/default/level"),
    ],
)
def test_a_rule_finds_what_it_is_about(wrong: dict[str, Any], rule: str, place: str) -> None:
    """With the path in the JSON."""
    (found,) = lint(wrong, "Caddyfile", HERE)
    assert (found.rule, found.where) == (rule, "Caddyfile")
    assert found.place.endswith(place)


def test_one_setting_dropped_the_others_before_2_11() -> None:
    """So the count of idle connections has to be said too."""
    handler = kept(idle_timeout=60_000_000_000)
    assert lint(config(handler), "Caddyfile", HERE) == ()
    old = LintFacts(version=(2, 10, 0), cores=4, somaxconn=4096)
    (found,) = lint(config(handler), "Caddyfile", old)
    assert found.rule == "few-idle-connections"
