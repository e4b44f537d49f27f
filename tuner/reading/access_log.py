"""Access logs, line by line: each request, its time, and its answer.

Each line has one of two forms: the combined format of Apache and Nginx
(https://nginx.org/en/docs/http/ngx_http_log_module.html), with any further fields, or one
JSON object per line, as Nginx writes with ``escape=json`` and Caddy by default
(https://caddyserver.com/docs/caddyfile/directives/log).
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tuner.reading.redaction import redact

_COMBINED = re.compile(
    r"\S+ \S+ .*?\[(?P<time>[^\]]+)\] "
    r'"(?P<request>(?:[^"\\]|\\.)*)" (?P<status>\d{3}) (?P<size>\d+|-)'
)
_REQUEST = re.compile(r"(?P<method>[!#$%&'*+.^_`|~0-9A-Za-z-]+) (?P<target>\S+)(?: HTTP/[\d.]+)?")
_ORIGIN = re.compile(r"https?://[^/]*")
_TIME = "%d/%b/%Y:%H:%M:%S %z"
_SHOWN = 5
_LONGEST_TARGET = 8192
"""Longest target that Nginx and Apache accept by default, characters."""
_LATEST_UNIX_S = 253_402_300_799.0
"""The year 9999."""
_MOST_KINDS = 200_000
"""Limit for kinds of requests in memory; beyond it the rarest are dropped."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One line of a log."""

    unix_s: float
    """Time of the request; the combined format has whole seconds only."""
    method: str
    target: str
    """Path with its query."""
    status: int
    size_bytes: int
    """Size of the answer's body as sent, bytes."""


def parse_line(line: str) -> LogEntry:
    """Read one line of either form.

    Raises:
        ValueError: the line has neither form, or no request; the message names what is missing.
    """
    return _json(line) if line.startswith("{") else _combined(line)


def _combined(line: str) -> LogEntry:
    found = _COMBINED.match(line)
    if found is None:
        raise ValueError("neither the combined format nor JSON")
    try:
        unix_s = _unix_s(found["time"])
    except ValueError:
        raise ValueError("no time such as 10/Oct/2025:13:55:36 +0000") from None
    size = 0 if found["size"] == "-" else int(found["size"])
    return _entry(unix_s, found["request"], found["status"], size)


@functools.lru_cache(maxsize=64)
def _unix_s(text: str) -> float:
    """Parse a time; cached, because the lines of one second repeat it."""
    return datetime.strptime(text, _TIME).timestamp()  # noqa: DTZ007 - %z is in _TIME


def _json(line: str) -> LogEntry:
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"invalid JSON: {error.msg}") from None
    except RecursionError:
        raise ValueError("invalid JSON: nested too deep") from None
    inner = fields.get("request")
    if isinstance(inner, Mapping):
        request = f"{inner.get('method', '')} {inner.get('uri', '')}"
    elif isinstance(inner, str):
        request = inner
    else:
        method = _first(fields, "request_method", "method")
        request = f"{method} {_first(fields, 'request_uri', 'uri', 'path')}"
    size = _first(fields, "body_bytes_sent", "size", "bytes_sent", "bytes") or 0
    return _entry(_moment(fields), request, _first(fields, "status"), size)


def _first(fields: Mapping[str, Any], *names: str) -> Any:
    return next((fields[name] for name in names if fields.get(name) not in (None, "")), "")


def _moment(fields: Mapping[str, Any]) -> float:
    found = _first(
        fields, "msec", "ts", "time_iso8601", "time_local", "time", "timestamp", "@timestamp"
    )
    try:
        unix_s = float(found)
    except (ValueError, TypeError):
        unix_s = math.nan
    if math.isfinite(unix_s):
        return unix_s
    for read in (lambda text: datetime.fromisoformat(text).timestamp(), _unix_s):
        try:
            return read(str(found))
        except (ValueError, OverflowError):
            continue
    raise ValueError("no time (msec, ts, time_iso8601, time_local)")


