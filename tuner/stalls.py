"""The stall rule: which requests a stall of the host may have touched.

On a shared machine the hypervisor takes a core away for hundreds of µs to tens of ms. Such
stalls have nothing to do with the configuration, yet they are the raw p99. They are seen
without looking at any latency: the generator's loop shows a gap, and on the server's core a
real-time ticker wakes late. The rule is fixed before the study and looks at the intended
instants alone, so it cannot favour an arm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Span = tuple[int, int]
"""Start and end of a stall, ns from the start of the window's measured part."""


@dataclass(frozen=True, slots=True)
class StallRule:
    """Requests intended from ``before_us`` before a stall to ``after_us`` after it are excluded."""

    gap_us: int = 100
    before_us: int = 1_000
    after_us: int = 2_000


def excluded(
    intended_ns: NDArray[np.int64], spans: Sequence[Span], rule: StallRule
) -> NDArray[np.bool_]:
    """Mask of the requests that the rule excludes.

    Args:
        intended_ns: intended send instants, ascending, ns.
        spans: stalls of any core; they may overlap and need no order. Spans no longer than
            ``rule.gap_us`` are ignored.

    Returns:
        Boolean array of the shape of ``intended_ns``.
    """
    long = [(start, end) for start, end in spans if end - start > rule.gap_us * 1_000]
    edges = np.zeros(len(intended_ns) + 1, np.int64)
    if long:
        starts = np.array([start for start, _ in long], np.int64) - rule.before_us * 1_000
        ends = np.array([end for _, end in long], np.int64) + rule.after_us * 1_000
        np.add.at(edges, np.searchsorted(intended_ns, starts, "left"), 1)
        np.add.at(edges, np.searchsorted(intended_ns, ends, "right"), -1)
    return np.cumsum(edges[:-1]) > 0
