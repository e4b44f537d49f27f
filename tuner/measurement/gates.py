"""The gates: why a window may not count, by the same rule for every arm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.measurement.stall_cause import likely_work
from tuner.measurement.stall_free import Latencies, OfSource
from tuner.measurement.window import RawWindow

STARVED_SHARE = 0.9
"""Busy share of the generator from which it, not the server, is at fault."""


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


@dataclass(frozen=True, slots=True)
class WindowVerdict:
    """Why a window may not count; it may without reasons."""

    reasons: tuple[str, ...]
    bad: bool
    """True if the configuration is the only cause."""
    lacking: bool
    """True if the only reason is that the host's stalls left too few samples."""


def judge(raw: RawWindow, seen: Latencies, gates: Gates, other: str) -> WindowVerdict:
    """Return why the window may not count.

    ``other`` describes terms that the server chose instead of the requested ones.
    """
    own: list[str] = [other] if other else []
    others = list(raw.faults)
    alone = _missing_alone(seen.by_source, gates) if raw.mode == "open" else []
    others += alone
    starved = raw.generator_busy_share > STARVED_SHARE
    by_server = False
    failed = sum(raw.errors.values())
    if failed > gates.error_share * raw.offered:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(raw.errors.items()))
        own.append(f"{failed} of {raw.offered} requests failed ({kinds})")
        by_server = 2 * failed > raw.offered
    if raw.mode == "open":
        # The share of late requests in slices holds for all requests, unanswered ones included.
        late = min(seen.late + raw.timeouts + raw.unsent + raw.in_flight, raw.offered)
        if late > gates.rate_error * raw.offered and not alone:
            by_server = by_server or not starved
            words = (
                f"achieved less than offered: {late} of {raw.offered} requests were not"
                f" answered within the window at {raw.rate_per_s:.0f}/s"
            )
            (others if starved else own).append(
                words + (f"; the generator was {raw.generator_busy_share:.0%} busy" * starved)
            )
        others += _not_keeping_up(raw, seen, gates)
    few = _too_few(raw, seen, gates)
    if few:
        # A server that fails most requests or does not keep up leaves hardly a sample: the one has
        # few answers, and the other is never idle, so that all is one busy cycle. Requests that
        # were late due to a stall do not count as late.
        work = "" if by_server or raw.mode == "closed" else likely_work([raw])
        (own if by_server else others).append(f"{few}; {work}" if work else few)
    if seen.excluded_share > gates.excluded_share:
        touched, work = (
            f"{seen.excluded_share:.0%} of the requests were touched",
            likely_work([raw]),
        )
        others.append(f"stalls: {touched}; {work}" if work else f"the host stalled: {touched}")
    lacking = raw.mode == "open" and not own and others == [few]
    return WindowVerdict((*own, *others), bool(own) and not others, lacking)


def _too_few(raw: RawWindow, seen: Latencies, gates: Gates) -> str:
    """Return which number of samples is too low, in words; empty if there are enough."""
    needed = gates.samples_needed
    if raw.mode == "closed":
        return f"{raw.completed:,} answers, {needed:,} are needed" * (raw.completed < needed)
    if seen.effective >= needed:
        return ""
    return (
        f"an effective sample of {seen.effective:,.0f} requests, {needed:,} are needed;"
        f" {seen.excluded_share:.0%} of {raw.offered:,} were left out"
    )


def _not_keeping_up(raw: RawWindow, seen: Latencies, gates: Gates) -> list[str]:
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


def _missing_alone(by_source: Sequence[OfSource], gates: Gates) -> list[str]:
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
