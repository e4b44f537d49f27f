"""One window: the generator's report, judged by the same gates for every arm."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.measurement.cycles import (
    Disturbances,
    Traffic,
    Weights,
    effective_size,
    weights,
)
from tuner.measurement.latency import HistogramCounts, Latency, summarise, summarise_counts
from tuner.measurement.resources import Resources
from tuner.measurement.stall_cause import likely_work
from tuner.measurement.stalls import Span, StallRule, excluded, merged
from tuner.workload.wire import CLEARTEXT, NegotiatedTerms, Wire, unlike

STARVED_SHARE = 0.9
"""Busy share of the generator from which it, not the server, is at fault."""


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


@dataclass(frozen=True, slots=True)
class LoadSource:
    """One of several generators that share the load of a window."""

    name: str
    """Its host."""
    busy_share: float
    """Share of the measured part in which its loop had work."""


@dataclass(frozen=True, slots=True)
class Gates:
    """The validity rule, fixed before the study and equal for all arms."""

    samples_needed: int
    """Least effective sample size (``tuner.measurement.cycles.effective_size``); in a closed loop,
    least number of answers. A closed loop is measured by their rate, and any stall touches all
    requests under way, which may be every request of the window."""
    rate_error: float = 0.01
    """Largest relative difference between achieved and offered rate."""
    error_share: float = 0.0
    send_lag_share: float = 0.10
    """Largest p99 of the generator's own delay outside stalls, as a share of the p99."""
    excluded_share: float = 1.0
    """Largest share of requests touched by stalls; 0.8 in records of earlier versions."""


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
    own = _own(raw)
    reasons, bad = _judge(own, seen, gates, other)
    counts: dict[str, Any] = {each.name: getattr(own, each.name) for each in fields(WindowCounts)}
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
        effective=seen.effective,
        stalled_share=_stalled_share(own),
        first_byte=seen.first_byte,
    )


def _own(raw: RawWindow) -> RawWindow:
    """Return a part of a shared window with what happened in the arm's own slices.

    Stolen and generator's CPU time have no instants, so they are divided evenly.
    """
    turns = raw.turns
    if turns is None:
        return raw
    return replace(
        raw,
        generator_spans=turns.own(raw.generator_spans),
        server_spans=turns.own(raw.server_spans),
        steal_s=raw.steal_s / turns.arms,
        generator_cpu_s=raw.generator_cpu_s / turns.arms,
    )


@dataclass(frozen=True, slots=True)
class _Latencies:
    """The latencies of a window, from samples or from a histogram."""

    raw: Latency
    stall_free: Latency
    service: Latency
    send_lag: Latency
    excluded_share: float
    effective: float
    late: int
    """Requests answered too late for the offered rate."""
    first_byte: Latency | None = None
    by_source: tuple[_OfSource, ...] = ()


@dataclass(frozen=True, slots=True)
class _OfSource:
    """The figures of one of several generators that its validity depends on."""

    source: LoadSource
    offered: int
    missed: int
    """Requests that were not answered within the window."""
    lag_p99_us: float


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
        effective=float(whole.count),
        late=0,
    )


def _of_samples(raw: RawWindow, samples: Samples, rule: StallRule | None) -> _Latencies:
    weight = weights_of(raw, samples, rule)
    counted = samples.outcome <= 3
    undisturbed = counted & (weight > 0)
    answered = undisturbed & (samples.outcome == 0)
    corrected = samples.completed_ns - samples.intended_ns
    service = (samples.completed_ns - samples.written_ns)[answered]
    send_lag = (samples.written_ns - samples.intended_ns)[answered]
    raw_latency = summarise(corrected[counted])
    untouched = bool((weight[counted] == 1.0).all())
    return _Latencies(
        raw=raw_latency,
        stall_free=raw_latency
        if untouched
        else summarise(corrected[undisturbed], weight[undisturbed]),
        service=summarise(service, weight[answered], histogram=False),
        send_lag=summarise(send_lag, weight[answered], histogram=False),
        excluded_share=1 - float(undisturbed.sum() / counted.sum()) if counted.any() else 0.0,
        effective=effective_size(weight[undisturbed]),
        late=_unfinished_in_slices(raw.turns, samples, raw.traffic.behind if raw.traffic else ())
        if raw.turns
        else _unfinished_at_end(raw, samples, rule),
        first_byte=_first_byte(samples, undisturbed, weight),
        by_source=tuple(
            _of_source(raw, samples, rule, weight, place) for place in range(len(raw.sources))
        ),
    )


def _of_source(
    raw: RawWindow, samples: Samples, rule: StallRule | None, weight: Weights, place: int
) -> _OfSource:
    own, own_weight = samples.of(place), weight[samples.source == place]
    answered = (own.outcome == 0) & (own_weight > 0)
    lag = summarise(
        (own.written_ns - own.intended_ns)[answered], own_weight[answered], histogram=False
    )
    unanswered = int(np.isin(own.outcome, _UNANSWERED).sum())
    return _OfSource(
        source=raw.sources[place],
        offered=len(own.outcome),
        missed=_unfinished_at_end(raw, own, rule) + unanswered,
        lag_p99_us=lag.p99_us,
    )


