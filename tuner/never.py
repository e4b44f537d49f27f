"""Settings that no search touches, whoever's space names them.

They are there for security, for the operator, or for the answer itself; or they are known to do
harm that a load test does not show. A search that may change them finds "gains" that nobody
should have. By name, ``--force``, a user may still have one; the record then says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from tuner.text.statement import Statement

_SAFETY = "it decides who can read or join a connection, not how fast it is"
_VERIFY = "it decides whether the other side is who it says"
_SLOW_CLIENTS = "it is what keeps slow clients from holding connections for ever"
_LIMIT = "it is what keeps large requests out"
_SHARE = "it is what keeps one client from taking all"
_ADMITS = "it decides who gets an answer"
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
    **dict.fromkeys(
        (
            *("limit_req", "limit_req_zone", "limit_req_dry_run"),
            *("limit_conn", "limit_conn_zone", "limit_conn_dry_run"),
            *("limit_rate", "limit_rate_after"),
        ),
        _SHARE,
    ),
    **dict.fromkeys(("allow", "deny", "auth_basic", "auth_request", "satisfy"), _ADMITS),
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
    **dict.fromkeys(("basic_auth", "basicauth", "forward_auth"), _ADMITS),
    **dict.fromkeys(("max_header_size", "request_body", "max_size"), _LIMIT),
    "enable_0rtt": "a replayed first flight repeats a request",
    "allow_0rtt": "a replayed first flight repeats a request",
    "0rtt": "a replayed first flight repeats a request",
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

_BRINGS_IN = "what it brings in is not looked at"
_IN_TEXT = {
    "nginx": {
        # Ciphers and protocols have other words there, but kernel TLS is a parameter.
        **dict.fromkeys(("ssl_conf_command", "proxy_ssl_conf_command"), _SAFETY),
        **dict.fromkeys(("grpc_ssl_conf_command", "uwsgi_ssl_conf_command"), _SAFETY),
        **dict.fromkeys(("include", "load_module"), _BRINGS_IN),
        "log_format": _LOG,
    },
    "caddy": {"import": _BRINGS_IN, **dict.fromkeys(("log", "log_skip", "skip_log"), _LOG)},
    "nghttpx": {"include": _BRINGS_IN},
}

_BY_SERVER = {"nginx": _NGINX, "caddy": _CADDY, "nghttpx": _NGHTTPX}

_VARIABLE = re.compile(r"\$\{?(\w+)|\(\?P?<(\w+)>")
"""One that is read or set, or named in a regular expression."""
_VARIABLES = {"nginx": {"limit_rate": "limit_rate"}}
"""Variables that mean a directive of the list by being set."""


def refusal(server: str, name: str) -> str:
    """Why a setting is never searched; empty if it may be.

    Args:
        server: ``nginx``.
        name: a parameter's or a directive's; ``-`` is as good as ``_``.
    """
    plain = name.lower().replace("-", "_")
    return _BY_SERVER.get(server, {}).get(plain, "") or _EVERYWHERE.get(plain, "")


def text_refusal(server: str, name: str) -> str:
    """Why no searched value may reach a directive of a template; empty if one may.

    Beside what is never searched at all, these are directives that a parameter can stand for in
    part (``ssl_conf_command Options KTLS``), and those that bring in other text.
    """
    return refusal(server, name) or _IN_TEXT.get(server, {}).get(name, "")


def guarded(server: str, statements: Iterable[Statement]) -> list[tuple[str, Statement]]:
    """What no searched value may change in a configuration, in order.

    Returns:
        Statements of directives that are never searched, with what is in their blocks and what
        says what their variables hold; each with the directive's name.
    """
    every = list(statements)
    found: dict[int, tuple[str, Statement]] = {}
    for at, statement in enumerate(every):
        for words in (*statement.within, statement.words):
            name = words[0] if words else ""
            if text_refusal(server, name) and not _is_parameter(server, words, statement):
                found[at] = name, _without_options(statement)
                break
    readers = {**_VARIABLES.get(server, {}), **_read(server, found.values())}
    while readers:
        # What a variable is made of may be made of others.
        more: dict[int, tuple[str, Statement]] = {}
        for at, statement in enumerate(every):
            asked = [readers[each] for each in _mentioned(statement) if each in readers]
            if asked and at not in found:
                more[at] = asked[0], statement
        found |= more
        readers = _read(server, more.values())
    return [found[at] for at in sorted(found)]


def reached(
    server: str, statements: Iterable[Statement], others: Iterable[Statement]
) -> tuple[str, ...]:
    """The directives that no searched value may change, and that differ between two texts."""
    one, other = guarded(server, statements), guarded(server, others)
    apart = (Counter(one) - Counter(other)) + (Counter(other) - Counter(one))
    # Where only the order differs, the first that is out of it.
    moved = [here for here, there in zip(one, other, strict=False) if here != there][:1]
    return tuple(sorted({name for name, _ in apart or moved}))


def _is_parameter(server: str, words: tuple[str, ...], statement: Statement) -> bool:
    """Whether a directive says what parameters are for, and nothing else of its own."""
    if server == "nginx" and words[0] == "ssl_conf_command":
        return words[1:] in (("Options", "KTLS"), ("Options", "-KTLS"))
    # How much of a log is kept is a trade of its own; that there is one is not.
    inside = (*statement.within, statement.words)
    return server == "caddy" and words[0] == "log" and ("sampling",) in inside


def _without_options(statement: Statement) -> Statement:
    """A log without its buffer, which parameters are for."""
    if statement.name != "access_log":
        return statement
    kept = tuple(w for w in statement.words if not w.startswith(("buffer=", "flush=")))
    return Statement(kept, statement.within)


def _read(server: str, found: Iterable[tuple[str, Statement]]) -> dict[str, str]:
    """Nginx's variables that some statements mention, with the directive that each is for."""
    if server != "nginx":
        return {}
    return {each: name for name, statement in found for each in _mentioned(statement)}


def _mentioned(statement: Statement) -> Iterator[str]:
    """Variables that a statement reads or makes, or that the blocks around it make."""
    for words in (*statement.within, statement.words):
        for found in _VARIABLE.finditer(" ".join(words[1:])):
            yield found[1] or found[2]


def names(server: str) -> Collection[str]:
    """All that is on the list for one server."""
    return tuple(sorted({*_BY_SERVER.get(server, {}), *_EVERYWHERE}))
