"""The options of ``bind`` and ``server`` lines: how many words each takes, and which the lab keeps.

Sections 5.1 and 5.2 of the manual.
https://docs.haproxy.org/2.8/configuration.html#5
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tuner.reading.haproxy_text import HaproxyLine


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BIND_FLAGS = _names(
    "accept-proxy allow-0rtt defer-accept force-sslv3 force-tlsv10 force-tlsv11 force-tlsv12"
    " force-tlsv13 generate-certificates no-alpn no-ca-names no-sslv3 no-tls-tickets no-tlsv10"
    " no-tlsv11 no-tlsv12 no-tlsv13 prefer-client-ciphers quic-force-retry ssl strict-sni"
    " no-strict-sni tfo transparent v4v6 v6only tls-tickets"
)
_SERVER_FLAGS = _names(
    "agent-check allow-0rtt backup check check-reuse-pool check-send-proxy check-ssl"
    " check-via-socks4 disabled enabled force-sslv3 force-tlsv10 force-tlsv11 force-tlsv12"
    " force-tlsv13 non-stick no-agent-check no-backup no-check no-check-reuse-pool no-check-ssl"
    " no-renegotiate no-send-proxy no-send-proxy-v2 no-send-proxy-v2-ssl no-send-proxy-v2-ssl-cn"
    " no-ssl no-ssl-reuse no-sslv3 no-sni-auto no-strict-maxconn no-tfo no-tls-tickets no-tlsv10"
    " no-tlsv11 no-tlsv12 no-tlsv13 no-verifyhost send-proxy send-proxy-v2 send-proxy-v2-ssl"
    " send-proxy-v2-ssl-cn ssl ssl-reuse sni-auto stick strict-maxconn tfo tls-tickets"
)
KEPT_BY_BIND = _names(
    "alpn backlog ciphers ciphersuites client-sigalgs curves defer-accept ecdhe force-tlsv12"
    " force-tlsv13 maxconn mss nice no-alpn no-sslv3 no-tls-tickets no-tlsv10 no-tlsv11 no-tlsv12"
    " no-tlsv13 prefer-client-ciphers shards sigalgs ssl ssl-max-ver ssl-min-ver tcp-ut tfo"
    " tls-tickets"
)
"""Options of an address that say how it is served; the others say where, and to whom."""
KEPT_BY_SERVER = _names(
    "backup cookie disabled error-limit hash-key max-reuse maxconn maxqueue minconn non-stick"
    " pool-low-conn pool-max-conn pool-purge-delay slowstart stick strict-maxconn weight"
)
"""Options of a server that say how requests reach it; the others are about its host."""


@dataclass(frozen=True, slots=True)
class HaproxyOption:
    """One option of a line, with its place among the words."""

    name: str
    value: str
    """Empty for a flag."""
    at: int
    """Index of its name among the words of the line."""
    length: int
    """Number of its words."""


def options(words: Sequence[str]) -> Iterator[HaproxyOption]:
    """Yield the options of a ``bind``, ``server``, ``default-server`` or ``server-template`` line.

    Args:
        words: words of the line.
    """
    kind = words[0]
    flags = _BIND_FLAGS if kind == "bind" else _SERVER_FLAGS
    at = {"bind": 2, "server": 3, "default-server": 1, "server-template": 4}[kind]
    while at < len(words):
        name = words[at]
        length = 1 if name in flags else 2
        if name == "source" and words[at + 2 : at + 3] in (["usesrc"], ("usesrc",)):
            length = 4
        value = words[at + 1] if length > 1 and at + 1 < len(words) else ""
        yield HaproxyOption(name, value, at, min(length, len(words) - at))
        at += length


def option_value(line: HaproxyLine, name: str) -> str | None:
    """Return the value of an option of a line, the last one if it is repeated; None without it."""
    found = [each.value for each in options(line.words) if each.name == name]
    return found[-1] if found else None