def _first_byte(
    samples: Samples, undisturbed: NDArray[np.bool_], weight: Weights
) -> Latency | None:
    if samples.first_ns is None:
        return None
    taken_ns = (samples.first_ns - samples.intended_ns)[undisturbed]
    return summarise(taken_ns, weight[undisturbed], histogram=False)


def weights_of(
    raw: RawWindow, samples: Samples, rule: StallRule | None, borders_ns: Sequence[int] = ()
) -> Weights:
    """Return the weight of each request by the stall rule; 1 for all without one.

    Args:
        raw: the window.
        samples: its requests.
        rule: the rule; None to keep all requests.
        borders_ns: borders between slices that a window of one arm is judged with.
    """
    if rule is None:
        return np.ones(len(samples.outcome))
    if rule.level is None:
        return np.where(excluded(samples.intended_ns, spans_of(raw), rule), 0.0, 1.0)
    own = samples.intended_ns, samples.completed_ns
    traffic = raw.traffic or Traffic.of([own], borders_ns)
    # A closed loop is never idle: a stall touches the requests that were under way.
    level = len(samples.outcome) if raw.mode == "closed" else rule.level
    wakes = raw.turns.wakes if raw.turns else ()
    spans = [*spans_of(raw, rule.gap_us), *wakes, *traffic.behind]
    disturbances = Disturbances.of(spans, traffic.borders_ns, _end_ns(raw))
    return weights(*own, traffic, disturbances, level)


def spans_of(raw: RawWindow, gap_us: int = 0) -> list[Span]:
    """Return the stalls of all cores that are longer than ``gap_us``."""
    spans = (*raw.generator_spans, *raw.server_spans)
    return [(start, end) for start, end in spans if end - start > gap_us * 1_000]


def _end_ns(raw: RawWindow) -> int:
    """Return the end of the measured part, ns from its start."""
    return raw.turns.end_ns if raw.turns else round(raw.duration_s * 1e9)


def _stalled_share(own: RawWindow) -> float:
    """Return the share of the arm's own time in stalls of any core."""
    turns = own.turns
    length_ns = turns.order.count(turns.place) * turns.slice_ns if turns else _end_ns(own)
    inside = [(max(0, start), min(end, _end_ns(own))) for start, end in spans_of(own)]
    stalled_ns = sum(end - start for start, end in merged(inside) if end > start)
    return stalled_ns / length_ns if length_ns else 0.0


def _judge(
    raw: RawWindow, seen: _Latencies, gates: Gates, other: str
) -> tuple[tuple[str, ...], bool]:
    """Return why the window may not count, and whether the configuration is the only cause.

    ``other`` describes terms that the server chose instead of the requested ones.
    """
    own: list[str] = [other] if other else []
    others = list(raw.faults)
    alone = _missing_alone(seen.by_source, gates) if raw.mode == "open" else []
    others += alone
    starved = raw.generator_busy_share > STARVED_SHARE
    failed = sum(raw.errors.values())
    if failed > gates.error_share * raw.offered:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(raw.errors.items()))
        own.append(f"{failed} of {raw.offered} requests failed ({kinds})")
    overloaded = False
    if raw.mode == "open":
        late = seen.late + raw.timeouts + raw.unsent + raw.in_flight
        if late > gates.rate_error * raw.offered and not alone:
            overloaded = not starved
            words = (
                f"achieved less than offered: {late} of {raw.offered} requests were not"
                f" answered within the window at {raw.rate_per_s:.0f}/s"
            )
            (others if starved else own).append(
                words + (f"; the generator was {raw.generator_busy_share:.0%} busy" * starved)
            )
        others += _not_keeping_up(raw, seen, gates)
    if raw.mode == "closed":
        if raw.completed < gates.samples_needed:
            others.append(f"{raw.completed:,} answers, {gates.samples_needed:,} are needed")
    elif seen.effective < gates.samples_needed:
        # A server that does not keep up leaves hardly a sample: it is never idle, so that all is
        # one busy cycle. Requests that were late due to a stall do not count as late.
        work = "" if overloaded else likely_work([raw])
        (own if overloaded else others).append(
            f"an effective sample of {seen.effective:,.0f} requests,"
            f" {gates.samples_needed:,} are needed; {seen.excluded_share:.0%} of {raw.offered:,}"
            f" were left out" + (f"; {work}" if work else "")
        )
    if seen.excluded_share > gates.excluded_share:
        touched, work = (
            f"{seen.excluded_share:.0%} of the requests were touched",
            likely_work([raw]),
        )
        others.append(f"stalls: {touched}; {work}" if work else f"the host stalled: {touched}")
    return (*own, *others), bool(own) and not others


