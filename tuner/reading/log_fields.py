"""From the named fields of a log's line to its entry.

Every format of text ends here: fields have the names of Nginx's variables
(https://nginx.org/en/docs/varindex.html), and other notations are translated to them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from tuner.errors import DefinitionError
from tuner.reading.log_entry import (
    LogEntry,
    any_time,
    checked_target,
    checked_time,
    iso_time,
    local_time,
    optional_whole,
    seconds_of,
    split_request,
    unix_time,
    whole,
)

Builder = Callable[[Sequence[str]], LogEntry]
"""Function from the values of a line to its entry; raises ValueError if it is not a request."""

_TIMES: tuple[tuple[str, Callable[[str], float]], ...] = (
    ("msec", unix_time),
    ("time_ms", lambda text: unix_time(text) / 1e3),
    ("time_us", lambda text: unix_time(text) / 1e6),
    ("time_iso8601", iso_time),
    ("time_local", local_time),
    ("time", lambda text: _known(any_time(text))),
)
_PATHS = ("request_uri", "uri", "document_uri")
_QUERIES = ("args", "query_string")
_SIZES = ("body_bytes_sent", "sent_http_content_length", "bytes_sent")
_TLS_SCHEMES = {"https", "h2", "grpcs", "wss"}
"""Values of ``$scheme``, and of the first field of an Application Load Balancer."""
_EMPTY = {"", "-"}
_SECONDS = 64
_REQUESTS = 1024
"""Times and requests that are kept, because they recur within a few lines of a busy log."""

WANTED = frozenset(
    (
        *(name for name, _ in _TIMES),
        *("request", "request_method", *_PATHS, *_QUERIES, "server_protocol"),
        *("status", *_SIZES, "request_length", "content_length", "http_content_length"),
        *("content_type", "http_content_type", "scheme", "https", "ssl_protocol", "http2"),
        *("upstream_response_time", "connection", "connection_requests"),
        *("remote_addr", "remote_port", "realip_remote_port"),
    )
)
"""Names of the fields that an entry is made of."""


def missing(names: Sequence[str]) -> list[str]:
    """Return what a format with these fields lacks, in the words of a message."""
    lacking = []
    if not any(name in names for name, _ in _TIMES):
        lacking.append("a time ($time_local, $time_iso8601 or $msec; %t)")
    if "request" not in names and not (
        "request_method" in names and any(name in names for name in _PATHS)
    ):
        lacking.append("a request ($request, or $request_method and $request_uri; %r)")
    if "status" not in names:
        lacking.append("a status ($status; %>s)")
    return lacking


def entry_builder(names: Sequence[str]) -> Builder:
    """Return the function that makes an entry of values in the order of these names.

    Raises:
        DefinitionError: time, request or status is not among the names.
    """
    lacking = missing(names)
    if lacking:
        raise DefinitionError(f"the format lacks {' and '.join(lacking)}")
    at = {name: names.index(name) for name in names}
    time_name, read_time = next(pair for pair in _TIMES if pair[0] in at)
    at_time, at_status = at[time_name], at["status"]
    at_size = next((at[name] for name in _SIZES if name in at), None)
    moment = functools.lru_cache(_SECONDS)(lambda text: checked_time(read_time(text)))
    request = _request_reader(at)
    extras = _extras(at)

    def build(values: Sequence[str]) -> LogEntry:
        unix_s = moment(values[at_time])
        method, target, protocol = request(values)
        try:
            status = int(values[at_status])
            size = 0 if at_size is None else whole(values[at_size])
        except ValueError:
            raise ValueError("no status, or no size") from None
        if not extras:
            return LogEntry(unix_s, method, target, status, size, protocol)
        further = {name: read(values) for name, read in extras}
        return LogEntry(unix_s, method, target, status, size, protocol, **further)  # type: ignore[arg-type]

    return build


def _known(moment: float | None) -> float:
    if moment is None:
        raise ValueError("no time")
    return moment


@functools.lru_cache(_REQUESTS)
def _request(text: str) -> tuple[str, str, str]:
    """Return method, checked target and protocol of a request line."""
    method, target, protocol = split_request(text)
    return method, checked_target(method, target), protocol


def _request_reader(at: dict[str, int]) -> Callable[[Sequence[str]], tuple[str, str, str]]:
    """Return the reader of method, checked target and protocol."""
    if "request" in at:
        at_request = at["request"]
        return lambda values: _request(values[at_request])
    at_method = at["request_method"]
    name = next(name for name in _PATHS if name in at)
    at_path, at_protocol = at[name], at.get("server_protocol")
    # $request_uri has its query already.
    query = next((at[key] for key in _QUERIES if key in at), None)
    at_query = None if name == "request_uri" else query

    def read(values: Sequence[str]) -> tuple[str, str, str]:
        target = values[at_path]
        if at_query is not None and values[at_query] not in _EMPTY:
            # Apache's %q begins with the question mark.
            target += "?" + values[at_query].removeprefix("?")
        method = values[at_method]
        protocol = values[at_protocol] if at_protocol is not None else ""
        return method, checked_target(method, target), protocol

    return read


def _extras(at: dict[str, int]) -> list[tuple[str, Callable[[Sequence[str]], object]]]:
    """Return the optional fields of an entry that a format has, with their readers."""
    readers: dict[str, tuple[tuple[str, ...], Callable[[str], object]]] = {
        "body_bytes": (("content_length", "http_content_length"), optional_whole),
        "request_bytes": (("request_length",), optional_whole),
        "content_type": (("content_type", "http_content_type"), media_type),
        "upstream_s": (("upstream_response_time",), seconds_of),
        "connection": (("connection",), lambda text: text),
        "nth": (("connection_requests",), lambda text: optional_whole(text) or 0),
        "tls": (("scheme", "ssl_protocol", "https"), _is_tls),
    }
    found = []
    for field, (names, read) in readers.items():
        index = next((at[name] for name in names if name in at), None)
        if index is not None:
            found.append((field, _reading(index, read)))
    port = next((at[name] for name in ("remote_port", "realip_remote_port") if name in at), None)
    if "connection" not in at and port is not None and "remote_addr" in at:
        address = at["remote_addr"]
        found.append(("connection", lambda values: f"{values[address]} {values[port]}"))
    return found


def _reading(index: int, read: Callable[[str], object]) -> Callable[[Sequence[str]], object]:
    return lambda values: read(values[index])


def _is_tls(text: str) -> bool:
    """Return whether a scheme, a version of TLS or the flag ``$https`` stands for TLS."""
    return text in _TLS_SCHEMES or text == "on" or text.startswith("TLS")


def media_type(text: str) -> str:
    """Return a media type without its parameters, which may name a boundary; empty for ``-``."""
    return "" if text in _EMPTY else text.partition(";")[0].strip().lower()
