"""Tests of the resources of a window: the difference of two readings of the counters."""

from __future__ import annotations

from dataclasses import replace

from tuner.measurement.readings import CounterReading, HostCounters, ProcessCounters
from tuner.measurement.resources import between, part_of

HOST = HostCounters(1_000, 2_000, 0, 512, 0.5)
IDLE = ProcessCounters(1.0, 2.0, 1_000, 1_500, 10, 3, 0, 100, 7, 2)
BUSY = replace(IDLE, user_s=1.5, system_s=3.0, memory_bytes=3_000, peak_bytes=4_000, waits=30)


def reading(at_s: float, host: HostCounters = HOST, **processes: ProcessCounters) -> CounterReading:
    """Return a reading of processes called ``p1``, ``p2``."""
    return CounterReading(at_s, {int(name[1:]): found for name, found in processes.items()}, host)


def test_counters_are_subtracted_and_levels_are_not() -> None:
    """CPU time and switches are differences; memory is a mean and a peak, descriptors the last."""
    after = replace(HOST, received_bytes=5_000, load=0.7)
    found = between(
        reading(10.0, p1=IDLE), reading(12.5, after, p1=BUSY), {"server": (1,)}, loaded_s=2.0
    )
    assert found.server is not None
    assert (found.server.cpu_s, found.server.waits, found.server.preemptions) == (1.5, 20, 0)
    assert (found.server.memory_mean_bytes, found.server.memory_peak_bytes) == (2_000, 4_000)
    assert found.server.descriptors == 7
    assert (found.span_s, found.received_bytes, found.sent_bytes, found.load) == (
        2.5,
        4_000,
        0,
        0.7,
    )
    assert found.backend is None


def test_several_processes_are_one_group() -> None:
    """A master and its worker are summed up; one that went away in between counts for nothing."""
    before = reading(0.0, p1=IDLE, p2=IDLE, p3=IDLE)
    after = reading(1.0, p1=BUSY, p2=BUSY)
    found = between(before, after, {"server": (1, 2, 3)}, loaded_s=1.0).server
    assert found is not None
    assert (found.cpu_s, found.threads, found.memory_peak_bytes) == (3.0, 4, 8_000)


def test_what_was_started_in_between_counts_whole() -> None:
    """The generator's process begins after the first reading, so its counters began at zero."""
    found = between(reading(0.0), reading(1.0, p9=BUSY), {"generator": (9,)}, loaded_s=1.0)
    assert found.generator is not None
    assert (found.generator.cpu_s, found.generator.waits) == (4.5, 30)
    assert found.generator.memory_mean_bytes == 3_000


def test_arms_that_share_a_window_share_what_is_not_their_own() -> None:
    """The server's use is its own; generator and network are divided; the backend's is unknown."""
    after = replace(HOST, received_bytes=5_000)
    groups = {"server": (1,), "generator": (2,)}
    before = reading(0.0, p1=IDLE, p2=IDLE)
    whole = between(before, reading(1.0, after, p1=BUSY, p2=BUSY), groups, loaded_s=0.5)
    waited = whole.server and replace(whole.server, queued_s=0.3, foreign_s=0.2)
    found = part_of(replace(whole, server=waited, backend=whole.server), 2)
    assert found.server == whole.server, "it also waits for the other arms"
    assert found.generator is not None
    assert (found.generator.cpu_s, found.received_bytes) == (0.75, 2_000)
    assert found.backend is None


def test_what_cannot_be_read_is_unknown_not_zero() -> None:
    """Without the right to read a process's input and output there is no figure of it."""
    hidden = replace(BUSY, read_bytes=None, written_bytes=None, descriptors=None)
    found = between(
        reading(0.0, p1=hidden), reading(1.0, p1=hidden), {"server": (1,)}, loaded_s=1.0
    ).server
    assert found is not None
    assert (found.read_bytes, found.written_bytes, found.descriptors) == (None, None, None)
