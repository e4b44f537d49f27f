"""Stalls of the host, and the rules by which requests that they touched are left out.

On a shared machine the hypervisor takes a core away for hundreds of µs to tens of ms. Such
stalls have nothing to do with the configuration, yet they dominate the raw p99. They are detected
without latencies: the generator's loop shows a gap, and on the server's core a
real-time ticker wakes late.

Two rules say what a stall touched, and both are fixed before the study:

- At a load point with idle moments, the *busy cycle* in which the stall falls
  (``tuner.measurement.cycles``).
- At rates up to saturation, where cycles never end, a *span* around the stall: what was intended
  shortly before it, during it, and while its backlog drains.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

Stalls = Literal["exclude", "keep"]
"""Treatment of requests that stalls touch: excluded from latencies, or kept."""
STALLS: tuple[Stalls, ...] = get_args(Stalls)
EXCLUDE, KEEP = STALLS
Span = tuple[int, int]
"""Start and end of a stall, ns from the start of the window's measured part."""


@dataclass(frozen=True, slots=True)
class StallRule:
    """The requests that a stall touched, by busy cycles or by spans.

    A span goes from ``before_us`` before a stall of length L to ``after_us`` + ``recovery``·L after
    it. The backlog of earlier stalls adds to that.
    """

    gap_us: int = 100
    """Shortest gap that counts as a stall, µs."""
    before_us: int = 1_000
    after_us: int = 2_000
    recovery: float = 0.0
    """Time to drain the backlog of a stall, as a multiple of the stall's length."""
    level: int | None = None
    """Outstanding requests above which a busy cycle begins; None: the rule is that of spans."""


CYCLES = StallRule(level=0)
"""The rule at a load point, for a server on one core."""
SPANS = StallRule(recovery=6.0)
"""The rule where rates go up to saturation: one for all rates.

A queue drains a backlog in ρ/(1 - ρ) times the stall's length at the share ρ of its capacity (the
fluid limit: Kleinrock, Queueing Systems II, ch. 2): 4 at 80 %, and half as much again for good
measure. At 95 % the rule would exclude whole windows on a shared host."""


def excluded(
    intended_ns: NDArray[np.int64], spans: Sequence[Span], rule: StallRule
) -> NDArray[np.bool_]:
    """Return a mask of the requests that the rule of spans excludes.

    It looks at the intended instants alone, so it cannot favour an arm.

    Args:
        intended_ns: intended send instants, ascending, ns.
        spans: stalls of any core; they may overlap and need no order. Spans no longer than
            ``rule.gap_us`` are ignored.

    Returns:
        Boolean array of the shape of ``intended_ns``.
    """
    edges = np.zeros(len(intended_ns) + 1, np.int64)
    disturbed = _disturbed(spans, rule)
    if disturbed:
        starts, ends = np.array(disturbed, np.int64).T
        np.add.at(edges, np.searchsorted(intended_ns, starts, "left"), 1)
        np.add.at(edges, np.searchsorted(intended_ns, ends, "right"), -1)
    return np.cumsum(edges[:-1]) > 0


def _disturbed(spans: Sequence[Span], rule: StallRule) -> list[Span]:
    """Return the span in which each stall has an effect, ns.

    Stalls come in clusters: a host that gives a core every other millisecond adds more backlog
    than the server drains in between. Backlogs of successive stalls therefore add up.
    """
    found = []
    drained_at = -math.inf
    for start, end in merged(span for span in spans if span[1] - span[0] > rule.gap_us * 1_000):
        left_over = max(0.0, drained_at - start)
        drained_at = end + left_over + rule.recovery * (end - start)
        found.append((start - rule.before_us * 1_000, round(drained_at) + rule.after_us * 1_000))
    return found


def within(spans: Iterable[Span], end_ns: int) -> list[Span]:
    """Return the parts of spans from 0 to an instant, without empty ones."""
    inside = ((max(0, start), min(end, end_ns)) for start, end in spans)
    return [(start, end) for start, end in inside if end > start]


def merged(spans: Iterable[Span]) -> list[Span]:
    """Merge spans into disjoint ones in order; stalls of several cores may overlap."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