def _entry(unix_s: float, request: str, status: object, size: object) -> LogEntry:
    # Messages quote no part of a request, because it may hold a secret.
    found = _REQUEST.fullmatch(request)
    if found is None:
        raise ValueError("no request")
    target = _ORIGIN.sub("", found["target"]) or "/"
    if not target.startswith("/"):
        raise ValueError("no path")
    if len(target) > _LONGEST_TARGET:
        raise ValueError(f"a target of {len(target):,} characters")
    if not 0 <= unix_s <= _LATEST_UNIX_S:
        raise ValueError("no time after 1970")
    try:
        return LogEntry(unix_s, found["method"], target, int(str(status)), int(float(str(size))))
    except (ValueError, OverflowError):
        raise ValueError("no status, or no size") from None


@dataclass
class RequestKind:
    """All requests of one method and target."""

    count: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    sizes: Counter[int] = field(default_factory=Counter)
    """Body sizes of the answers with status 200, with their counts."""

    @property
    def status(self) -> int:
        """The most frequent status."""
        return self.statuses.most_common(1)[0][0]

    @property
    def size_bytes(self) -> int:
        """Median of the sizes; 0 without any."""
        half, seen = (sum(self.sizes.values()) + 1) // 2, 0
        for size, count in sorted(self.sizes.items()):
            seen += count
            if seen >= half:
                return size
        return 0


@dataclass
class LogTally:
    """The content of a log, gathered line by line in bounded memory.

    Targets are kept as ``tuner.reading.redaction`` leaves them.
    """

    keep_query: bool = False
    """True to keep the values of queries."""
    redacted: Counter[str] = field(default_factory=Counter)
    """Number of redactions by the name of their kind."""
    kinds: dict[tuple[str, str], RequestKind] = field(default_factory=dict)
    good: int = 0
    bad: int = 0
    bad_lines: list[tuple[str, int, str]] = field(default_factory=list)
    """The first few: file, line number, error."""
    forgotten: int = 0
    """Requests of kinds that were too rare to keep."""
    first_unix_s: float = float("inf")
    last_unix_s: float = float("-inf")
    per_second: Counter[int] = field(default_factory=Counter)

    def add(self, lines: Iterable[tuple[int, str]], name: str) -> Iterable[LogEntry]:
        """Count numbered lines of a file, and yield the entry of each."""
        for number, line in lines:
            if not line.strip():
                continue
            try:
                entry = parse_line(line)
            except ValueError as error:
                self.bad += 1
                if len(self.bad_lines) < _SHOWN:
                    self.bad_lines.append((name, number, str(error)))
                continue
            self._count(entry)
            yield entry

    def _count(self, entry: LogEntry) -> None:
        self.good += 1
        self.first_unix_s = min(self.first_unix_s, entry.unix_s)
        self.last_unix_s = max(self.last_unix_s, entry.unix_s)
        self.per_second[int(entry.unix_s)] += 1
        found = redact(entry.target, keep_query=self.keep_query)
        self.redacted.update(found.kinds)
        kind = self.kinds.setdefault((entry.method, found.target), RequestKind())
        kind.count += 1
        kind.statuses[entry.status] += 1
        if entry.status == 200 and len(kind.sizes) < 1_000:
            kind.sizes[entry.size_bytes] += 1
        if len(self.kinds) > _MOST_KINDS:
            self._forget()

    def _forget(self) -> None:
        """Drop the rarer half of the kinds, as in lossy counting (Manku and Motwani, VLDB 2002)."""
        middle = sorted(kind.count for kind in self.kinds.values())[len(self.kinds) // 2]
        kept = {key: kind for key, kind in self.kinds.items() if kind.count > middle}
        self.forgotten += sum(k.count for k in self.kinds.values()) - sum(
            k.count for k in kept.values()
        )
        self.kinds = kept

    @property
    def rate_per_s(self) -> float:
        """Mean rate from the first to the last request; 0 if both have the same time."""
        lasted_s = self.last_unix_s - self.first_unix_s
        return self.good / lasted_s if lasted_s > 0 else 0.0

    @property
    def peak_per_s(self) -> int:
        """Largest number of requests in one second of the clock."""
        return max(self.per_second.values(), default=0)
