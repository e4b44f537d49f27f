"""The bottleneck of a measurement: the server, or the generator that should load it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tuner.measurement.window import STARVED_SHARE, Measurement

_BUSY = 0.95
"""Busy share of the generator's CPUs from which it counts as saturated."""
_SATURATED = 0.9
"""Share of the server's CPUs from which the server counts as saturated."""


def is_starved(window: Measurement) -> bool:
    """Return whether a window is invalid because the generator could not keep up with its rate."""
    return not window.valid and window.generator_busy_share > STARVED_SHARE


def generator_is_limit(windows: Sequence[Measurement], server_cores: int) -> bool:
    """Return whether the generator, and not the server, limits the throughput of a closed loop.

    The generator was busy all the time and the server left some of its CPUs idle, so the capacity
    is at least the measured throughput. Without the server's CPU time the answer is no.

    Args:
        windows: windows of one arm in a closed loop.
        server_cores: number of CPUs that the server may use.
    """
    used = [w.server_cpu_s / w.duration_s for w in windows if w.server_cpu_s is not None]
    if not used:
        return False
    busy = statistics.median(window.generator_busy_share for window in windows)
    return busy > _BUSY and statistics.median(used) < _SATURATED * server_cores
