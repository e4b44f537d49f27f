"""The bottleneck of a measurement: the server, or the generator that should load it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tuner.machine.facts import CoreSplit
from tuner.measurement.gates import STARVED_SHARE
from tuner.measurement.stalls import Span, within
from tuner.measurement.window import Measurement

_BUSY = 0.95
"""Busy share of the generator's CPUs from which it counts as saturated."""
_SATURATED = 0.9
"""Share of the server's CPUs from which the server counts as saturated."""


def is_starved(window: Measurement) -> bool:
    """Return whether a window is invalid because the generator could not keep up with its rate."""
    return not window.valid and window.generator_busy_share > STARVED_SHARE


def busy_share(windows: Sequence[Measurement], cores: CoreSplit) -> float | None:
    """Return the share of their time in which the server's cores were busy; None if unknown.

    It is the median over windows of one arm, each of its own. The CPU time is that of the server
    and of a backend that shares its cores. Their time is what the host leaves them: a core that a
    hypervisor takes away for a quarter of the time is full after three quarters, and requests wait
    as long as on a core that is always there. On a core that the generator shares it says nothing.
    """
    if cores.shared or not cores.server:
        return None
    known = [busy for window in windows if (busy := _busy(window, cores)) is not None]
    return statistics.median(known) if known else None


def _busy(window: Measurement, cores: CoreSplit) -> float | None:
    """Return the busy share in one window; None if unknown."""
    left_s = len(cores.server) * window.duration_s - _stalled_s(window)
    if window.server_cpu_s is None or not left_s > 0:
        return None
    used_s = window.server_cpu_s
    if cores.backend_shares:
        seen = window.resources
        if seen is None or seen.backend is None or not seen.loaded_s > 0:
            return None
        used_s += seen.backend.cpu_s / seen.loaded_s * window.duration_s
    return min(1.0, used_s / left_s)


def _stalled_s(window: Measurement) -> float:
    """Return the time for which the server's cores were taken away, added up over the cores."""
    # Of a shared window the spans are those in the arm's own slices.
    spans: Sequence[Span] = window.server_spans
    if not window.slice_ms:
        spans = within(spans, round(window.duration_s * 1e9))
    return sum(end - start for start, end in spans) / 1e9


def is_saturated(busy: float) -> bool:
    """Return whether a busy share of the server's cores counts as saturation."""
    return busy >= _SATURATED


def generator_is_limit(windows: Sequence[Measurement], busy: float | None) -> bool:
    """Return whether the generator, and not the server, limits the throughput of a closed loop.

    The generator was busy all the time and the server left some of its CPUs idle, so the capacity
    is at least the measured throughput. Without the server's CPU time the answer is no.

    Args:
        windows: windows of one arm in a closed loop.
        busy: busy share of the server's cores in them; None if unknown.
    """
    if busy is None:
        return False
    generating = statistics.median(window.generator_busy_share for window in windows)
    return generating > _BUSY and not is_saturated(busy)
