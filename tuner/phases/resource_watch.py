"""Resource use of a window, from the kernel's counters in the gaps around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tuner.generators.generator import LoadGenerator, ShowsProcesses, WindowPlan
from tuner.measurement.readings import CounterReading
from tuner.measurement.resources import Resources, between, part_of


class ReadCounters(Protocol):
    """Reads the counters of processes and of the target."""

    def __call__(self, pids: Sequence[int], behind: Sequence[int]) -> CounterReading:
        """Return counters of processes on the target, and of the backend's on its host."""
        ...


class ResourceWatch:
    """A reader of counters before the first window and on both sides of every gap.

    It reads twice in each gap, so that tuner's own work there (writing the record) belongs to no
    window.

    Args:
        read: reader of the counters; None if unreadable, without reports.
        generator: the generator; its processes are included if it lists them.
        backend: process ids of the workload's backend.
    """

    def __init__(
        self, read: ReadCounters | None, generator: LoadGenerator, backend: Sequence[int]
    ) -> None:
        self._read = read
        self._generator = generator
        self._backend = tuple(backend)
        self._servers: dict[str, tuple[int, ...]] = {}
        self._loaded_s: dict[str, float] = {}
        self._shared: dict[str, frozenset[str]] = {}
        """Parts of the window that instances share, by each of its parts."""
        self._open: frozenset[str] = frozenset()
        """Parts of the shared window just measured that have not been read yet."""
        self._before: CounterReading | None = None
        self._behind: CounterReading | None = None
        self._seen: frozenset[int] = frozenset()
        """Readable processes before the first window."""

    def begin(self, plan: WindowPlan) -> None:
        """Read before the first window of a plan."""
        self._servers = {endpoint.instance: endpoint.pids for endpoint in plan.endpoints}
        parts = [(w, w.id_of(label)) for w in plan.windows for label in w.instances]
        self._loaded_s = {part: w.warmup_s + w.duration_s for w, part in parts}
        whole = {w.window_id: frozenset(map(w.id_of, w.instances)) for w in plan.windows}
        self._shared = {part: whole[w.window_id] for w, part in parts if w.slices}
        self._open = frozenset()
        self.go_on()
        self._seen = frozenset(self._before.processes if self._before else ())

    def go_on(self) -> None:
        """Read right before the next window; all parts of a shared one have the same readings."""
        if self._read is not None and not self._open:
            pids = [pid for pids in self._servers.values() for pid in pids]
            self._before = self._read([*pids, *self._generating()], self._backend)

    def end(self, window_id: str, instance: str) -> Resources | None:
        """Read right after a window; return None if nothing is readable."""
        if self._read is None or self._before is None:
            return None
        groups = {
            "server": self._servers.get(instance, ()),
            "backend": self._backend,
            "generator": self._generating(),
        }
        parts = self._shared.get(window_id, frozenset())
        if window_id not in self._open or self._behind is None:
            servers = self._servers.values() if parts else [groups["server"]]
            pids = [pid for pids in servers for pid in pids]
            self._behind = self._read([*pids, *groups["generator"]], self._backend)
            self._open = parts
        self._open -= {window_id}
        loaded_s = self._loaded_s.get(window_id, 0.0)
        whole = between(self._before, self._behind, groups, loaded_s=loaded_s)
        return part_of(whole, len(parts)) if parts else whole

    def ended(self, instance: str) -> tuple[int, ...]:
        """Return the processes of an instance that ended in the last window, the main one first.

        The main process is also included in later windows. A child is not, because another replaces
        it.
        """
        if self._before is None or self._behind is None:
            return ()
        main, *children = self._servers.get(instance, ()) or (0,)
        before, after = self._before.processes, self._behind.processes
        ended = [pid for pid in children if pid in before and pid not in after]
        return (main, *ended) if main in self._seen and main not in after else tuple(ended)

    def is_dead(self, instance: str) -> bool:
        """Return whether the main process of an instance is gone."""
        main = self._servers.get(instance, ())[:1]
        return bool(main) and self.ended(instance)[:1] == main

    def _generating(self) -> tuple[int, ...]:
        shown = self._generator
        return shown.pids if isinstance(shown, ShowsProcesses) else ()
