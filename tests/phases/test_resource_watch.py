"""Counters around windows: each part of a shared window has those of the whole window."""

from __future__ import annotations

from collections.abc import Sequence

from tests.phases.rig import WORKLOAD, rig
from tuner.generators.generator import Endpoint, Slices, WindowPlan, WindowSpec
from tuner.measurement.readings import CounterReading, HostCounters, ProcessCounters
from tuner.phases.resource_watch import ResourceWatch
from tuner.testing.lab import SimulatedGenerator

ARMS = (Endpoint("one", "127.0.0.1:1", (1,)), Endpoint("two", "127.0.0.1:2", (2,)))
SLICES = Slices(("one", "two"), 20.0)
WINDOWS = tuple(
    WindowSpec(f"{round_:02}", "", "open", 100.0, 1, 0.1, 0.5, SLICES) for round_ in range(2)
)


class Counters:
    """Counters of processes that use their id in seconds of CPU time until each reading."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.gone: set[int] = set()

    def __call__(self, pids: Sequence[int], behind: Sequence[int]) -> CounterReading:
        """Implement ``ReadCounters``."""
        assert not behind
        self.asked.append(sorted(pids))
        now = float(len(self.asked))
        found = {
            pid: ProcessCounters(pid * now, 0.0, 1, 1, 0, 0, None, None, None, 1, queued_s=now)
            for pid in pids
            if pid not in self.gone
        }
        return CounterReading(now, found, HostCounters(0, 0, 0, 0, 0.0))


def watch(read: Counters) -> ResourceWatch:
    """Return a watch of two rounds that both arms share."""
    made = ResourceWatch(read, SimulatedGenerator(rig().host), ())
    made.begin(WindowPlan(WORKLOAD, ARMS, WINDOWS))
    return made


def test_all_parts_of_a_shared_window_have_the_same_readings() -> None:
    """All parts of a window end at the same moment and share one reading."""
    read = Counters()
    watched = watch(read)
    for round_ in range(2):
        for endpoint in ARMS:
            found = watched.end(f"{round_:02}-{endpoint.instance}", endpoint.instance)
            watched.go_on()
            assert found is not None
            assert found.server is not None
            assert (found.span_s, found.server.cpu_s) == (1.0, endpoint.pids[0])
    assert read.asked == [[1, 2]] * 5, "before the first, and twice in each gap"


def test_waits_in_a_shared_window_are_unknown() -> None:
    """A server also waits while the other arm's slice runs, so nothing is said of other work."""
    watched = watch(Counters())
    found = watched.end("00-one", "one")
    assert found is not None
    assert found.server is not None
    assert (found.server.queued_s, found.server.foreign_s) == (None, None)


def test_a_server_that_ends_in_a_shared_window_is_seen_whatever_its_part() -> None:
    """The second part's process was there before the window, and is not after it."""
    read = Counters()
    watched = watch(read)
    read.gone.add(2)
    watched.end("00-one", "one")
    watched.go_on()
    watched.end("00-two", "two")
    assert watched.ended("one") == ()
    assert watched.ended("two") == (2,)
