"""Invented resource use for the windows of a synthetic record."""

from __future__ import annotations

import math

import numpy as np

from tuner.measurement.resources import ProcessUsage, Resources
from tuner.measurement.window import RawWindow

_WARMUP_S = 0.3
_SEED = 11
"""Seed of a source of its own, so that the requests do not depend on it."""


def used(window: RawWindow, *, block: int, achieved_per_s: float, shift: float) -> Resources:
    """Return the resource use of a window: less CPU time where latency is lower.

    Args:
        window: as the generator reported it.
        block: number of its block.
        achieved_per_s: requests answered by second.
        shift: ln latency against the baseline.
    """
    rng = np.random.default_rng([_SEED, block, round(1e3 * window.started_unix_s)])
    loaded_s = window.duration_s + _WARMUP_S
    cpu_s = (window.server_cpu_s or 0.0) * loaded_s / window.duration_s
    requests = achieved_per_s * loaded_s
    rss = window.server_rss_bytes or 0

    def noisy(value: float) -> float:
        return value * float(rng.lognormal(0.0, 0.03))

    server = ProcessUsage(
        user_s=0.4 * cpu_s,
        system_s=0.6 * cpu_s,
        memory_mean_bytes=float(rss),
        memory_peak_bytes=round(1.04 * rss),
        waits=round(noisy(0.35 * requests)),
        preemptions=round(noisy(40 * loaded_s)),
        read_bytes=0,
        written_bytes=round(noisy(90 * requests)),
        descriptors=100,
        threads=2,
    )
    backend = ProcessUsage(
        user_s=noisy(9e-6 * requests),
        system_s=noisy(14e-6 * math.exp(0.8 * shift) * requests),
        memory_mean_bytes=6.1e6,
        memory_peak_bytes=6_400_000,
        waits=round(noisy(0.5 * requests)),
        preemptions=round(noisy(20 * loaded_s)),
        read_bytes=0,
        written_bytes=0,
        descriptors=60,
        threads=2,
    )
    generator = ProcessUsage(
        user_s=noisy(0.9 * loaded_s),
        system_s=noisy(0.1 * loaded_s),
        memory_mean_bytes=9.0e6,
        memory_peak_bytes=11_000_000,
        waits=round(noisy(4 * loaded_s)),
        preemptions=round(noisy(2 * loaded_s)),
        read_bytes=0,
        written_bytes=round(25 * requests),
        descriptors=52,
        threads=3,
    )
    carried = round(2 * 1_240 * requests)
    return Resources(
        span_s=loaded_s + 0.1,
        loaded_s=loaded_s,
        server=server,
        backend=backend,
        generator=generator,
        received_bytes=carried,
        sent_bytes=carried,
        disk_read_bytes=0,
        disk_written_bytes=round(noisy(120 * requests)),
        load=round(1.6 + 0.2 * float(rng.normal()), 2),
    )
