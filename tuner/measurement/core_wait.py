"""Waits of the server for its cores, from the kernel: something else ran there."""

from __future__ import annotations

from collections.abc import Iterable

from tuner.measurement.stalls import merged
from tuner.measurement.window import Measurement

_LEAST_SHARE = 0.1
"""Least share of the time under load that counts as a wait. A server that fills its core waits as
long for the ticker, which wakes 2,000 times a second there, and for kernel threads. In a ladder
where nothing else ran, that was 4 % of the time in the typical window and 9 % in one of a hundred.
"""


def foreign_wait_s(window: Measurement) -> float:
    """Return how long something else ran on the server's cores, beyond its known stalls.

    In seconds, including warm-up and drain; 0 if it is unknown or too short to matter.
    """
    found = window.resources
    if found is None or found.server is None or found.server.foreign_s is None:
        return 0.0
    stalls_s = sum(end - start for start, end in merged(window.server_spans)) / 1e9
    explained_s = found.backend.cpu_s if found.backend else 0.0
    # Stolen time is part of the stalls, which nobody sees without real-time priority.
    explained_s += max(stalls_s, window.steal_s)
    waited_s = found.server.foreign_s - explained_s
    return waited_s if waited_s > _LEAST_SHARE * found.loaded_s > 0 else 0.0


def reason(window: Measurement) -> str:
    """Return a reason for the wait in one window; empty if it is too short."""
    waited_s = foreign_wait_s(window)
    if not waited_s:
        return ""
    return (
        f"something else ran on the server's cores for {waited_s * 1e3:.0f} ms, and the server may"
        " have waited for it"
    )


def warning(windows: Iterable[Measurement]) -> str:
    """Return a warning about the waits in many windows; empty if they are too short."""
    every = list(windows)
    waits_s = [waited_s for waited_s in map(foreign_wait_s, every) if waited_s]
    if not waits_s:
        return ""
    return (
        f"in {len(waits_s)} of {len(every)} windows something else ran on the server's cores, for"
        f" up to {max(waits_s) * 1e3:.0f} ms, and the server may have waited for it; keep it off"
        " these cores, or measure when it has ended"
    )
