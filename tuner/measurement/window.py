"""One window: the generator's report, and what the record keeps of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.measurement.cycles import Traffic
from tuner.measurement.latency import HistogramCounts, Latency
from tuner.measurement.resources import Resources
from tuner.measurement.stalls import Span
from tuner.workload.wire import CLEARTEXT, NegotiatedTerms


@dataclass(frozen=True, slots=True)
class Samples:
    """Every request of a window, in the order of its intended instant (columns of length n).

    Times are ns from the start of the measured part. ``outcome``: 0 answered, 1 timed out,
    2 still in flight when the drain ended, 3 never sent, 4 error. For 1 to 3 ``completed_ns``
    is the instant of giving up, so that ``completed - intended`` is the least age it reached.
    ``first_ns`` is the instant of the answer's first byte; without one, that of ``completed_ns``.
    It is None if the generator does not report it. ``source`` is the place of the generator that
    sent the request; None if there is one.
    """

    intended_ns: NDArray[np.int64]
    written_ns: NDArray[np.int64]
    completed_ns: NDArray[np.int64]
    outcome: NDArray[np.uint8]
    first_ns: NDArray[np.int64] | None = None
    source: NDArray[np.uint8] | None = None

    def of(self, place: int) -> Samples:
        """Return the requests of one of several generators."""
        chosen = self.source == place
        return Samples(
            self.intended_ns[chosen],
            self.written_ns[chosen],
            self.completed_ns[chosen],
            self.outcome[chosen],
            None if self.first_ns is None else self.first_ns[chosen],
        )


@dataclass(frozen=True, slots=True)
class Histogram:
    """A window from a generator that does not report single requests.

    Without instants the stall rule cannot apply: every latency is raw.
    """

    corrected: HistogramCounts
    """Intended to completed; in a closed loop, written to completed."""
    service: HistogramCounts
    """Written to completed."""


@dataclass(frozen=True, slots=True)
class Turns:
    """The order in which the arms of a window had their slices."""

    slice_ns: int
    order: tuple[int, ...]
    """The place of the arm at turn, by slice from the start of the measured part."""
    place: int
    """Place of the arm to which the window belongs."""
    lead_ns: int = 0
    """Time before its slice at which a stopped server is continued."""

    @property
    def arms(self) -> int:
        """Number of arms that share the window."""
        return len(set(self.order))

    @property
    def end_ns(self) -> int:
        """End of the last slice, ns from the start of the measured part."""
        return len(self.order) * self.slice_ns

    @property
    def borders_ns(self) -> list[int]:
        """Instants at which the turn passes from one arm to another, ns."""
        pairs = enumerate(zip(self.order, self.order[1:], strict=False), 1)
        return [slice_ * self.slice_ns for slice_, (one, other) in pairs if one != other]

    @property
    def wakes(self) -> list[Span]:
        """Times in which a server that is continued takes the core from the one at turn."""
        return [(at - self.lead_ns, at) for at in self.borders_ns] if self.lead_ns else []

    def own(self, spans: Iterable[Span]) -> tuple[Span, ...]:
        """Return the parts of spans that lie in the arm's own slices."""
        found = []
        for start, end in spans:
            first, last = max(0, start) // self.slice_ns, (end - 1) // self.slice_ns
            for slice_ in range(first, min(last + 1, len(self.order))):
                if self.order[slice_] == self.place:
                    begins = slice_ * self.slice_ns
                    found.append((max(start, begins), min(end, begins + self.slice_ns)))
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCounts:
    """The figures of a window that its report and its record share."""

    window_id: str
    instance: str
    mode: str
    rate_per_s: float
    connections: int
    duration_s: float
    started_unix_s: float
    offered: int
    completed: int
    errors: Mapping[str, int]
    timeouts: int
    unsent: int
    in_flight: int
    reconnects: int
    bytes_in: int
    generator_spans: tuple[Span, ...]
    server_spans: tuple[Span, ...]
    realtime: bool
    """True if the ticker on the server's cores had real-time priority; else no server spans."""
    steal_s: float
    """Time that the hypervisor took from the watched cores; of a shared window the arm's part."""
    generator_cpu_s: float
    generator_busy_share: float
    server_cpu_s: float | None
    server_rss_bytes: int | None
    protocol: str
    agreed: NegotiatedTerms = CLEARTEXT
    """Terms that generator and server agreed on, and the cost of connections."""
    slice_ms: float = 0.0
    """Length of the slices in which several arms shared the window, ms; 0: it was its own.

    ``duration_s`` is then the arm's part of the time."""
    turn_cpu_s: float | None = None
    """CPU time of the server's processes within its own slices; None without slices."""
    frozen: bool = False
    """True if the server was stopped while it was not its turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawWindow(WindowCounts):
    """A generator's report of one window; see docs/instrument.md for each figure."""

    samples: Samples | Histogram
    turns: Turns | None = None
    """The order of the slices, if several arms shared the window."""
    traffic: Traffic | None = None
    """Requests of all arms that shared the window; None: the window's own."""
    faults: tuple[str, ...] = ()
    """Faults of the generator itself, in words; the window then does not count."""
    started_monotonic_ns: int | None = None
    """Start of the measured part on the monotonic clock of the generator's host."""
    sources: tuple[LoadSource, ...] = ()
    """The generators that shared the load, by their place; empty if there is one."""
    guard_ns: int = 0
    """Largest distance of an instant of several generators from its true place on their common time
    axis: half a round trip to the generator's clock, and its drift. Stalls are widened by it."""

    @property
    def end_ns(self) -> int:
        """End of the measured part, ns from its start."""
        return self.turns.end_ns if self.turns else round(self.duration_s * 1e9)


@dataclass(frozen=True, slots=True)
class LoadSource:
    """One of several generators that share the load of a window."""

    name: str
    """Its host."""
    busy_share: float
    """Share of the measured part in which its loop had work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement(WindowCounts):
    """One window in the record, valid or invalid.

    ``invalid`` holds the reasons in words, each with a cause; empty means valid. ``bad`` means that
    the reasons are the configuration's (errors, missed rate with an idle generator);
    otherwise they are the instrument's or the host's, and the block is repeated.
    """

    completed_per_s: float
    raw: Latency
    """Corrected latency of all requests: completed − intended."""
    stall_free: Latency
    """The same without the requests that the stall rule excludes; the others have weights."""
    service: Latency
    """Completed − written, stall-free."""
    send_lag: Latency
    """Written − intended, stall-free: waiting for a free connection, and the generator itself."""
    excluded_share: float
    invalid: tuple[str, ...]
    bad: bool
    resources: Resources | None = None
    """Resource use; None where it could not be read, and in older records."""
    effective: float | None = None
    """Effective sample size of ``stall_free``; None in older records."""
    stalled_share: float | None = None
    """Share of the arm's own time in stalls; None in older records."""
    first_byte: Latency | None = None
    """First byte of the answer − intended, stall-free; None where the generator does not report it,
    and in older records."""
    lacking: bool = False
    """True if the only reason is that the host's stalls left too few samples; False in older
    records."""
    polled: bool = False
    """True if idle CPUs of the serving host polled instead of halting; False in older records."""

    @property
    def round(self) -> int:
        """Round of the block that holds the window, 0-based."""
        return int(self.window_id.split("-", 1)[0])

    @property
    def valid(self) -> bool:
        """True if the window may count."""
        return not self.invalid
