"""The port: what every load generator must do, over any protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from tuner.measurement.instrument import Instrument
from tuner.measurement.window import RawWindow
from tuner.workload.workload import Workload

Mode = Literal["open", "closed"]

HOST = "localhost"
"""Host name that every generator uses, whatever the server's address."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One live instance, as the generator sees it."""

    instance: str
    address: str
    """``host:port``."""
    pids: tuple[int, ...] = ()
    """Processes whose CPU time and memory belong to the instance, where they can be read."""
    host: str = ""
    """Host header and name of TLS, for generators that can ask several hosts by their own names;
    empty: as the workload says."""


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """One window to be measured."""

    window_id: str
    instance: str
    mode: Mode
    rate_per_s: float
    """Offered rate; ignored in a closed loop."""
    seed: int
    warmup_s: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """The windows of one block, in the order in which they are to be measured."""

    workload: Workload
    endpoints: tuple[Endpoint, ...]
    windows: tuple[WindowSpec, ...]


@dataclass(frozen=True, slots=True)
class Next:
    """The caller's decision after a window: continue, drop instances, or stop."""

    drop: tuple[str, ...] = ()
    stop: bool = False


class LoadGenerator(Protocol):
    """Offers the load of a plan, window by window."""

    @property
    def name(self) -> str:
        """Name and version, for the report."""
        ...

    @property
    def instrument(self) -> Instrument:
        """Quality of its figures."""
        ...

    def refuses(self, workload: Workload, mode: Mode) -> str:
        """Why it cannot offer this load, in words; empty if it can.

        Asked before anything is started, so that no study begins with the wrong tool.
        """
        ...

    def run(self, plan: WindowPlan, after: Callable[[RawWindow], Next]) -> None:
        """Measure the windows in order and call ``after`` with each as it ends.

        The windows of instances that ``after`` drops, all of them the plan's, are skipped.
        Nothing is measured while ``after`` runs, so that its own work disturbs no window.

        Raises:
            InstrumentError: the generator is missing, died, or broke its protocol; or ``after``
                drops what is not in the plan.
        """
        ...


@runtime_checkable
class ShowsProcesses(Protocol):
    """A generator whose processes on this machine are known while a plan runs."""

    @property
    def pids(self) -> tuple[int, ...]:
        """Their ids; empty while nothing runs."""
        ...


@runtime_checkable
class WatchesStalls(Protocol):
    """A generator that can look for stalls of the host without any load."""

    def stalls(self, duration_s: float) -> Mapping[str, Any]:
        """Watch the host's cores for this time."""
        ...
