"""Measuring: the latencies of one window and the judgement on it, as its record keeps them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from tuner.measurement.gates import Gates, judge
from tuner.measurement.stall_free import latencies_of, spans_of
from tuner.measurement.stalls import StallRule, merged, within
from tuner.measurement.window import Measurement, RawWindow, WindowCounts
from tuner.workload.wire import Wire, unlike


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
    seen = latencies_of(raw, rule)
    other = unlike(asked, raw.protocol, raw.agreed) if asked else ""
    own = _own(raw)
    judgement = judge(own, seen, gates, other)
    counts: dict[str, Any] = {each.name: getattr(own, each.name) for each in fields(WindowCounts)}
    return Measurement(
        **counts,
        completed_per_s=raw.completed / raw.duration_s if raw.duration_s > 0 else 0.0,
        raw=seen.raw,
        stall_free=seen.stall_free,
        service=seen.service,
        send_lag=seen.send_lag,
        excluded_share=seen.excluded_share,
        invalid=judgement.reasons,
        bad=judgement.bad,
        lacking=judgement.lacking,
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


def _stalled_share(own: RawWindow) -> float:
    """Return the share of the arm's own time in stalls of any core."""
    turns = own.turns
    length_ns = turns.order.count(turns.place) * turns.slice_ns if turns else own.end_ns
    stalled_ns = sum(end - start for start, end in merged(within(spans_of(own), own.end_ns)))
    return stalled_ns / length_ns if length_ns else 0.0
