"""One request of an access log, and the reading of the texts that every format shares."""

from __future__ import annotations

import functools
import math
import re
from datetime import UTC, datetime

import msgspec

_METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_ORIGIN = re.compile(r"https?://[^/]*")
_ESCAPED_BYTE = re.compile(r"(?<!\\)\\x([0-9A-F]{2})")
_LONGEST_TARGET = 8192
"""Longest target that Nginx and Apache accept by default, characters."""
_LATEST_UNIX_S = 253_402_300_799.0
"""The year 9999."""
_LOCAL_TIME = "%d/%b/%Y:%H %z"
_CONSOLE_TIMES = ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S")


class LogEntry(msgspec.Struct, frozen=True, gc=False):
    """One line of a log.

    A struct of msgspec, because a frozen dataclass takes six times as long to create, and a log
    has millions of lines.
    """

    unix_s: float
    """Time of the request; some formats have whole seconds only."""
    method: str
    target: str
    """Path with its query."""
    status: int
    size_bytes: int
    """Size of the answer as sent: of its body, or with its header if the log has nothing else."""
    protocol: str = ""
    """``HTTP/2.0``; empty if the log does not have it."""
    tls: bool | None = None
    """None if the log does not have it."""
    body_bytes: int | None = None
    """Size of the request's body."""
    request_bytes: int | None = None
    """Size of the request with its header."""
    content_type: str = ""
    """Media type of the request's body."""
    upstream_s: float | None = None
    """Time until the backend's answer was complete."""
    connection: str = ""
    """Identity of the client's connection; empty if the log does not have it."""
    nth: int = 0
    """Number of the request on its connection, from 1; 0 if the log does not have it."""


def split_request(text: str) -> tuple[str, str, str]:
    """Return method, target and protocol of a request line; HTTP/0.9 has no protocol.

    Raises:
        ValueError: the text is not a request line.
    """
    words = text.split(" ")
    if len(words) == 3 and words[2].startswith("HTTP/"):
        return words[0], words[1], words[2]
    if len(words) == 2:
        return words[0], words[1], ""
    raise ValueError("no request")


def checked_target(method: str, target: str) -> str:
    """Return the path and query of a target; bytes that the log escaped become ``%XX``.

    Messages quote no part of a request, because it may hold a secret.

    Raises:
        ValueError: method or target are not those of a request.
    """
    if not target or not _is_method(method):
        raise ValueError("no request")
    if target[0] != "/":
        target = _ORIGIN.sub("", target) or "/"
        if target[0] != "/":
            raise ValueError("no path")
    if len(target) > _LONGEST_TARGET:
        raise ValueError(f"a target of {len(target):,} characters")
    if "\\" in target:
        target = _ESCAPED_BYTE.sub(r"%\1", target)
    if " " in target:
        raise ValueError("no request")
    return target


@functools.lru_cache(maxsize=256)
def _is_method(text: str) -> bool:
    return _METHOD.fullmatch(text) is not None


def whole(text: str) -> int:
    """Return a number of bytes; 0 for ``-`` and for nothing.

    Raises:
        ValueError: the text is neither.
    """
    return 0 if text in {"-", ""} else int(text)


def optional_whole(text: str) -> int | None:
    """Return a whole number; None for ``-`` or another text without a number."""
    return int(text) if text.isdecimal() and text.isascii() else None


def seconds_of(text: str) -> float | None:
    """Return the sum of the times of a list such as ``0.010, 0.200 : 0.003``; None without any.

    Nginx separates the servers of one upstream by commas, and groups of them by colons
    (https://nginx.org/en/docs/http/ngx_http_upstream_module.html#var_upstream_response_time).
    """
    try:
        # A load balancer writes -1 if no backend answered.
        return one if 0 <= (one := float(text)) < math.inf else None
    except ValueError:
        pass
    times = [float(part) for part in re.findall(r"\d+(?:\.\d+)?", text)]
    return sum(times) if times else None


def checked_time(unix_s: float) -> float:
    """Return a time.

    Raises:
        ValueError: it is not a number between 1970 and 9999.
    """
    if not 0 <= unix_s <= _LATEST_UNIX_S:
        raise ValueError("no time after 1970")
    return unix_s


@functools.lru_cache(maxsize=64)
def _hour(date: str, zone: str) -> float:
    # The zone is in the format.
    return datetime.strptime(f"{date} {zone}", _LOCAL_TIME).timestamp()  # noqa: DTZ007


def local_time(text: str) -> float:
    """Return the Unix time of ``10/Oct/2025:13:55:36 +0000``.

    The hour is cached, because many lines share it and ``strptime`` is slow.

    Raises:
        ValueError: the text is not such a time.
    """
    try:
        minute, second = int(text[15:17]), int(text[18:20])
        if text[14] != ":" or text[17] != ":" or text[20] != " " or minute > 59 or second > 60:
            raise ValueError
        return _hour(text[:14], text[21:]) + 60 * minute + second
    except (ValueError, IndexError):
        raise ValueError("no time such as 10/Oct/2025:13:55:36 +0000") from None


def iso_time(text: str) -> float:
    """Return the Unix time of ``2025-10-10T13:55:36.123Z``; without a zone in UTC.

    Raises:
        ValueError: the text is not such a time.
    """
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError("no time such as 2025-10-10T13:55:36Z") from None


def unix_time(text: str) -> float:
    """Return a Unix time in seconds.

    Raises:
        ValueError: the text is not a number.
    """
    try:
        return float(text)
    except ValueError:
        raise ValueError("no time such as 1760097336.123") from None


def any_time(value: object) -> float | None:
    """Return the Unix time of a number, or of a text in one of the usual forms; None if neither."""
    text = str(value)
    for read in (unix_time, iso_time, local_time, _console_time):
        try:
            return checked_time(read(text))
        except ValueError:
            continue
    return None


def _console_time(text: str) -> float:
    for form in _CONSOLE_TIMES:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    raise ValueError("no time such as 2025/10/10 13:55:36.123")