def _not_keeping_up(raw: RawWindow, seen: _Latencies, gates: Gates) -> list[str]:
    """Return which generators were busy and sent late, in words."""
    each = [
        (f"the generator {of.source.name}", of.source.busy_share, of.lag_p99_us)
        for of in seen.by_source
    ] or [("the generator", raw.generator_busy_share, seen.send_lag.p99_us)]
    limit_us = gates.send_lag_share * seen.stall_free.p99_us
    found = []
    for generator, busy_share, lag_us in each:
        # A lag that was not measured (NaN) does not prove that the generator kept up.
        if busy_share <= STARVED_SHARE or lag_us <= limit_us:
            continue
        lag = (
            f"p99 of its send lag is {lag_us:.0f} µs, over {gates.send_lag_share:.0%} of the p99"
            if math.isfinite(lag_us)
            else f"it was {busy_share:.0%} busy"
        )
        found.append(
            f"{generator} could not keep up: {lag}; lower --rate or give it more cores"
            " (--generator-cpus)"
        )
    return found


def _missing_alone(by_source: Sequence[_OfSource], gates: Gates) -> list[str]:
    """Return which generators missed their part of the rate while the others did not, in words.

    A server that cannot keep up answers requests late independent of the generator that sent them,
    so each missed one is a generator's with the probability of its part of the load (colouring of a
    Poisson process: Kingman, Poisson Processes, 1993, section 5.1). One generator misses alone if
    its share of such requests is above the gate, more than twice the others', and not chance.
    """
    found = []
    for of in by_source:
        others = [other for other in by_source if other is not of]
        offered, missed = (sum(o.offered for o in others), sum(o.missed for o in others))
        is_over = of.missed > gates.rate_error * of.offered
        if not is_over or of.missed * offered <= _ALONE * missed * of.offered:
            continue
        part = of.offered / (of.offered + offered)
        if _as_many(of.missed, of.missed + missed, part) < _CHANCE:
            found.append(
                f"the generator {of.source.name} achieved less than offered: {of.missed} of its"
                f" {of.offered} requests were not answered within the window, but only {missed} of"
                f" the {offered} of the others; its CPUs or its network are the limit"
            )
    return found


def _as_many(count: int, number: int, part: float) -> float:
    """Return the probability of at least ``count`` events among ``number``, each of ``part``."""
    from scipy.special import bdtrc

    return float(bdtrc(count - 1, number, part))


_ALONE = 2
"""Share of requests that one generator missed, as a multiple of the others', from which the server
is not the cause."""
_CHANCE = 1e-6
"""Probability of a division as uneven as this, below which it is not chance."""
_UNANSWERED = (1, 2, 3)
"""Outcomes of requests without an answer."""
_WAKE = 5
"""Time in which the backlog of a stall drains, as a multiple of the stall's length.

At a share ρ of the capacity it is ρ/(1 - ρ), 2.3 at 70 % (the fluid limit of a queue: Kleinrock,
Queueing Systems II, ch. 2)."""


def _unfinished_at_end(raw: RawWindow, samples: Samples, rule: StallRule | None) -> int:
    """Count requests answered only in the drain, except those of the window's last 1 %.

    Requests in a stall's wake do not count: a core taken away near the end of the window is not
    the server's fault.
    """
    end_ns = _end_ns(raw)
    early = samples.intended_ns < end_ns - end_ns // 100
    late = (samples.outcome == 0) & early & (samples.completed_ns > end_ns)
    if rule is not None:
        for start, end in merged(spans_of(raw)):
            after = end + _WAKE * (end - start)
            late &= (samples.completed_ns < start) | (samples.intended_ns > after)
    return int(late.sum())


_SLICE_LEFT = 0.1
"""Share of a slice's requests that may be unanswered at its end.

A queue at 70 % of the capacity leaves a few behind; one above the capacity leaves its excess."""


def _unfinished_in_slices(turns: Turns, samples: Samples, behind: Sequence[Span]) -> int:
    """Count the requests unanswered at the end of their slices, in a server that cannot keep up.

    It is the share in the median slice, so that slices in which the host stalled, or in which
    another arm's requests were still being served, do not decide. Slices in which another arm
    fell ``behind`` do not count at all.
    """
    slices = samples.intended_ns // turns.slice_ns
    left = (samples.completed_ns > (slices + 1) * turns.slice_ns) & (samples.outcome == 0)
    for start, end in behind:
        met = (slices < math.ceil(end / turns.slice_ns)) & (slices >= start // turns.slice_ns)
        slices, left = slices[~met], left[~met]
    _, place, offered = np.unique(slices, return_inverse=True, return_counts=True)
    if not len(offered):
        return 0
    share = float(np.median(np.bincount(place, left) / offered))
    return round(share * len(slices)) if share > _SLICE_LEFT else 0
