"""The wire: the requested protocol, and the negotiated one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from tuner.reading.located import Node
from tuner.reading.shape import AnyText, Either, Keys, OneWord, OnOff, Shape, Whole

WireProtocol = Literal["http1", "http2", "http3"]
PROTOCOLS: tuple[WireProtocol, ...] = get_args(WireProtocol)
NEGOTIATED: Mapping[WireProtocol, str] = {"http1": "http/1.1", "http2": "h2", "http3": "http/3"}
"""The names of ALPN (RFC 7301; ``http/3`` for h3, RFC 9114), as generators report them."""

_OLD_NAME = "http/1.1"
_MOST_STREAMS = 1_000

_PROTOCOL = OneWord(PROTOCOLS)
_STREAMS = Whole(1, _MOST_STREAMS, "Requests that a connection may carry at the same time [1].")
_REOPENED = Whole(1, 10**9, "Requests after which a connection is opened anew [stays open].")
_EXPECT = Keys(
    optional={"version": AnyText(), "cipher": AnyText(), "group": AnyText()},
    about="Names that must be negotiated, such as TLSv1.3.",
)
_TLS = Keys(
    optional={
        "server_name": AnyText("Name for SNI and for the check of the certificate [localhost]."),
        "ca": AnyText("PEM file of trusted authorities [the lab's]."),
        "verify": OnOff("Verify the certificate [on]."),
        "resume": OnOff("Resume earlier sessions in later connections [on]."),
        "expect": _EXPECT,
    }
)
WIRE: Mapping[str, Shape] = {
    "protocol": Either((_PROTOCOL, OneWord((_OLD_NAME,))), "Protocol of the requests [http1]."),
    "tls": Either((OnOff(), _TLS), "Encrypt; http3 requires it [cleartext]."),
    "streams": _STREAMS,
    "requests_per_connection": _REOPENED,
}
"""Keys of a workload that concern its connections."""


@dataclass(frozen=True, slots=True)
class Tls:
    """The client's side of TLS, as a workload asks for it."""

    server_name: str = "localhost"
    """Name for SNI and for the check of the certificate."""
    ca_file: str = ""
    """PEM file of trusted authorities; empty: the authority of the lab."""
    verify: bool = True
    resume: bool = True
    """True to resume earlier sessions in later connections."""
    version: str = ""
    cipher: str = ""
    group: str = ""
    """Required group; empty: any that both sides prefer."""


@dataclass(frozen=True, slots=True)
class Wire:
    """The requirements of a workload on its connections."""

    protocol: WireProtocol = "http1"
    tls: Tls | None = None
    """None: cleartext; HTTP/2 is then spoken with prior knowledge (RFC 9113, 3.3)."""
    streams: int = 1
    """Most concurrent requests on a connection."""
    requests_per_connection: int | None = None
    """Requests per connection before it is opened anew, for a load of handshakes."""

    @property
    def words(self) -> str:
        """``h2 over TLS, 8 streams``."""
        parts = [NEGOTIATED[self.protocol] + (" over TLS" if self.tls else ", cleartext")]
        if self.streams > 1:
            parts.append(f"{self.streams} streams on each connection")
        if self.requests_per_connection:
            parts.append(f"a new connection every {self.requests_per_connection} requests")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class NegotiatedTerms:
    """The terms that generator and server agreed on in a window, as far as reported.

    Where connections differ, names are joined by `` + ``.
    """

    tls_version: str = ""
    """Empty: cleartext, or not reported."""
    cipher: str = ""
    group: str = ""
    full: int = 0
    """Full TLS handshakes since the preparations."""
    resumed: int = 0
    handshakes: int = 0
    """Connections opened during the measured part."""
    handshake_p50_us: float = 0.0
    handshake_p99_us: float = 0.0
    """p99 from the first packet until a request could be sent, in the measured part or, if no
    connection was opened in it, before it."""
    blocked: int = 0
    """Requests that waited on a shared connection because the client could not write yet."""
    blocked_p99_us: float = 0.0


CLEARTEXT = NegotiatedTerms()


def unlike(asked: Wire, protocol: str, agreed: NegotiatedTerms) -> str:
    """Describe the difference between requested and negotiated terms; empty if none.

    Args:
        asked: by the workload.
        protocol: its ALPN name; empty if no connection was established.
        agreed: other terms reported by the window; missing ones are ignored.
    """
    tls = asked.tls or Tls()
    pairs = [
        ("protocol", NEGOTIATED[asked.protocol], protocol),
        ("TLS version", tls.version, agreed.tls_version),
        ("cipher", tls.cipher, agreed.cipher),
        ("group", tls.group, agreed.group),
    ]
    return "; ".join(
        f"asked for {what} {wanted}, but {found} was negotiated"
        for what, wanted, found in pairs
        if wanted and found and _plain(wanted) != _plain(found)
    )


def _plain(name: str) -> str:
    """Normalise a name: libraries write TLS13_AES_… and TLS_AES_…, TLSv1.3 and TLSv1_3."""
    return re.sub(r"[^a-z0-9]", "", name.lower()).replace("tls13", "tls").replace("tlsv1", "tls1")


def read_wire(keys: Mapping[str, Node], folder: Path) -> Wire:
    """Return the connections of a workload's file.

    Args:
        keys: the given ones of ``protocol``, ``tls``, ``streams`` and ``requests_per_connection``.
        folder: base of relative paths.

    Raises:
        DefinitionError: the keys contradict each other.
    """
    protocol = _protocol(keys["protocol"]) if "protocol" in keys else "http1"
    tls = _tls(keys["tls"], folder) if "tls" in keys else None
    if protocol == "http3" and tls is None:
        raise keys["protocol"].error("http3 is always encrypted; add: tls: on")
    streams = _STREAMS.read(keys["streams"]) if "streams" in keys else 1
    if streams > 1 and protocol == "http1":
        raise keys["streams"].error("http1 carries one request at a time; use http2 or http3")
    every = keys.get("requests_per_connection")
    return Wire(protocol, tls, streams, None if every is None else _REOPENED.read(every))


def _protocol(node: Node) -> WireProtocol:
    return "http1" if node.text() == _OLD_NAME else _PROTOCOL.read(node)


def _tls(node: Node, folder: Path) -> Tls | None:
    if isinstance(node.content, str):
        return Tls() if node.boolean() else None
    keys = _TLS.read(node)
    expect = _EXPECT.read(keys["expect"]) if "expect" in keys else {}
    ca = str(folder / keys["ca"].text()) if "ca" in keys else ""
    if ca and not Path(ca).is_file():
        raise keys["ca"].error(f"{ca} does not exist; name a PEM file")
    wanted = {name: found.text() for name, found in expect.items()}
    return Tls(
        server_name=keys["server_name"].text() if "server_name" in keys else "localhost",
        ca_file=ca,
        verify=keys["verify"].boolean() if "verify" in keys else True,
        resume=keys["resume"].boolean() if "resume" in keys else True,
        **wanted,
    )
