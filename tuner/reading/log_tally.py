"""The content of an access log, gathered line by line in bounded memory."""

from __future__ import annotations

import functools
import math
import random
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tuner.reading.access_log import LogReader
from tuner.reading.log_arrivals import Arrivals
from tuner.reading.log_connections import LogConnections
from tuner.reading.log_entry import LogEntry
from tuner.reading.log_paths import WIDEST, shape, steps, wider

_SHOWN = 5
_MOST_KINDS = 16_000
"""Limit for kinds of requests in memory; beyond it the rarest join wider ones."""
_SAMPLE = 64
"""Size of a sample."""
_MOST_TYPES = 5
"""Limit for media types of one kind of requests."""


class Sample:
    """A random sample of numbers, of bounded size (Vitter's algorithm R, 1985)."""

    __slots__ = ("count", "values")

    def __init__(self) -> None:
        self.count = 0
        self.values = array("d")

    def add(self, value: float, draw: random.Random) -> None:
        """Count a value, and keep it with the probability that all values have."""
        self.count += 1
        if len(self.values) < _SAMPLE:
            self.values.append(value)
        elif (at := int(draw.random() * self.count)) < _SAMPLE:
            self.values[at] = value

    def join(self, other: Sample, draw: random.Random) -> None:
        """Take in another sample, in proportion to the counts of both."""
        if not self.count:
            self.count, self.values = other.count, other.values[:]
            return
        if other.count == len(other.values):
            for value in other.values:
                self.add(value, draw)
            return
        total = self.count + other.count
        share = self.count / total
        kept = array("d")
        own, others = (draw.sample(list(one.values), len(one.values)) for one in (self, other))
        while len(kept) < _SAMPLE and (own or others):
            source = own if own and (not others or draw.random() < share) else others
            kept.append(source.pop())
        self.count, self.values = total, kept

    @staticmethod
    def of(samples: Iterable[Sample | None]) -> Sample:
        """Return a sample of all values of these samples, as far as there are any."""
        made, draw = Sample(), random.Random(1)  # noqa: S311 - a sample
        for one in samples:
            if one is not None:
                made.join(one, draw)
        return made

    def quantiles(self, number: int) -> list[float]:
        """Return the middles of this number of equal shares, ascending; empty without values."""
        ordered = sorted(self.values)
        size = len(ordered)
        return [ordered[int((i + 0.5) / number * size)] for i in range(number)] if size else []


@dataclass(slots=True)
class RequestKind:
    """All requests of one method, shape and status."""

    count: int = 0
    sizes: Sample = field(default_factory=Sample)
    """Sizes of the answers, bytes."""
    bodies: Sample | None = None
    """Sizes of the requests' bodies, bytes; None if unknown."""
    requests: Sample | None = None
    """Sizes of the requests with their headers, bytes; None if unknown."""
    times: Sample | None = None
    """Times of the backend's answers, seconds; None if unknown."""
    content_types: Counter[str] | None = None
    """Media types of the requests' bodies."""

    def add(self, entry: LogEntry, draw: random.Random) -> None:
        """Count a request."""
        self.count += 1
        self.sizes.add(entry.size_bytes, draw)
        if entry.upstream_s is not None:
            self.times = self.times or Sample()
            self.times.add(entry.upstream_s, draw)
        if entry.body_bytes is not None:
            self.bodies = self.bodies or Sample()
            self.bodies.add(entry.body_bytes, draw)
        if entry.request_bytes is not None:
            self.requests = self.requests or Sample()
            self.requests.add(entry.request_bytes, draw)
        if entry.content_type:
            self.content_types = self.content_types or Counter()
            if len(self.content_types) < _MOST_TYPES or entry.content_type in self.content_types:
                self.content_types[entry.content_type] += 1

    def join(self, other: RequestKind, draw: random.Random) -> None:
        """Take in the requests of another kind."""
        self.count += other.count
        self.sizes.join(other.sizes, draw)
        for name in ("bodies", "requests", "times"):
            added: Sample | None = getattr(other, name)
            if added is not None:
                own: Sample = getattr(self, name) or Sample()
                own.join(added, draw)
                setattr(self, name, own)
        if other.content_types:
            self.content_types = (self.content_types or Counter()) + other.content_types


KindKey = tuple[str, str, int]
"""Method, shape and status."""


