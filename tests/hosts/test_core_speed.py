"""Fixed work on a core: its times, and what is left as it was."""

from __future__ import annotations

import os

import pytest

from tuner.errors import HostError
from tuner.hosts import core_speed


def test_work_is_timed_on_each_core() -> None:
    """For each core in turn; the caller's own CPUs and niceness stay as they are."""
    before = os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)
    cpus = sorted(before[0])[:2]
    found = core_speed.times_by_core(cpus, 0.0)
    assert list(found) == cpus
    for times in found.values():
        assert len(times) == 10
        assert min(times) > 0
    assert (os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)) == before


def test_the_time_is_divided_among_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second and a half for all, in slices of 20 ms, and not less than ten slices of each."""
    monkeypatch.setattr(core_speed, "times_of_work", lambda _, slices: (slices * 1.0,))
    assert core_speed.times_by_core([1, 2, 3], 1.5) == dict.fromkeys([1, 2, 3], (25.0,))
    assert core_speed.times_by_core(range(64), 1.5)[63] == (10.0,)


def test_a_core_that_may_not_be_used_is_named() -> None:
    """With the system's reason."""
    with pytest.raises(HostError, match="CPU 4000 cannot be used: Invalid argument"):
        core_speed.times_of_work(4000, 1)
