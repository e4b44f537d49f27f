"""Rules for Caddy's configurations, over the JSON that ``caddy adapt`` makes of a Caddyfile.

A place is a path in the admin API's notation (https://caddyserver.com/docs/api), and the line of
the Caddyfile that makes it is looked up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tuner.lint.caddy_lines import line_of
from tuner.lint.finding import Finding, LintFacts, LintRule, Measurable
from tuner.own.caddy.origin import CaddyOrigin, read
from tuner.own.caddy.server import CaddyOwnConfiguration
from tuner.own.home import LocalHome
from tuner.own.server import OwnConfiguration, OwnOptions
from tuner.reading.env_file import read_env_file

_DOCS = "https://caddyserver.com/docs/"
_JSON = _DOCS + "json/apps/http/"
_IDLE_PER_HOST = 32
"""Idle connections that Caddy keeps for each upstream by default."""
_WHOLE_DEFAULTS = (2, 11)
_HIGH_LEVEL = 6
_SHORT_IDLE_NS = 15_000_000_000

PlacedValue = tuple[str, Any]
"""A path with its value."""
CaddyFindings = Iterator[tuple[str, str]]
CaddyRule = LintRule[tuple[PlacedValue, ...], str]


needs_program = True
measurable = {
    "few-idle-connections": Measurable("upstream_keepalive_connections"),
    "flush-each-piece": Measurable("flush_immediately", trade=True),
}


def lint_file(wishes: OwnOptions, facts: LintFacts, program: str) -> tuple[Finding, ...]:
    """Implement ``Rules.lint_file``."""
    added = read_env_file(wishes.env_file) if wishes.env_file else {}
    return _placed(read(str(Path(wishes.config).absolute()), LocalHome(program, added)), facts)


def lint_own(own: OwnConfiguration, facts: LintFacts) -> tuple[Finding, ...]:
    """Implement ``Rules.lint_own``."""
    if not isinstance(own, CaddyOwnConfiguration):
        return ()
    return _placed(own.origin, facts)


def _placed(origin: CaddyOrigin, facts: LintFacts) -> tuple[Finding, ...]:
    """Return the findings with the lines of the Caddyfile."""
    found = []
    for one in lint(origin.config, origin.file, facts):
        file, line = line_of(origin, one.place)
        found.append(replace(one, file=file, line=line))
    return tuple(found)


def lint(config: Mapping[str, Any], file: str, facts: LintFacts) -> tuple[Finding, ...]:
    """Return the findings of all rules.

    Args:
        config: Caddy's JSON.
        file: the user's name for it.
        facts: server and host.
    """
    places = tuple(_walk("", config))
    return tuple(
        rule.finding(what, file=file, line=None, place=path)
        for rule in RULES
        for path, what in rule.check(places, facts)
    )


def _walk(path: str, value: Any) -> Iterator[PlacedValue]:
    yield path or "/", value
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _walk(f"{path}/{key}", inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _walk(f"{path}/{index}", inner)


def _handlers(
    places: tuple[PlacedValue, ...], name: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path, value in places:
        if isinstance(value, Mapping) and value.get("handler") == name:
            yield path, value


def _transports(places: tuple[PlacedValue, ...]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path, handler in _handlers(places, "reverse_proxy"):
        transport = handler.get("transport") or {}
        if transport.get("protocol", "http") == "http":
            yield f"{path}/transport", transport


def _keepalive_off(places: tuple[PlacedValue, ...], _: LintFacts) -> CaddyFindings:
    for path, transport in _transports(places):
        if (transport.get("keep_alive") or {}).get("enabled") is False:
            yield f"{path}/keep_alive", "every request opens a connection to the upstream"


def _few_idle(places: tuple[PlacedValue, ...], facts: LintFacts) -> CaddyFindings:
    for path, transport in _transports(places):
        kept = transport.get("keep_alive")
        if not kept or kept.get("enabled") is False:
            continue
        idle = kept.get("max_idle_conns_per_host")
        if idle is None and facts.version < _WHOLE_DEFAULTS:
            said = (
                "one setting of keep_alive drops the other defaults before 2.11: 2 idle"
                " connections are kept for each upstream"
            )
            yield f"{path}/keep_alive", said
        elif idle is not None and 0 < idle < _IDLE_PER_HOST:
            yield (
                f"{path}/keep_alive/max_idle_conns_per_host",
                (
                    f"{idle} idle connections are kept for each upstream; Caddy's default is"
                    f" {_IDLE_PER_HOST}"
                ),
            )


def _flush(places: tuple[PlacedValue, ...], _: LintFacts) -> CaddyFindings:
    for path, handler in _handlers(places, "reverse_proxy"):
        if handler.get("flush_interval") == -1:
            yield f"{path}/flush_interval", "every piece of an answer is flushed by itself"


def _high_level(places: tuple[PlacedValue, ...], _: LintFacts) -> CaddyFindings:
    for path, handler in _handlers(places, "encode"):
        encodings = handler.get("encodings") or {}
        level = (encodings.get("gzip") or {}).get("level") or 0
        if level > _HIGH_LEVEL:
            yield f"{path}/encodings/gzip", f"compression at level {level}"
        if (encodings.get("zstd") or {}).get("level") == "best":
            yield f"{path}/encodings/zstd", "compression at level best"


def _debug(places: tuple[PlacedValue, ...], _: LintFacts) -> CaddyFindings:
    for path, value in places:
        if path.startswith("/logging/logs/") and path.endswith("/level") and value == "DEBUG":
            yield path, "lines are written for every step of every request"


def _short_idle(places: tuple[PlacedValue, ...], _: LintFacts) -> CaddyFindings:
    for path, value in places:
        short = isinstance(value, int) and 0 < value < _SHORT_IDLE_NS
        if path.startswith("/apps/http/servers/") and path.endswith("/idle_timeout") and short:
            yield path, f"an idle connection is closed after {value / 1e9:g} s"


def _full_duplex(places: tuple[PlacedValue, ...], _: LintFacts) -> CaddyFindings:
    for path, value in places:
        if path.endswith("/enable_full_duplex") and value is True:
            yield path, "answers may begin before requests are read"


RULES: tuple[CaddyRule, ...] = (
    CaddyRule(
        "upstream-without-keepalive",
        "wrong",
        _keepalive_off,
        "A connection for each request costs about half of a proxy's throughput where answers are"
        " small",
        "remove keepalive off from the transport",
        _JSON + "servers/routes/handle/reverse_proxy/transport/http/keep_alive/",
    ),
    CaddyRule(
        "few-idle-connections",
        "costs",
        _few_idle,
        "Above that number of concurrent requests, each one opens and closes a connection",
        "keepalive_idle_conns_per_host 32; or more, up to the number of concurrent requests",
        _DOCS + "caddyfile/directives/reverse_proxy#the-http-transport",
    ),
    CaddyRule(
        "flush-each-piece",
        "costs",
        _flush,
        "Each piece costs a write, and a disconnected client does not cancel the upstream's work",
        "remove flush_interval, except where answers are streams",
        _DOCS + "caddyfile/directives/reverse_proxy#streaming",
    ),
    CaddyRule(
        "high-compression",
        "costs",
        _high_level,
        "The highest levels cost much time for few bytes",
        "gzip 5, zstd default, or precompressed files",
        _DOCS + "caddyfile/directives/encode",
    ),
    CaddyRule(
        "debug-log",
        "wrong",
        _debug,
        "It is for debugging, and slows everything down",
        "remove `debug` from the global options",
        _DOCS + "caddyfile/options#debug",
    ),
    CaddyRule(
        "short-idle-timeout",
        "costs",
        _short_idle,
        "Returning clients need a new connection and handshake",
        "remove `timeouts idle`; the default is 5 minutes",
        _DOCS + "caddyfile/options#timeouts",
    ),
    CaddyRule(
        "full-duplex",
        "costs",
        _full_duplex,
        "Clients that send everything before they read may wait forever",
        "remove enable_full_duplex",
        _DOCS + "caddyfile/options#enable-full-duplex",
    ),
)
