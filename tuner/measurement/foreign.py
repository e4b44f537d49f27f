"""The time for which something else ran on a server's cores in a window, from the counters.

The kernel counts the waits of each thread for a core, but not what the core did meanwhile. A server
of several threads mostly waits for itself: a hundred threads on one core that is busy for 70 % of
the time wait for longer than the window lasts. So the waits alone say nothing about others.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from itertools import chain

from tuner.measurement.readings import CounterReading, ProcessCounters, family

_ENDED_SHARE = 0.05
"""Share of the CPU time in threads that have ended from which the waits are not known: the kernel
forgets a thread's waits with the thread."""

_Ends = tuple[ProcessCounters | None, ProcessCounters]
"""Counters of a process before and after the window; None: it was started in the window."""


def foreign_s(
    before: CounterReading,
    after: CounterReading,
    server: Iterable[int],
    generator: Collection[int] = (),
) -> float | None:
    """Return how long something else ran on the server's cores, and the server may have waited.

    If each process of the server has one thread, this is the longest wait of a process beyond the
    CPU time of the others that may run on its CPUs: a lower bound. Otherwise it is the time that
    the server's cores spent neither idle, nor in interrupts, nor on the server, as a mean over the
    cores, and no longer than the server's threads waited. That is an upper bound of the time for
    which they waited for something else: the kernel does not say which of the two they waited for.

    Args:
        before: the reading before the window.
        after: the reading after it.
        server: processes of the server; those that came from them are included.
        generator: processes of a generator on the same host.

    Returns:
        None if it is unknown: counters are missing, a process ended, or the generator shares all
        of the server's cores.
    """
    pids = family(after.processes, family(before.processes, server))
    if any(pid in before.processes and pid not in after.processes for pid in pids):
        return None
    ends = [(before.processes.get(pid), after.processes[pid]) for pid in pids
            if pid in after.processes]  # fmt: skip
    if not ends or any(each.queued_s is None for end in ends for each in end if each):
        return None
    if all(each.threads == 1 for end in ends for each in end if each):
        return _single(ends)
    taken = _theirs(after.processes, generator)
    return _of_cores(before, after, ends, set(chain(*(last.cpus for _, last in ends))) - taken)


def _single(ends: list[_Ends]) -> float:
    """Return the longest wait beyond the CPU time of the others on the same CPUs."""
    used_s = [_ran_s(end) for end in ends]
    longest_s = 0.0
    for place, (_, process) in enumerate(ends):
        others_s = sum(
            used_s[other]
            for other, (_, its) in enumerate(ends)
            if other != place and _meet(process.cpus, its.cpus)
        )
        longest_s = max(longest_s, _queued_s(ends[place]) - others_s)
    return longest_s


def _of_cores(
    before: CounterReading, after: CounterReading, ends: list[_Ends], cpus: set[int]
) -> float | None:
    """Return the mean time that these cores spent on something else, at most the waits."""
    first, last = before.done, after.begun
    if first is None or last is None or not cpus or not cpus <= first.free_s.keys() & last.free_s:
        return None
    span_s = last.at_s - first.at_s
    busy_s = sum(span_s - (last.free_s[cpu] - first.free_s[cpu]) for cpu in cpus)
    used_s = sum(map(_ran_s, ends))
    most_s = math.inf if _forgets(ends, used_s) else sum(map(_queued_s, ends))
    return max(0.0, min(busy_s - used_s, most_s)) / len(cpus)


def _forgets(ends: list[_Ends], used_s: float) -> bool:
    """Return whether threads that have ended did a part of the work, so that their waits count."""
    living_s = sum(last.living_s - (first.living_s or 0.0 if first else 0.0)
                   for first, last in ends if last.living_s is not None)  # fmt: skip
    return used_s - living_s > _ENDED_SHARE * used_s


def _theirs(processes: Mapping[int, ProcessCounters], generator: Collection[int]) -> set[int]:
    """Return the CPUs of the generator; its ticker is another thread, on the server's cores."""
    return set(chain(*(processes[pid].main_cpus for pid in generator if pid in processes)))


def _meet(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return not one or not other or not set(one).isdisjoint(other)


def _ran_s(end: _Ends) -> float:
    first, last = end
    return _cpu_s(last) - (_cpu_s(first) if first else 0.0)


def _cpu_s(process: ProcessCounters) -> float:
    return process.user_s + process.system_s if process.ran_s is None else process.ran_s


def _queued_s(end: _Ends) -> float:
    first, last = end
    return max(0.0, (last.queued_s or 0.0) - (first.queued_s or 0.0 if first else 0.0))
