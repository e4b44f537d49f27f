"""Tests of the time for which something else ran on a server's cores, from made-up counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.measurement.foreign import foreign_s
from tuner.measurement.readings import CoreTimes, CounterReading, HostCounters, ProcessCounters

START = ProcessCounters(
    1.0, 0.0, 1, 1, 0, 0, None, None, None, 1, queued_s=0.5, living_s=1.0, ran_s=1.0, parent=99
)
HOST = HostCounters(0, 0, 0, 0, 0.0)
CORES = (0, 1, 2, 3)


def process(
    ran_s: float,
    waited_s: float | None,
    *,
    threads: int = 1,
    cpus: tuple[int, ...] = (0,),
    ended_s: float = 0.0,
    parent: int = 99,
) -> tuple[ProcessCounters, ProcessCounters]:
    """Return counters before and after a window in which a process ran and waited.

    Args:
        ran_s: CPU time in the window.
        waited_s: time in which it waited for a core; None for a kernel that does not report it.
        threads: number of its threads.
        cpus: where it may run.
        ended_s: part of the CPU time in threads that have ended.
        parent: process that started it.
    """
    first = replace(START, threads=threads, cpus=cpus, main_cpus=cpus, parent=parent)
    last = replace(
        first,
        ran_s=1.0 + ran_s,
        living_s=1.0 + ran_s - ended_s,
        queued_s=None if waited_s is None else 0.5 + waited_s,
    )
    return first, last


def found(
    *server: tuple[ProcessCounters, ProcessCounters],
    idle_s: tuple[float, ...] = (),
    generator_cpus: tuple[int, ...] = (3,),
    ends: bool = False,
) -> float | None:
    """Return the result for a window of one second.

    Args:
        server: its processes, the main one first.
        idle_s: idle time by core; empty for a kernel that does not report it.
        generator_cpus: CPUs of the generator.
        ends: whether the last process ends in the window.
    """
    first = {place: pair[0] for place, pair in enumerate(server)}
    last = {place: pair[1] for place, pair in enumerate(server)}
    if ends:
        last.popitem()
    generator = replace(START, threads=2, cpus=CORES, main_cpus=generator_cpus)
    begun = CoreTimes(0.0, dict.fromkeys(CORES, 5.0)) if idle_s else None
    done = CoreTimes(1.0, {cpu: 5.0 + s for cpu, s in enumerate(idle_s)}) if idle_s else None
    return foreign_s(
        CounterReading(0.0, {**first, 50: generator}, HOST, done=begun),
        CounterReading(1.0, {**last, 50: generator}, HOST, begun=done),
        [0],
        [50],
    )


@pytest.mark.parametrize(
    ("server", "foreign"),
    [
        # One worker waits for other programs only, whatever the core did meanwhile.
        ([process(0.5, 0.3)], 0.3),
        # Two workers on one core wait for each other.
        ([process(0.5, 0.45), process(0.45, 0.5, parent=0)], 0.0),
        # On cores of their own they do not.
        ([process(0.5, 0.45), process(0.45, 0.5, parent=0, cpus=(1,))], 0.5),
        # A kernel without these counters.
        ([process(0.5, None)], None),
    ],
)
def test_a_process_of_one_thread_waits_for_others(
    server: list[tuple[ProcessCounters, ProcessCounters]], foreign: float | None
) -> None:
    """Only the wait that is longer than the server's other work on the same core."""
    seen = found(*server, idle_s=(0.0, 0.0, 0.0, 0.0))
    assert seen == (None if foreign is None else pytest.approx(foreign))


@pytest.mark.parametrize(
    ("server", "idle_s", "foreign"),
    [
        # A hundred threads wait for each other on a core that runs nothing else.
        (process(0.7, 40.0, threads=100), (0.3,), 0.0),
        # Another program takes what is left of the core.
        (process(0.7, 40.0, threads=100), (0.0,), 0.3),
        # The same while the threads hardly wait: it does not disturb them.
        (process(0.7, 0.01, threads=100), (0.0,), 0.01),
        # The waits of threads that have ended are not known.
        (process(0.7, 0.01, threads=100, ended_s=0.5), (0.0,), 0.3),
        # Four cores, one of which another program had for the whole window: the mean of the cores.
        (process(2.1, 9.0, threads=100, cpus=(0, 1, 2)), (0.0, 0.3, 0.0), 0.2),
        # The generator's CPU is not among them, even if the server may run there.
        (process(0.7, 9.0, threads=100, cpus=(0, 3)), (0.3, 0.0, 0.0, 0.0), 0.0),
        # A server that has only the generator's CPU.
        (process(0.7, 9.0, threads=100, cpus=(3,)), (0.0, 0.0, 0.0, 0.0), None),
        # No times of the cores, or no CPUs of the process.
        (process(0.7, 40.0, threads=100), (), None),
        (process(0.7, 40.0, threads=100, cpus=()), (0.0,), None),
    ],
)
def test_a_process_of_several_threads_waits_for_itself(
    server: tuple[ProcessCounters, ProcessCounters],
    idle_s: tuple[float, ...],
    foreign: float | None,
) -> None:
    """Only the time counts that its cores spent on neither it nor nothing."""
    seen = found(server, idle_s=idle_s)
    assert seen == (None if foreign is None else pytest.approx(foreign))


def test_processes_that_a_server_adds_are_its_own() -> None:
    """Their work on the server's core is not something else's."""
    server = process(0.3, 9.0, threads=30)
    added = process(0.4, 9.0, threads=30, parent=0)
    assert found(server, added, idle_s=(0.3,)) == pytest.approx(0.0)
    assert found(server, idle_s=(0.3,)) == pytest.approx(0.4)


def test_a_process_that_ended_leaves_nothing_known() -> None:
    """The kernel forgets how long it ran."""
    server, child = process(0.3, 0.5), process(0.4, 0.5, parent=0)
    assert found(server, child, idle_s=(0.0,), ends=True) is None
