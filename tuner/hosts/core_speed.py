"""The speed of this machine's cores: fixed work, timed again and again in slices.

A core may do the same work at different speeds: its clock changes, another thread runs on the
same physical core, or another guest of the hypervisor uses the same caches. No stall shows that.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from tuner.errors import HostError

SLICE_S = 0.02
"""Length of a slice: the shortest in which the arms of a study take turns."""
_LEAST_SLICES = 10
"""Least number of slices of a core."""
_WORK = bytes(8192)
"""The work is the hash of this, some 5 to 50 µs: short enough for a thousand in a slice."""
_PRIORITY = -20
"""Niceness of the work, as that of a server in the lab; not allowed without privileges."""


def times_of_work(cpu: int, slices: int) -> tuple[float, ...]:
    """Return the time that the work took in each of some successive slices, in seconds.

    The time of a slice is the median of its repetitions, so it does not include stalls.

    Raises:
        HostError: this process may not use the CPU.
    """
    # Affinity and niceness are those of one thread alone (sched_setaffinity(2)).
    with ThreadPoolExecutor(1) as thread:
        try:
            return thread.submit(_work_on, cpu, slices).result()
        except OSError as error:
            raise HostError(f"CPU {cpu} cannot be used: {error.strerror}") from error


def _work_on(cpu: int, slices: int) -> tuple[float, ...]:
    os.sched_setaffinity(0, {cpu})
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)
    return tuple(_slice() for _ in range(slices))


def times_by_core(cpus: Sequence[int], time_s: float) -> dict[int, tuple[float, ...]]:
    """Return the times of the work on some cores, one after another, in about this time.

    Raises:
        HostError: this process may not use one of the CPUs.
    """
    slices = max(_LEAST_SLICES, round(time_s / SLICE_S / len(cpus)))
    return {cpu: times_of_work(cpu, slices) for cpu in cpus}


def _slice() -> float:
    now = time.perf_counter()
    end, took = now + SLICE_S, []
    while now < end:
        hashlib.sha256(_WORK).digest()
        before, now = now, time.perf_counter()
        took.append(now - before)
    return median(took)
