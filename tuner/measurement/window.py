"""One window: the generator's report, judged by the same gates for every arm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.measurement.latency import HistogramCounts, Latency, summarise, summarise_counts
from tuner.measurement.resources import Resources
from tuner.measurement.stall_cause import likely_work
from tuner.measurement.stalls import Span, StallRule, excluded
from tuner.workload.wire import CLEARTEXT, NegotiatedTerms, Wire, unlike

STARVED_SHARE = 0.9
"""Busy share of the generator from which it, not the server, is at fault."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Every request of a window, in the order of its intended instant (columns of length n).

    Times are ns from the start of the measured part. ``outcome``: 0 answered, 1 timed out,
    2 still in flight when the drain ended, 3 never sent, 4 error. For 1 to 3 ``completed_ns``
    is the instant of giving up, so that ``completed - intended`` is the least age it reached.
    """

    intended_ns: NDArray[np.int64]
    written_ns: NDArray[np.int64]
    completed_ns: NDArray[np.int64]
    outcome: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Histogram:
    """A window from a generator that does not report single requests.

    Without instants the stall rule cannot apply: every latency is raw.
    """

    corrected: HistogramCounts
    """Intended to completed; in a closed loop, written to completed."""
    service: HistogramCounts
    """Written to completed."""


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
    generator_cpu_s: float
    generator_busy_share: float
    server_cpu_s: float | None
    server_rss_bytes: int | None
    protocol: str
    agreed: NegotiatedTerms = CLEARTEXT
    """Terms that generator and server agreed on, and the cost of connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawWindow(WindowCounts):
    """A generator's report of one window; see docs/instrument.md for each figure."""

    samples: Samples | Histogram
    faults: tuple[str, ...] = ()
    """Faults of the generator itself, in words; the window then does not count."""


@dataclass(frozen=True, slots=True)
class Gates:
    """The validity rule, fixed before the study and equal for all arms."""

    samples_needed: int
    rate_error: float = 0.01
    """Largest relative difference between achieved and offered rate."""
    error_share: float = 0.0
    send_lag_share: float = 0.10
    """Largest p99 of the generator's own delay outside stalls, as a share of the p99."""
    excluded_share: float = 0.8
    """Largest share of requests touched by stalls."""


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
    """The same without the requests that the stall rule excludes."""
    service: Latency
    """Completed − written, stall-free."""
    send_lag: Latency
    """Written − intended, stall-free: waiting for a free connection, and the generator itself."""
    excluded_share: float
    invalid: tuple[str, ...]
    bad: bool
    resources: Resources | None = None
    """Resource use; None where it could not be read, and in older records."""

    @property
    def round(self) -> int:
        """Round of the block that holds the window, 0-based."""
        return int(self.window_id.split("-", 1)[0])

    @property
    def valid(self) -> bool:
        """True if the window may count."""
        return not self.invalid


def measure(
    raw: RawWindow, rule: StallRule | None, gates: Gates, asked: Wire | None = None
) -> Measurement:
    """Judge one window.

    Args:
        raw: the generator's report with its samples.
        rule: the stall rule, or None where server and generator share a core: there the
            server's own work would look like a stall, and ``stall_free`` equals ``raw``.
        gates: the validity rule.
        asked: the workload's demands on its connections; None to accept any terms.

    Raises:
        ValueError: a stall rule was given for a histogram, which has no instants.
    """
    seen = _seen(raw, rule)
    other = unlike(asked, raw.protocol, raw.agreed) if asked else ""
    reasons, bad = _judge(raw, seen, gates, other)
    counts: dict[str, Any] = {each.name: getattr(raw, each.name) for each in fields(WindowCounts)}
    return Measurement(
        **counts,
        completed_per_s=raw.completed / raw.duration_s if raw.duration_s > 0 else 0.0,
        raw=seen.raw,
        stall_free=seen.stall_free,
        service=seen.service,
        send_lag=seen.send_lag,
        excluded_share=seen.excluded_share,
        invalid=reasons,
        bad=bad,
    )


@dataclass(frozen=True, slots=True)
class _Latencies:
    """The latencies of a window, from samples or from a histogram."""

    raw: Latency
    stall_free: Latency
    service: Latency
    send_lag: Latency
    excluded_share: float
    late: int
    """Requests answered too late for the offered rate."""