@dataclass
class LogTally:
    """The content of a log.

    Targets are kept as shapes, which hold no likely secrets (``tuner.reading.log_paths``).
    """

    keep_query: bool = False
    """True to keep the values of queries."""
    redacted: Counter[str] = field(default_factory=Counter)
    """Number of redactions by the name of their kind."""
    kinds: dict[KindKey, RequestKind] = field(default_factory=dict)
    good: int = 0
    bad: int = 0
    bad_lines: list[tuple[str, int, str]] = field(default_factory=list)
    """The first few: file, line number, error."""
    first_bad: str = ""
    """The first line that is not a request."""
    forgotten: int = 0
    """Requests of methods and statuses that were too rare to keep."""
    first_unix_s: float = math.inf
    last_unix_s: float = -math.inf
    arrivals: Arrivals = field(default_factory=Arrivals)
    connections: LogConnections = field(default_factory=LogConnections)
    protocols: Counter[str] = field(default_factory=Counter)
    """Requests by protocol, such as ``HTTP/2.0``; "" where the log does not have it."""
    tls: Counter[bool | None] = field(default_factory=Counter)
    """Requests over TLS, in cleartext, and unknown."""
    _draw: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311 - a sample

    def add(
        self, lines: Iterable[tuple[int, str]], name: str, reader: LogReader | None = None
    ) -> Iterable[LogEntry]:
        """Count numbered lines of a file, and yield the entry of each."""
        read = (reader or LogReader()).read
        for number, line in lines:
            if not line or line.isspace():
                continue
            try:
                entry = read(line)
            except ValueError as error:
                self.bad += 1
                self.first_bad = self.first_bad or line
                if len(self.bad_lines) < _SHOWN:
                    self.bad_lines.append((name, number, str(error)))
                continue
            if entry is not None:
                self._count(entry)
                yield entry

    def _count(self, entry: LogEntry) -> None:
        self.good += 1
        unix_s = entry.unix_s
        # Without min() and max(): two calls fewer for each of millions of lines.
        if unix_s < self.first_unix_s:  # noqa: PLR1730
            self.first_unix_s = unix_s
        if unix_s > self.last_unix_s:  # noqa: PLR1730
            self.last_unix_s = unix_s
        self.arrivals.add(unix_s)
        self.protocols[entry.protocol] += 1
        self.tls[entry.tls] += 1
        if entry.connection:
            self.connections.add(entry)
        found = shape(entry.target, keep_query=self.keep_query)
        if found.kinds:
            self.redacted.update(found.kinds)
        key = (entry.method, found.target, entry.status)
        kind = self.kinds.get(key)
        if kind is None:
            kind = self.kinds[key] = RequestKind()
        kind.add(entry, self._draw)
        if kind.count == 1 and len(self.kinds) > _MOST_KINDS:
            kept = widened(self.kinds, _MOST_KINDS // 4, self._draw)
            self.forgotten = self.good - sum(kind.count for kind in kept.values())
            self.kinds = kept

    @property
    def rate_per_s(self) -> float:
        """Mean rate from the first to the last request; 0 if both have the same time."""
        lasted_s = self.last_unix_s - self.first_unix_s
        return self.good / lasted_s if lasted_s > 0 else 0.0

    @property
    def peak_per_s(self) -> int:
        """Largest number of requests in one second of the clock."""
        return self.arrivals.peak_per_s


def widened(
    kinds: dict[KindKey, RequestKind], most: int, draw: random.Random
) -> dict[KindKey, RequestKind]:
    """Return at most this number of kinds: the rarest join wider shapes, the deepest first.

    Kinds of different methods or statuses never join; if there are too many with the widest shape,
    the rarest are missing in the result.
    """
    kinds = dict(kinds)
    made: set[KindKey] = set()
    depth_of = functools.cache(steps)
    while len(kinds) > most:
        ranked = [key for _, key in sorted((-kind.count, key) for key, kind in kinds.items())]
        rare = [(depth_of(key[1]), key) for key in ranked[most:] if key[1] != WIDEST]
        # If the rare ones have no wider shape, a kept one makes room by joining them.
        rare = rare or [(depth_of(key[1]), key) for key in ranked[:most] if key[1] != WIDEST][-1:]
        if not rare:
            return {key: kinds[key] for key in ranked[:most]}
        deepest = max(rare)[0]
        for depth, key in rare:
            if depth < deepest:
                continue
            method, narrow, status = key
            wide = (method, wider(narrow) or narrow, status)
            if wide not in made:
                # The caller's kinds stay as they are.
                made.add(wide)
                kind = RequestKind()
                if wide in kinds:
                    kind.join(kinds[wide], draw)
                kinds[wide] = kind
            kinds[wide].join(kinds.pop(key), draw)
    return kinds
