"""The bottleneck of a measurement: the server, or the generator that should load it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from tuner.machine.facts import CoreSplit
from tuner.measurement.gates import STARVED_SHARE
from tuner.measurement.stalls import Span, within
from tuner.measurement.window import Measurement

_BUSY = 0.95
"""Busy share of the generator's CPUs from which it counts as saturated."""
_SATURATED = 0.9
"""Share of the server's CPUs from which the server counts as saturated."""
_SLOW = 0.9
"""Quantile of windows by their busy share that stands for the host's slow seconds."""


def is_starved(window: Measurement) -> bool:
    """Return whether a window is invalid because the generator could not keep up with its rate."""
    return not window.valid and window.generator_busy_share > STARVED_SHARE


def busy_share(
    windows: Sequence[Measurement], cores: CoreSplit, alone: Sequence[Measurement] = ()
) -> float | None:
    """Return the share of their time in which the server's cores were busy; None if unknown.

    It is the median over windows of one arm, each of its own. The CPU time is that of the server
    and of a backend that shares its cores. Their time is what the host leaves them: a core that a
    hypervisor takes away for a quarter of the time is full after three quarters, and requests wait
    as long as on a core that is always there. On a core that the generator shares it says nothing.

    Args:
        windows: windows of one arm.
        cores: cores of the study.
        alone: windows in which this arm had the backend to itself. In windows that arms share, the
            backend serves all of them; there its time is taken to be in proportion to the server's,
            as in these.
    """
    known = _busy_shares(windows, cores, alone)
    return statistics.median(known) if known else None


def busy_share_in_slow_seconds(
    windows: Sequence[Measurement], cores: CoreSplit, alone: Sequence[Measurement] = ()
) -> float | None:
    """Return the busy share that a tenth of the windows exceed; None if unknown.

    The speed of a shared core changes by the second, and with it the CPU time of a request. See
    ``busy_share`` for the arguments.
    """
    known = _busy_shares(windows, cores, alone)
    return float(np.quantile(known, _SLOW)) if known else None


def _busy_shares(
    windows: Sequence[Measurement], cores: CoreSplit, alone: Sequence[Measurement]
) -> list[float]:
    """Return the known busy shares of windows."""
    if cores.shared or not cores.server:
        return []
    relative = _backend_relative(alone) if cores.backend_shares else 0.0
    found = (_busy(window, cores, relative) for window in windows)
    return [busy for busy in found if busy is not None]


def _busy(window: Measurement, cores: CoreSplit, backend_relative: float | None) -> float | None:
    """Return the busy share in one window; None if unknown.

    Args:
        window: the window.
        cores: cores of the study.
        backend_relative: CPU time of the backend relative to the server's, for windows that do not
            have it; None: unknown.
    """
    left_s = len(cores.server) * window.duration_s - _stalled_s(window)
    if window.server_cpu_s is None or not left_s > 0:
        return None
    behind_s = _backend_s(window) if cores.backend_shares else 0.0
    if behind_s is None and backend_relative is not None:
        behind_s = backend_relative * window.server_cpu_s
    return None if behind_s is None else min(1.0, (window.server_cpu_s + behind_s) / left_s)


def _backend_s(window: Measurement) -> float | None:
    """Return the CPU time of the backend in one window; None if unknown."""
    seen = window.resources
    if seen is None or seen.backend is None or not seen.loaded_s > 0:
        return None
    return seen.backend.cpu_s / seen.loaded_s * window.duration_s


def _backend_relative(alone: Sequence[Measurement]) -> float | None:
    """Return the backend's CPU time relative to the server's, the median over windows."""
    known = [
        behind_s / window.server_cpu_s
        for window in alone
        if window.server_cpu_s and (behind_s := _backend_s(window)) is not None
    ]
    return statistics.median(known) if known else None


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