def _seen(raw: RawWindow, rule: StallRule | None) -> _Latencies:
    samples = raw.samples
    if isinstance(samples, Samples):
        return _of_samples(raw, samples, rule)
    if rule is not None:
        raise ValueError("a stall rule needs instants, and a histogram has none")
    whole = summarise_counts(samples.corrected)
    return _Latencies(
        raw=whole,
        stall_free=whole,
        service=summarise_counts(samples.service),
        send_lag=summarise_counts(HistogramCounts.empty()),
        excluded_share=0.0,
        late=0,
    )


def _of_samples(raw: RawWindow, samples: Samples, rule: StallRule | None) -> _Latencies:
    counted = samples.outcome <= 3
    spans = (*raw.generator_spans, *raw.server_spans)
    out = (
        np.zeros(len(counted), np.bool_)
        if rule is None
        else excluded(samples.intended_ns, spans, rule)
    )
    answered = samples.outcome == 0
    corrected = samples.completed_ns - samples.intended_ns
    undisturbed = answered & ~out
    service = (samples.completed_ns - samples.written_ns)[undisturbed]
    send_lag = (samples.written_ns - samples.intended_ns)[undisturbed]
    return _Latencies(
        raw=summarise(corrected[counted]),
        stall_free=summarise(corrected[counted & ~out]),
        service=summarise(service, histogram=False),
        send_lag=summarise(send_lag, histogram=False),
        excluded_share=float(out.mean()) if len(out) else 0.0,
        late=_unfinished_at_end(raw, samples, ~out),
    )


def _judge(
    raw: RawWindow, seen: _Latencies, gates: Gates, other: str
) -> tuple[tuple[str, ...], bool]:
    """Return why the window may not count, and whether the configuration is the only cause.

    ``other`` describes terms that the server chose instead of the requested ones.
    """
    own: list[str] = [other] if other else []
    others = list(raw.faults)
    starved = raw.generator_busy_share > STARVED_SHARE
    failed = sum(raw.errors.values())
    if failed > gates.error_share * raw.offered:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(raw.errors.items()))
        own.append(f"{failed} of {raw.offered} requests failed ({kinds})")
    if raw.mode == "open":
        late = seen.late + raw.timeouts + raw.unsent + raw.in_flight
        if late > gates.rate_error * raw.offered:
            words = (
                f"achieved less than offered: {late} of {raw.offered} requests were not"
                f" answered within the window at {raw.rate_per_s:.0f}/s"
            )
            (others if starved else own).append(
                words + (f"; the generator was {raw.generator_busy_share:.0%} busy" * starved)
            )
        lag_us, limit_us = seen.send_lag.p99_us, gates.send_lag_share * seen.stall_free.p99_us
        # A lag that was not measured (NaN) does not prove that the generator kept up.
        if starved and not lag_us <= limit_us:
            others.append(
                f"the generator could not keep up: p99 of its send lag is {lag_us:.0f} µs, over"
                f" {gates.send_lag_share:.0%} of the p99; lower --rate or give it more cores"
            )
    if seen.stall_free.count < gates.samples_needed:
        others.append(
            f"{seen.stall_free.count} stall-free samples, {gates.samples_needed} are needed;"
            " lengthen the windows"
        )
    if seen.excluded_share > gates.excluded_share:
        touched, work = (
            f"{seen.excluded_share:.0%} of the requests were touched",
            likely_work([raw]),
        )
        others.append(f"stalls: {touched}; {work}" if work else f"the host stalled: {touched}")
    return (*own, *others), bool(own) and not others


def _unfinished_at_end(raw: RawWindow, samples: Samples, undisturbed: NDArray[np.bool_]) -> int:
    """Count requests answered only in the drain, except those of the window's last 1 %.

    Requests touched by a stall do not count: a core taken away near the end of the window is not
    the server's fault.
    """
    end_ns = round(raw.duration_s * 1e9)
    early = samples.intended_ns < end_ns - round(raw.duration_s * 1e7)
    late = (samples.outcome == 0) & early & (samples.completed_ns > end_ns)
    return int((late & undisturbed).sum())
