"""One window of several generators, made of the window of each.

Every generator begins at the same instant, named on its own clock, so their time axes are one but
for the error of the clocks (``RawWindow.guard_ns``). Requests are merged one by one, so that every
figure is exactly that of a single generator that sent them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from tuner.measurement.stalls import Span
from tuner.measurement.window import LoadSource, RawWindow, Samples
from tuner.workload.wire import NegotiatedTerms


def merged_window(
    parts: Sequence[RawWindow], names: Sequence[str], guard_ns: int, faults: Sequence[str] = ()
) -> RawWindow:
    """Return one window from those of several generators.

    Args:
        parts: window of each generator, with its samples.
        names: hosts of the generators.
        guard_ns: largest distance of an instant from its place on the common time axis.
        faults: faults of the generators' agreement, in words.

    Raises:
        ValueError: a generator reports no single requests, or there is none.
    """
    first = parts[0]
    errors: Counter[str] = Counter()
    for part in parts:
        errors.update(part.errors)
    spans = [span for part in parts for span in part.generator_spans]
    named = zip(names, parts, strict=True)
    return replace(
        first,
        rate_per_s=sum(part.rate_per_s for part in parts),
        connections=sum(part.connections for part in parts),
        duration_s=max(part.duration_s for part in parts),
        offered=sum(part.offered for part in parts),
        completed=sum(part.completed for part in parts),
        errors=dict(errors),
        timeouts=sum(part.timeouts for part in parts),
        unsent=sum(part.unsent for part in parts),
        in_flight=sum(part.in_flight for part in parts),
        reconnects=sum(part.reconnects for part in parts),
        bytes_in=sum(part.bytes_in for part in parts),
        generator_spans=_widened(spans, guard_ns),
        steal_s=sum(part.steal_s for part in parts),
        generator_cpu_s=sum(part.generator_cpu_s for part in parts),
        generator_busy_share=max(part.generator_busy_share for part in parts),
        protocol=_joined(part.protocol for part in parts),
        agreed=merged_terms([part.agreed for part in parts]),
        samples=merged_samples([part.samples for part in parts]),
        sources=tuple(LoadSource(name, part.generator_busy_share) for name, part in named),
        guard_ns=guard_ns,
        faults=(*faults, *(fault for part in parts for fault in part.faults)),
    )


def merged_samples(parts: Sequence[object]) -> Samples:
    """Return the requests of several generators in the order of their intended instants.

    Requests of one instant keep the order of the generators.

    Raises:
        ValueError: a part is a histogram.
    """
    each = [part for part in parts if isinstance(part, Samples)]
    if len(each) < len(parts):
        raise ValueError("a generator without single requests cannot share a window")
    source = np.repeat(np.arange(len(each), dtype=np.uint8), [len(p.outcome) for p in each])
    intended = np.concatenate([part.intended_ns for part in each])
    order = np.argsort(intended, kind="stable")
    first = [part.first_ns for part in each if part.first_ns is not None]
    return Samples(
        intended_ns=intended[order],
        written_ns=np.concatenate([part.written_ns for part in each])[order],
        completed_ns=np.concatenate([part.completed_ns for part in each])[order],
        outcome=np.concatenate([part.outcome for part in each])[order],
        first_ns=np.concatenate(first)[order] if len(first) == len(each) else None,
        source=source[order],
    )


def merged_terms(parts: Sequence[NegotiatedTerms]) -> NegotiatedTerms:
    """Return the terms of all connections.

    Percentiles cannot be merged, so they are the worst of the generators'.
    """
    return NegotiatedTerms(
        tls_version=_joined(part.tls_version for part in parts),
        cipher=_joined(part.cipher for part in parts),
        group=_joined(part.group for part in parts),
        full=sum(part.full for part in parts),
        resumed=sum(part.resumed for part in parts),
        handshakes=sum(part.handshakes for part in parts),
        handshake_p50_us=max(part.handshake_p50_us for part in parts),
        handshake_p99_us=max(part.handshake_p99_us for part in parts),
        blocked=sum(part.blocked for part in parts),
        blocked_p99_us=max(part.blocked_p99_us for part in parts),
    )


def _widened(spans: Iterable[Span], guard_ns: int) -> tuple[Span, ...]:
    return tuple(sorted((start - guard_ns, end + guard_ns) for start, end in spans))


def _joined(names: Iterable[str]) -> str:
    """Join the different names, each of which may be several joined ones."""
    return " + ".join(sorted({word for name in names for word in name.split(" + ") if word}))
