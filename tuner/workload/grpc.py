"""gRPC as far as a workload needs it: which requests use it, and the frame of a message.

https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
"""

from __future__ import annotations

from collections.abc import Iterable

MEDIA_TYPE = "application/grpc"
LARGEST_STREAM = 16 << 20
"""Limit for all messages of one direction together, bytes."""
TRAILERS = ("TE", "trailers")
"""Header that every request has."""
_PREFIX = b"\0"
"""Mark of a message that is not compressed; its length follows in four bytes."""


def is_grpc(headers: Iterable[tuple[str, str]]) -> bool:
    """Return whether a request with these headers uses gRPC, by its media type."""
    types = (value for name, value in headers if name.lower() == "content-type")
    return any(f"{value};".startswith((f"{MEDIA_TYPE};", f"{MEDIA_TYPE}+")) for value in types)


def framed(message: bytes, times: int = 1) -> bytes:
    """Return a message in its frame, this number of times, as a stream has it."""
    return (_PREFIX + len(message).to_bytes(4, "big") + message) * times
