"""The stall rule: the requests that a stall of the host may have touched.

On a shared machine the hypervisor takes a core away for hundreds of µs to tens of ms. Such
stalls have nothing to do with the configuration, yet they dominate the raw p99. They are detected
without latencies: the generator's loop shows a gap, and on the server's core a
real-time ticker wakes late. The rule is fixed before the study and looks at the intended
instants alone, so it cannot favour an arm.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

Stalls = Literal["exclude", "keep"]
"""Treatment of requests that stalls touch: excluded from latencies, or kept."""
STALLS: tuple[Stalls, ...] = get_args(Stalls)
EXCLUDE, KEEP = STALLS
Span = tuple[int, int]
"""Start and end of a stall, ns from the start of the window's measured part."""


_SAFETY = 1.5
_LONGEST_RECOVERY = 10.0


@dataclass(frozen=True, slots=True)
class StallRule:
    """Requests intended shortly before a stall, during it, and while its backlog drains.

    The rule excludes requests intended from ``before_us`` before a stall of length L to
    ``after_us`` + ``recovery``·L after it. The backlog of earlier stalls adds to that.
    """

    gap_us: int = 100
    """Shortest gap that counts as a stall, µs."""
    before_us: int = 1_000
    after_us: int = 2_000
    recovery: float = 0.0
    """Time to drain the backlog of a stall, as a multiple of the stall's length."""

    def at(self, utilisation: float) -> StallRule:
        """Return the rule for an offered rate that is this share of the capacity.

        A stall of length L leaves L·rate requests behind, which a server with spare capacity
        works off in L·ρ/(1 - ρ) (the fluid limit of a queue: Kleinrock, Queueing Systems II,
        ch. 2); half as much again for good measure. Both figures are known before the first
        window, so the rule still looks at no latency.
        """
        if utilisation >= 1:
            return replace(self, recovery=_LONGEST_RECOVERY)
        drain = _SAFETY * utilisation / (1 - utilisation)
        return replace(self, recovery=round(min(_LONGEST_RECOVERY, drain), 2))


def excluded(
    intended_ns: NDArray[np.int64], spans: Sequence[Span], rule: StallRule
) -> NDArray[np.bool_]:
    """Return a mask of the requests that the rule excludes.

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


def merged(spans: Iterable[Span]) -> list[Span]:
    """Merge spans into disjoint ones in order; stalls of several cores may overlap."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
