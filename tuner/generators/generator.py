"""The port for load generators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from tuner.measurement.instrument import Instrument, Mode
from tuner.measurement.window import RawWindow
from tuner.workload.workload import Workload

HOST = "localhost"
"""Host name that every generator uses, independent of the server's address."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One live instance, from the generator's side."""

    instance: str
    address: str
    """``host:port``."""
    pids: tuple[int, ...] = ()
    """Processes of the instance for CPU time and memory, if they can be read."""
    host: str = ""
    """Host header and TLS name, for generators that can use different names for several hosts;
    empty: the workload's."""


@dataclass(frozen=True, slots=True)
class Slices:
    """The slices of a window, which go to several instances in turn, in random order."""

    instances: tuple[str, ...]
    length_ms: float
    freeze: bool = False
    """True to stop the servers that are not at turn."""
    same_arrivals: bool = False
    """True to send all instances of a set the same requests, at the same instants."""


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """One window to measure, of one instance or shared by several in slices."""

    window_id: str
    instance: str
    """Empty if several share it."""
    mode: Mode
    rate_per_s: float
    """Offered rate, to the instance at turn; ignored in a closed loop."""
    seed: int
    warmup_s: float
    duration_s: float
    """Measured time of each instance."""
    slices: Slices | None = None
    """None for a window of one instance."""

    @property
    def instances(self) -> tuple[str, ...]:
        """The instances that it measures."""
        return self.slices.instances if self.slices else (self.instance,)

    def id_of(self, instance: str) -> str:
        """Return the id of one instance's part."""
        return self.window_id if self.slices is None else f"{self.window_id}-{instance}"


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """The windows of one block, in the order of measurement."""

    workload: Workload
    endpoints: tuple[Endpoint, ...]
    windows: tuple[WindowSpec, ...]


@dataclass(frozen=True, slots=True)
class Next:
    """The caller's decision after a window: continue, drop instances, or stop."""

    drop: tuple[str, ...] = ()
    stop: bool = False


class LoadGenerator(Protocol):
    """A generator that offers the load of a plan, window by window."""

    @property
    def name(self) -> str:
        """Name and version, for the report."""
        ...

    @property
    def instrument(self) -> Instrument:
        """Quality of its figures."""
        ...

    def refuses(self, workload: Workload, mode: Mode) -> str:
        """Return why it cannot offer this load, in words; empty if it can.

        Called before anything starts, so that no study begins with the wrong tool.
        """
        ...

    def run(self, plan: WindowPlan, after: Callable[[RawWindow], Next]) -> None:
        """Measure the windows in order and call ``after`` with each as it ends.

        A window that instances share in slices has one part for each of them, and ``after`` is
        called with every part once the window has ended. Skip the windows of instances that
        ``after`` drops, which must be in the plan. Nothing is measured while ``after`` runs, so its
        work does not disturb a window.

        Raises:
            InstrumentError: the generator is missing, died, or broke its protocol; or ``after``
                drops an instance that is not in the plan.
        """
        ...


@runtime_checkable
class ShowsProcesses(Protocol):
    """A generator that lists its processes on this machine while a plan runs."""

    @property
    def pids(self) -> tuple[int, ...]:
        """Ids of the processes; empty while no plan runs."""
        ...


@runtime_checkable
class SharesLoad(Protocol):
    """A generator that may consist of several."""

    @property
    def members(self) -> tuple[str, ...]:
        """Hosts of the generators that share the load; empty if there is one."""
        ...

    def clock_error_ns(self) -> int:
        """Return how well the instants of the generators agree, ns.

        Raises:
            InstrumentError: one of them cannot share a load.
        """
        ...


def members_of(generator: LoadGenerator) -> tuple[str, ...]:
    """Return the hosts of generators that share a load; empty if there is one."""
    return generator.members if isinstance(generator, SharesLoad) else ()


@runtime_checkable
class WatchesStalls(Protocol):
    """A generator that can detect stalls of the host without load."""

    def stalls(self, duration_s: float) -> Mapping[str, Any]:
        """Watch the host's cores for a duration."""
        ...
