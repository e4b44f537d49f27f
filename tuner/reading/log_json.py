"""Access logs of one JSON object per line: Caddy's, and those of Nginx's ``escape=json``.

Caddy writes JSON by default (https://caddyserver.com/docs/caddyfile/directives/log), and its
console format ends with the same object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from tuner.reading.log_entry import (
    LogEntry,
    any_time,
    checked_target,
    optional_whole,
    seconds_of,
    split_request,
)
from tuner.reading.log_fields import media_type

_DECODER = msgspec.json.Decoder()
_TIMES = ("msec", "ts", "time_iso8601", "time_local", "time", "timestamp", "@timestamp")
_COLOUR = re.compile(r"\x1b\[\d+m")
_CONSOLE = re.compile(r"(?P<time>\S+(?: \S+)?)\t[A-Z]+\t(?:[^\t]*\t)+?(?P<fields>\{.*)")
_EMPTY = (None, "", "-")


def read_json(line: str) -> LogEntry | None:
    """Read a JSON object; return None if the line is not one.

    Raises:
        ValueError: the object is broken, or is not a request; the message names what is missing.
    """
    return _entry(_decoded(line)) if line.startswith("{") else None


def read_console(line: str) -> LogEntry | None:
    """Read a line of Caddy's console format; return None if the line has another form.

    Raises:
        ValueError: the line is not about a request.
    """
    found = _CONSOLE.match(_COLOUR.sub("", line))
    if found is None:
        return None
    return _entry({"ts": found["time"], **_decoded(found["fields"])})


def json_keys(line: str) -> list[str]:
    """Return the keys of a line's object.

    Raises:
        ValueError: the line is not a JSON object.
    """
    return list(_decoded(line))


def _decoded(text: str) -> Mapping[str, Any]:
    try:
        fields = _DECODER.decode(text)
    except msgspec.DecodeError:
        raise ValueError("invalid JSON") from None
    except (RecursionError, UnicodeEncodeError):
        raise ValueError("invalid JSON: nested too deep, or not text") from None
    if not isinstance(fields, dict):
        raise ValueError("no JSON object")  # noqa: TRY004 - of the line, not of an argument
    return fields


def _entry(fields: Mapping[str, Any]) -> LogEntry:
    unix_s = any_time(_first(fields, *_TIMES))
    if unix_s is None:
        raise ValueError("no time (msec, ts, time_iso8601, time_local)")
    inner = fields.get("request")
    if isinstance(inner, Mapping):
        method, target = str(inner.get("method", "")), str(inner.get("uri", ""))
        protocol = str(inner.get("proto", ""))
    elif isinstance(inner, str):
        method, target, protocol = split_request(inner)
    else:
        method = str(_first(fields, "request_method", "method"))
        target = str(_first(fields, "request_uri", "uri", "path"))
        protocol = str(_first(fields, "server_protocol", "protocol", "proto"))
    target = checked_target(method, target)
    try:
        status = int(str(_first(fields, "status")))
        sizes = _first(fields, "body_bytes_sent", "size", "bytes_sent", "bytes") or 0
        size = int(float(str(sizes)))
    except (ValueError, OverflowError):
        raise ValueError("no status, or no size") from None
    extras = _of_caddy(fields, inner) if isinstance(inner, Mapping) else _of_nginx(fields)
    return LogEntry(unix_s, method, target, status, size, protocol, **extras)


def _of_caddy(fields: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the optional fields of an entry of Caddy."""
    headers = request.get("headers")
    types = headers.get("Content-Type") if isinstance(headers, Mapping) else None
    port = request.get("remote_port") or ""
    return {
        # Caddy logs `tls` for encrypted connections only.
        "tls": request.get("tls") is not None,
        "body_bytes": _whole(fields.get("bytes_read")),
        "content_type": media_type(str(types[0])) if isinstance(types, list) and types else "",
        "connection": f"{request.get('remote_ip', '')} {port}" if port else "",
    }


def _of_nginx(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the optional fields of an entry with the names of Nginx's variables as keys."""
    scheme = _first(fields, "scheme")
    address, port = (_first(fields, name) for name in ("remote_addr", "remote_port"))
    connection = str(_first(fields, "connection"))
    return {
        "tls": scheme == "https" if scheme else _has_tls(fields),
        "body_bytes": _whole(_first(fields, "content_length", "http_content_length")),
        "request_bytes": _whole(_first(fields, "request_length")),
        "content_type": media_type(str(_first(fields, "content_type", "http_content_type"))),
        "upstream_s": seconds_of(str(_first(fields, "upstream_response_time"))),
        "connection": connection or (f"{address} {port}" if address and port else ""),
        "nth": _whole(_first(fields, "connection_requests")) or 0,
    }


def _has_tls(fields: Mapping[str, Any]) -> bool | None:
    return bool(_first(fields, "ssl_protocol")) if "ssl_protocol" in fields else None


def _whole(value: object) -> int | None:
    return optional_whole(str(value))


def _first(fields: Mapping[str, Any], *names: str) -> Any:
    return next((fields[name] for name in names if fields.get(name) not in _EMPTY), "")
