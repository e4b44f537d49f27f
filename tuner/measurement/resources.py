"""Resource use around one window: counters read before and after, subtracted.

Nothing is read while a window runs. The kernel keeps the counters (proc(5)), and tuner reads them
in the gaps between windows, so the figures cover warm-up, window and drain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TypeVar

from tuner.measurement.foreign import foreign_s
from tuner.measurement.readings import CounterReading, ProcessCounters, Throttling, family

_N = TypeVar("_N", int, float)


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """Resource use of a group of processes: server, backend or generator."""

    user_s: float
    system_s: float
    memory_mean_bytes: float
    """Mean of the resident memory before and after."""
    memory_peak_bytes: int
    """Sum of the processes' peaks since their start."""
    waits: int
    preemptions: int
    read_bytes: int | None
    written_bytes: int | None
    descriptors: int | None
    """Descriptors open at the end."""
    threads: int
    queued_s: float | None = None
    """Time runnable and waiting for a core; None: unknown, as in older records."""
    foreign_s: float | None = None
    """Time for which something else ran on the server's cores, and it may have waited
    (``tuner.measurement.foreign``); None: unknown, or another group."""

    @property
    def cpu_s(self) -> float:
        """CPU time in user code and kernel."""
        return self.user_s + self.system_s


@dataclass(frozen=True, slots=True)
class Resources:
    """Resource use around one window, warm-up and drain included."""

    span_s: float
    """Between the two readings."""
    loaded_s: float
    """Time under load: warm-up and window."""
    server: ProcessUsage | None
    """None where its processes cannot be read; likewise for the next two."""
    backend: ProcessUsage | None
    generator: ProcessUsage | None
    received_bytes: int
    """Bytes received by the host (``HostCounters``), including other programs."""
    sent_bytes: int
    disk_read_bytes: int
    disk_written_bytes: int
    load: float
    throttling: Mapping[str, Throttling] = field(default_factory=dict)
    """Waits due to CPU quotas, by control group; only groups that were throttled."""


def between(
    before: CounterReading,
    after: CounterReading,
    groups: Mapping[str, Iterable[int]],
    *,
    loaded_s: float,
) -> Resources:
    """Return the resource use between two readings.

    Args:
        groups: known process ids of ``server``, ``backend`` and ``generator``; those that came
            from a process of the first two are included. All use of a process that is missing in
            the first reading counts.
        loaded_s: time under load between the readings.
    """
    server = family(after.processes, groups.get("server", ()))
    generator = tuple(groups.get("generator", ()))
    used = _used(before.processes, after.processes, server)
    return Resources(
        span_s=after.at_s - before.at_s,
        loaded_s=loaded_s,
        server=used and replace(used, foreign_s=foreign_s(before, after, server, generator)),
        backend=_used(before.behind, after.behind, family(after.behind, groups.get("backend", ()))),
        generator=_used(before.processes, after.processes, generator),
        received_bytes=after.host.received_bytes - before.host.received_bytes,
        sent_bytes=after.host.sent_bytes - before.host.sent_bytes,
        disk_read_bytes=after.host.disk_read_bytes - before.host.disk_read_bytes,
        disk_written_bytes=after.host.disk_written_bytes - before.host.disk_written_bytes,
        load=after.host.load,
        throttling=_throttled(before.throttling, after.throttling),
    )


def _throttled(
    before: Mapping[str, Throttling], after: Mapping[str, Throttling]
) -> Mapping[str, Throttling]:
    """Return what quotas withheld between two readings, without groups of the second one only."""
    used = {
        group: Throttling(
            last.quota_cpus,
            last.periods - before[group].periods,
            last.withheld_s - before[group].withheld_s,
        )
        for group, last in after.items()
        if group in before
    }
    return {group: each for group, each in used.items() if each.periods > 0}


def part_of(whole: Resources, arms: int) -> Resources:
    """Return one arm's part of the use around a window that arms shared in slices.

    The server's processes are its own; their CPU time, switches and memory include what they did
    outside their slices. The generator's use and the host's counters are divided evenly. Two things
    are unknown: the backend's use, since it served all arms, and the server's waits for a core,
    since it also waits for the other arms and their backend.
    """
    server, generator = whole.server, whole.generator
    return replace(
        whole,
        server=server and replace(server, queued_s=None, foreign_s=None),
        backend=None,
        generator=generator
        and replace(generator, user_s=generator.user_s / arms, system_s=generator.system_s / arms),
        received_bytes=whole.received_bytes // arms,
        sent_bytes=whole.sent_bytes // arms,
        disk_read_bytes=whole.disk_read_bytes // arms,
        disk_written_bytes=whole.disk_written_bytes // arms,
    )


def _used(
    before: Mapping[int, ProcessCounters],
    after: Mapping[int, ProcessCounters],
    pids: Iterable[int],
) -> ProcessUsage | None:
    ends = [(before.get(pid), after[pid]) for pid in pids if pid in after]
    if not ends:
        return None
    last = [end for _, end in ends]
    memory = fmean(
        sum((start or end).memory_bytes if first else end.memory_bytes for start, end in ends)
        for first in (True, False)
    )
    return ProcessUsage(
        user_s=sum(end.user_s - (start.user_s if start else 0.0) for start, end in ends),
        system_s=sum(end.system_s - (start.system_s if start else 0.0) for start, end in ends),
        memory_mean_bytes=memory,
        memory_peak_bytes=sum(end.peak_bytes for end in last),
        waits=sum(end.waits - (start.waits if start else 0) for start, end in ends),
        preemptions=sum(
            end.preemptions - (start.preemptions if start else 0) for start, end in ends
        ),
        read_bytes=_total(
            (start.read_bytes if start else 0, end.read_bytes) for start, end in ends
        ),
        written_bytes=_total(
            (start.written_bytes if start else 0, end.written_bytes) for start, end in ends
        ),
        descriptors=_total((0, end.descriptors) for end in last),
        threads=sum(end.threads for end in last),
        queued_s=_total((start.queued_s if start else 0.0, end.queued_s) for start, end in ends),
    )


def _total(ends: Iterable[tuple[_N | None, _N | None]]) -> _N | None:
    """Return the sum of the differences; None if one of them is unknown."""
    pairs = list(ends)
    found = [last - first for first, last in pairs if first is not None and last is not None]
    return sum(found) if len(found) == len(pairs) else None
