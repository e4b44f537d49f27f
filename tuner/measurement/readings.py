"""The kernel's counters at one instant, as plain data: see proc(5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ProcessCounters:
    """The kernel's counters of one process with all its threads."""

    user_s: float
    system_s: float
    memory_bytes: int
    """Resident memory; shared pages count for each process."""
    peak_bytes: int
    """Peak resident memory since the process started (``VmHWM``)."""
    waits: int
    """Voluntary context switches: waits of the process."""
    preemptions: int
    """Involuntary context switches: losses of the core."""
    read_bytes: int | None
    """Bytes read from storage; None where the kernel denies access."""
    written_bytes: int | None
    descriptors: int | None
    """Open descriptors."""
    threads: int
    queued_s: float | None = None
    """Time in which its living threads were runnable and waited for a core; None: unknown."""
    living_s: float | None = None
    """CPU time of its living threads, to the nanosecond; None: unknown."""
    ran_s: float | None = None
    """CPU time of all threads that it ever had, to the nanosecond; None: unknown."""
    cpus: tuple[int, ...] = ()
    """CPUs on which any of its threads may run; empty: unknown."""
    main_cpus: tuple[int, ...] = ()
    """CPUs on which its main thread may run."""
    parent: int = 0
    """Id of the process that started it."""


@dataclass(frozen=True, slots=True)
class HostCounters:
    """The kernel's counters of the host."""

    received_bytes: int
    """Bytes received on all network interfaces, including loopback."""
    sent_bytes: int
    disk_read_bytes: int
    """Bytes read from all disks; partitions and layers above disks do not count again."""
    disk_written_bytes: int
    load: float
    """Load average over one minute."""


@dataclass(frozen=True, slots=True)
class Throttling:
    """The counters of one control group with a CPU quota."""

    quota_cpus: float
    """CPU time that the group may use per time, in CPUs."""
    periods: int
    """Periods in which the quota was used up (``nr_throttled``)."""
    withheld_s: float
    """Time in which its threads had to wait, summed over CPUs; counted when a wait ends."""


@dataclass(frozen=True, slots=True)
class CoreTimes:
    """The time that each CPU has not spent on processes, since the host started."""

    at_s: float
    """On a monotonic clock."""
    free_s: Mapping[int, float]
    """Idle time and time in interrupts by CPU, in steps of 10 ms."""


@dataclass(frozen=True, slots=True)
class CounterReading:
    """All counters at one instant."""

    at_s: float
    """On a monotonic clock."""
    processes: Mapping[int, ProcessCounters]
    """By process id, without processes that have ended."""
    host: HostCounters
    behind: Mapping[int, ProcessCounters] = field(default_factory=dict)
    """Processes of the backend, by the ids on its own host."""
    throttling: Mapping[str, Throttling] = field(default_factory=dict)
    """Counters of the CPU quotas above these processes, by control group."""
    begun: CoreTimes | None = None
    """Times of the cores before the processes were read, which takes time itself; None: unknown."""
    done: CoreTimes | None = None
    """Times of the cores after the processes were read."""


def family(processes: Mapping[int, ProcessCounters], pids: Iterable[int]) -> tuple[int, ...]:
    """Return these processes and those that came from them, as far as they were read."""
    found = list(dict.fromkeys(pids))
    for parent in found:  # grows
        found += [pid for pid, it in processes.items() if it.parent == parent and pid not in found]
    return tuple(found)
