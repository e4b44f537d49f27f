"""Settings that no search touches, whoever's space names them.

They are there for security, for the operator, or for the answer itself; or they are known to do
harm that a load test does not show. A search that may change them finds "gains" that nobody
should have. By name, ``--force``, a user may still have one; the record then says so.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

_SAFETY = "it decides who can read or join a connection, not how fast it is"
_VERIFY = "it decides whether the other side is who it says"
_SLOW_CLIENTS = "it is what keeps slow clients from holding connections for ever"
_LIMIT = "it is what keeps large requests out"
_SHARE = "it is what keeps one client from taking all"
_ANSWER = "it changes what clients get"
_CACHE = "it answers from a copy: that is another service, not a faster one"
_LOG = "it is the operator's record"
_GONE = "Nginx ignores it since 1.19.7"

_NGINX = {
    **dict.fromkeys(
        (
            *("ssl_ciphers", "ssl_protocols", "ssl_ecdh_curve", "ssl_dhparam"),
            *("ssl_prefer_server_ciphers", "proxy_ssl_ciphers", "proxy_ssl_protocols"),
        ),
        _SAFETY,
    ),
    "ssl_early_data": "a replayed first flight repeats a request",
    **dict.fromkeys(
        (
            *("ssl_verify_client", "ssl_verify_depth", "ssl_stapling_verify"),
            *("proxy_ssl_verify", "proxy_ssl_verify_depth"),
        ),
        _VERIFY,
    ),
    **dict.fromkeys(
        ("client_header_timeout", "client_body_timeout", "send_timeout"), _SLOW_CLIENTS
    ),
    **dict.fromkeys(
        (*("client_max_body_size", "client_header_buffer_size", "large_client_header_buffers"),),
        _LIMIT,
    ),
    **dict.fromkeys(("limit_req", "limit_conn", "limit_rate", "limit_rate_after"), _SHARE),
    **dict.fromkeys(
        (
            *("http2_max_field_size", "http2_max_header_size", "http2_max_requests"),
            *("http2_recv_timeout", "http2_idle_timeout"),
        ),
        _GONE,
    ),
    "lingering_close": "without it clients lose the end of what they were sent",
    "etag": _ANSWER,
    "gzip_types": _ANSWER,
    "access_log": f"{_LOG}; its buffer is a parameter of its own (access_log_buffer)",
    "error_log": _LOG,
    **dict.fromkeys(
        ("proxy_cache", "fastcgi_cache", "uwsgi_cache", "scgi_cache", "proxy_cache_valid"), _CACHE
    ),
    "timer_resolution": "it makes every time that the server knows coarser",
    "worker_priority": "it starves whatever else lives on the host, the load generator too",
    "quic_retry": "it is the answer to forged addresses",
    "quic_bpf": "it loses new connections after a reload (nginx issue 425)",
}
_CADDY = {
    **dict.fromkeys(("protocols", "ciphers", "curves", "tls_curves", "tls_ciphers"), _SAFETY),
    **dict.fromkeys(("tls_insecure_skip_verify", "client_auth"), _VERIFY),
    **dict.fromkeys(("read_header", "read_header_timeout", "read_body"), _SLOW_CLIENTS),
    **dict.fromkeys(("max_header_size", "request_body", "max_size"), _LIMIT),
    "enable_0rtt": "a replayed first flight repeats a request",
    "allow_0rtt": "a replayed first flight repeats a request",
    "enable_full_duplex": "it breaks clients that send all before they read",
    "metrics": "it is what the operator sees",
    "cache": _CACHE,
}
_NGHTTPX = {
    **dict.fromkeys(("ciphers", "tls13_ciphers", "groups", "tls_min_proto_version"), _SAFETY),
    **dict.fromkeys(("insecure", "verify_client"), _VERIFY),
    **dict.fromkeys(("frontend_read_timeout", "frontend_write_timeout"), _SLOW_CLIENTS),
    **dict.fromkeys(("request_header_field_buffer",), _LIMIT),
}
_EVERYWHERE = {"mitigations": "it opens the host to others on the same processor"}

_BY_SERVER = {"nginx": _NGINX, "caddy": _CADDY, "nghttpx": _NGHTTPX}

_WRITES_VALUE = re.compile(r"^\s*([a-z][a-z0-9_]*)\b[^;{}\n#]*\{\{", re.MULTILINE)


def refusal(server: str, name: str) -> str:
    """Why a setting is never searched; empty if it may be.

    Args:
        server: ``nginx``.
        name: a parameter's or a directive's; ``-`` is as good as ``_``.
    """
    plain = name.lower().replace("-", "_")
    return _BY_SERVER.get(server, {}).get(plain, "") or _EVERYWHERE.get(plain, "")


def in_template(server: str, text: str) -> Iterator[tuple[int, str, str]]:
    """Directives on the list that a template writes a value into.

    A constant there is no search, and none of this list's business.

    Yields:
        The line (1-based), the directive, and the reason.
    """
    for found in _WRITES_VALUE.finditer(text):
        name = found[1]
        reason = refusal(server, name)
        # The access log's place and buffer are values; that it is written at all is not.
        if reason and name not in ("access_log", "error_log"):
            yield text.count("\n", 0, found.start(1)) + 1, name, reason


def names(server: str) -> Collection[str]:
    """All that is on the list for one server."""
    return tuple(sorted({*_BY_SERVER.get(server, {}), *_EVERYWHERE}))
