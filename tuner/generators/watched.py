"""A generator and a server on different hosts, with observations of the server's host.

The generator sees only its own cores. The target reports on its cores and the server's processes
(``tuner.hosts.remote_watch``) in the gap after each window, and the clocks align both
(``tuner.measurement.clocks``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tuner.generators.generator import Next, WindowPlan, members_of
from tuner.generators.native import NativeGenerator
from tuner.generators.shared import SharedGenerator
from tuner.measurement.instrument import Instrument, Mode
from tuner.measurement.window import RawWindow
from tuner.workload.workload import Workload


class Onlooker(Protocol):
    """An observer of the server's host while the load comes from another host."""

    def begin(self, plan: WindowPlan) -> None:
        """Prepare for the first window."""
        ...

    def completed(self, window: RawWindow) -> RawWindow:
        """Return the window with the stalls and the resource use of the server."""
        ...

    def go_on(self) -> None:
        """Prepare for the next window."""
        ...


class WatchedGenerator:
    """The native generator on another host, or several, with an observer on the target.

    Args:
        inner: the generator, or those that share the load.
        onlooker: the observer on the target.
    """

    def __init__(self, inner: NativeGenerator | SharedGenerator, onlooker: Onlooker) -> None:
        self._inner = inner
        self._onlooker = onlooker

    @property
    def name(self) -> str:
        """Implement ``LoadGenerator.name``."""
        return self._inner.name

    @property
    def instrument(self) -> Instrument:
        """Implement ``LoadGenerator.instrument``."""
        return self._inner.instrument

    @property
    def members(self) -> tuple[str, ...]:
        """Implement ``SharesLoad.members``."""
        return members_of(self._inner)

    def clock_error_ns(self) -> int:
        """Implement ``SharesLoad.clock_error_ns``."""
        return self._inner.clock_error_ns() if isinstance(self._inner, SharedGenerator) else 0

    def refuses(self, workload: Workload, mode: Mode) -> str:
        """Implement ``LoadGenerator.refuses``."""
        return self._inner.refuses(workload, mode)

    def stalls(self, duration_s: float) -> Mapping[str, Any]:
        """Implement ``WatchesStalls.stalls`` for the generator's cores."""
        return self._inner.stalls(duration_s)

    def run(self, plan: WindowPlan, after: Callable[[RawWindow], Next]) -> None:
        """Implement ``LoadGenerator.run``."""

        def complete(window: RawWindow) -> Next:
            answer = after(self._onlooker.completed(window))
            if window.turns is None or window.turns.place + 1 == window.turns.arms:
                self._onlooker.go_on()
            return answer

        self._onlooker.begin(plan)
        self._inner.run(plan, complete)
