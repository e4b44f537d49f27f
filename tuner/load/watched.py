"""A generator on one host and the server on another: what was seen there completes each window.

The generator sees its own cores only. What the target's cores and the server's processes did is
reported by the target (``tuner.hosts.watch``) in the gap after the window, and laid over it by the
clocks (``tuner.measurement.clocks``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tuner.load.generator import Mode, Next, WindowPlan
from tuner.load.native import NativeGenerator
from tuner.measurement.instrument import Instrument
from tuner.measurement.window import RawWindow
from tuner.workload.workload import Workload


class Onlooker(Protocol):
    """An observer of the server's host while the load comes from another host."""

    def begin(self, plan: WindowPlan) -> None:
        """Before the first window."""
        ...

    def completed(self, window: RawWindow) -> RawWindow:
        """Return the window with the stalls of the server's cores, and what the server used."""
        ...

    def go_on(self) -> None:
        """Right before the next window."""
        ...


class WatchedGenerator:
    """The native generator on another host, with an onlooker on the target.

    Args:
        inner: the generator.
        onlooker: at the target.
    """

    def __init__(self, inner: NativeGenerator, onlooker: Onlooker) -> None:
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

    def refuses(self, workload: Workload, mode: Mode) -> str:
        """Implement ``LoadGenerator.refuses``."""
        return self._inner.refuses(workload, mode)

    def stalls(self, duration_s: float) -> Mapping[str, Any]:
        """See ``WatchesStalls.stalls``: of the generator's cores."""
        return self._inner.stalls(duration_s)

    def run(self, plan: WindowPlan, after: Callable[[RawWindow], Next]) -> None:
        """Implement ``LoadGenerator.run``."""

        def complete(window: RawWindow) -> Next:
            answer = after(self._onlooker.completed(window))
            self._onlooker.go_on()
            return answer

        self._onlooker.begin(plan)
        self._inner.run(plan, complete)
