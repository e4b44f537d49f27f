"""Counters of the kernel for processes and hosts, here or remote: ``tuner.hosts.proc``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.hosts.agent import Agent
from tuner.hosts.proc import counters
from tuner.measurement.readings import (
    CoreTimes,
    CounterReading,
    HostCounters,
    ProcessCounters,
    Throttling,
    family,
)


def read(
    pids: Iterable[int], behind: Iterable[int] = (), proc: Path = Path("/proc")
) -> CounterReading:
    """Read the counters of this machine's processes, without those that have ended.

    Args:
        pids: the processes of server and generator.
        behind: processes of the backend.
        proc: the kernel's folder for them; another one in tests.
    """
    first, second = set(pids), set(behind)
    answer = counters([*first, *second], str(proc))
    return _reading(answer, answer, first, second)


class RemoteCounters:
    """The same counters over the channels to other hosts.

    Args:
        target: agent of the host that serves.
        backend: agent of the host behind it; may be the same.
    """

    def __init__(self, target: Agent, backend: Agent) -> None:
        self._target = target
        self._backend = backend

    def __call__(self, pids: Sequence[int], behind: Sequence[int]) -> CounterReading:
        """Implement ``tuner.phases.resource_watch.ReadCounters``.

        Raises:
            HostError: one of the hosts is gone.
        """
        apart = self._backend is not self._target
        answer = self._target.ask("counters", pids=[*pids, *(() if apart else behind)])
        other = self._backend.ask("counters", pids=[*behind]) if apart and behind else answer
        return _reading(answer, other, set(pids), set(behind))


def _reading(
    answer: Mapping[str, Any], other: Mapping[str, Any], pids: set[int], behind: set[int]
) -> CounterReading:
    return CounterReading(
        at_s=answer["at_s"],
        processes=_processes(answer, pids),
        host=HostCounters(**answer["host"]),
        behind=_processes(other, behind),
        throttling={
            group: Throttling(**counts)
            for each in (answer, other)
            for group, counts in each["throttling"].items()
        },
        begun=_core_times(answer["begun"]),
        done=_core_times(answer["done"]),
    )


def _processes(answer: Mapping[str, Any], wanted: set[int]) -> dict[int, ProcessCounters]:
    """Return the wanted processes, and those that came from them."""
    # Keys in JSON are texts.
    found = {
        int(pid): ProcessCounters(
            **{
                **counts,
                "cpus": tuple(counts["cpus"]),
                "main_cpus": tuple(counts["main_cpus"]),
            }
        )
        for pid, counts in answer["processes"].items()
    }
    return {pid: found[pid] for pid in family(found, wanted) if pid in found}


def _core_times(times: Mapping[str, Any]) -> CoreTimes:
    free_s = {int(cpu): free_s for cpu, free_s in times["free_s"].items()}
    return CoreTimes(times["at_s"], free_s)
