"""The speed of this machine's cores: fixed work, timed again and again in slices.

A core may do the same work at different speeds: its clock changes, another thread runs on the
same physical core, or another guest of the hypervisor uses the same caches. No stall shows that.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from tuner.errors import HostError

SLICE_S = 0.02
"""Length of a slice: the shortest in which the arms of a study take turns."""
_LEAST_SLICES = 10
"""Least number of slices of a core."""
_WORK = bytes(8192)
"""The work is the hash of this, some 5 to 50 µs: short enough for a thousand in a slice."""
_DOCUMENT = json.dumps({str(number): [number, "text", None] for number in range(40)})
"""A text that is parsed, some 5 to 50 µs. A parser uses a core's units and caches as a server does;
a hash has instructions of its own, which another thread hardly slows."""
_BESIDE_SLICES = 25
_STARTS_S = 0.2
"""Time for the other work to start."""
_PRIORITY = -20
"""Niceness of the work, as that of a server in the lab; not allowed without privileges."""


def hash_bytes() -> None:
    """Do the work by which the speed of a core is followed."""
    hashlib.sha256(_WORK).digest()


def parse_text() -> None:
    """Do work like a server's, which another thread of the core slows."""
    json.loads(_DOCUMENT)


def times_of_work(
    cpu: int, slices: int, work: Callable[[], None] = hash_bytes
) -> tuple[float, ...]:
    """Return the time that the work took in each of some successive slices, in seconds.

    The time of a slice is the median of its repetitions, so it does not include stalls.

    Raises:
        HostError: this process may not use the CPU.
    """
    # Affinity and niceness are those of one thread alone (sched_setaffinity(2)).
    with ThreadPoolExecutor(1) as thread:
        try:
            return thread.submit(_work_on, cpu, slices, work).result()
        except OSError as error:
            raise HostError(f"CPU {cpu} cannot be used: {error.strerror}") from error


def _work_on(cpu: int, slices: int, work: Callable[[], None]) -> tuple[float, ...]:
    os.sched_setaffinity(0, {cpu})
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)
    return tuple(_slice(work) for _ in range(slices))


def times_by_core(cpus: Sequence[int], time_s: float) -> dict[int, tuple[float, ...]]:
    """Return the times of the work on some cores, one after another, in about this time.

    Raises:
        HostError: this process may not use one of the CPUs.
    """
    slices = max(_LEAST_SLICES, round(time_s / SLICE_S / len(cpus)))
    return {cpu: times_of_work(cpu, slices) for cpu in cpus}


def speed_lost_beside(other: Callable[[float], object], cpu: int) -> float:
    """Return the share of a CPU's speed that is lost while something else runs, at least 0.

    The CPU is timed before, during and after it, 1.5 s in all.

    Args:
        other: runs for a given number of seconds.
        cpu: the CPU that works.

    Raises:
        HostError: this process may not use the CPU.
    """
    alone = times_of_work(cpu, _BESIDE_SLICES, parse_text)
    with ThreadPoolExecutor(1) as thread:
        ended = thread.submit(other, _STARTS_S + _BESIDE_SLICES * SLICE_S)
        time.sleep(_STARTS_S)
        beside = times_of_work(cpu, _BESIDE_SLICES, parse_text)
        ended.result()
    alone += times_of_work(cpu, _BESIDE_SLICES, parse_text)
    return max(0.0, 1 - median(alone) / median(beside))


def _slice(work: Callable[[], None]) -> float:
    now = time.perf_counter()
    end, took = now + SLICE_S, []
    while now < end:
        work()
        before, now = now, time.perf_counter()
        took.append(now - before)
    return median(took)
