"""The latencies of a window, with and without the requests that stalls touched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
from tuner.measurement.stalls import Span, StallRule, excluded, merged
from tuner.measurement.window import LoadSource, RawWindow, Samples, Turns


@dataclass(frozen=True, slots=True)
class Latencies:
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
    by_source: tuple[OfSource, ...] = ()


@dataclass(frozen=True, slots=True)
class OfSource:
    """The figures of one of several generators that its validity depends on."""

    source: LoadSource
    offered: int
    missed: int
    """Requests that were not answered within the window."""
    lag_p99_us: float


def latencies_of(raw: RawWindow, rule: StallRule | None) -> Latencies:
    """Return the latencies of a window by the stall rule, see ``measure``.

    Raises:
        ValueError: a stall rule was given for a histogram, which has no instants.
    """
    samples = raw.samples
    if isinstance(samples, Samples):
        return _of_samples(raw, samples, rule)
    if rule is not None:
        raise ValueError("a stall rule needs instants, and a histogram has none")
    whole = summarise_counts(samples.corrected)
    return Latencies(
        raw=whole,
        stall_free=whole,
        service=summarise_counts(samples.service),
        send_lag=summarise_counts(HistogramCounts.empty()),
        excluded_share=0.0,
        effective=float(whole.count),
        late=0,
    )


def _of_samples(raw: RawWindow, samples: Samples, rule: StallRule | None) -> Latencies:
    weight = weights_of(raw, samples, rule)
    counted = samples.outcome <= 3
    undisturbed = counted & (weight > 0)
    answered = undisturbed & (samples.outcome == 0)
    corrected = samples.completed_ns - samples.intended_ns
    service = (samples.completed_ns - samples.written_ns)[answered]
    send_lag = (samples.written_ns - samples.intended_ns)[answered]
    raw_latency = summarise(corrected[counted])
    untouched = bool((weight[counted] == 1.0).all())
    return Latencies(
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
) -> OfSource:
    own, own_weight = samples.of(place), weight[samples.source == place]
    answered = (own.outcome == 0) & (own_weight > 0)
    lag = summarise(
        (own.written_ns - own.intended_ns)[answered], own_weight[answered], histogram=False
    )
    unanswered = int(np.isin(own.outcome, _UNANSWERED).sum())
    return OfSource(
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
    disturbances = Disturbances.of(spans, traffic.borders_ns, raw.end_ns)
    return weights(*own, traffic, disturbances, level)


def spans_of(raw: RawWindow, gap_us: int = 0) -> list[Span]:
    """Return the stalls of all cores that are longer than ``gap_us``."""
    spans = (*raw.generator_spans, *raw.server_spans)
    return [(start, end) for start, end in spans if end - start > gap_us * 1_000]


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
    end_ns = raw.end_ns
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
