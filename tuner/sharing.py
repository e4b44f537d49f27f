"""One record, several workers, each for a host of its own.

Whatever two workers begin at once is decided by Optuna's numbers, which the storage gives out one
by one: of two that claim the same, the lower number has it. A block is a lease (``tuner.lease``),
renewed by every window that is written, so that nothing is written for its sake alone. Who finds
one abandoned ends it; from then on the storage itself refuses what its former holder writes.
"""

from __future__ import annotations

import contextlib
import functools
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tuner.errors import StoreError
from tuner.lease import Lease, Watch
from tuner.record import Record, StudyHost
from tuner.storage import writes
from tuner.stored import HOST, WINDOW, at

if TYPE_CHECKING:
    import optuna

LEASE_S = 120.0
"""Least time for which a block is its worker's without a sign of life: a deployment may take it."""
ORPHAN_S = 30.0
"""So long a trial that another worker began, and that no block measures, is left to that worker."""


class Sharing:
    """What a worker knows and does of the others; alone until it has joined.

    Args:
        search: Optuna's study of the configurations.
        blocks: that of the blocks.
    """

    def __init__(self, search: optuna.Study, blocks: optuna.Study) -> None:
        self._search = search
        self._blocks = blocks
        self._watch = Watch()
        self._orphans = Watch()
        self._token = uuid.uuid4().hex
        self.host = ""
        """The host that this worker measures on; empty while it is alone."""
        self.pause: Callable[[], None] = functools.partial(time.sleep, 2.0)
        """Waits a while for the others."""

    @writes
    def join(
        self,
        host: StudyHost,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[], None] | None = None,
    ) -> None:
        """Measure on one of several hosts from here on; a former worker of it is shut out.

        Args:
            host: its facts; what was learnt of it earlier stays in the record.
            clock: by which the leases of others run out.
            pause: see ``pause``.
        """
        self.host = host.name
        self._watch, self._orphans = Watch(clock), Watch(clock)
        self.pause = pause or self.pause
        facts = msgspec.to_builtins(host)
        for learnt in ("calibration", "protocol", "ended_unix_s"):
            del facts[learnt]
        self._search.set_user_attr(HOST + host.name, facts)
        self._search.set_user_attr(at("worker", host.name), self._token)

    def check_worker(self) -> None:
        """See that this host is still this worker's.

        Raises:
            StoreError: another worker for it has begun since.
        """
        if self.host and self._search.user_attrs.get(at("worker", self.host)) != self._token:
            raise StoreError(
                f"another worker for the host {self.host!r} has begun, so this one ends: two would"
                " disturb each other's windows"
            )

    @writes
    def choose(self, digests: Sequence[str]) -> tuple[str, ...]:
        """Fix what all hosts confirm; the choice that stands, which may be another worker's.

        Two that choose at once choose alike: both from a search in which nothing runs any more.
        """
        if not self.host:
            return tuple(digests)
        if "chosen" not in self._search.user_attrs:
            self._search.set_user_attr("chosen", list(digests))
        return tuple(self._search.user_attrs["chosen"])

    @writes
    def end_search(self) -> None:
        """Say to the other workers that the search's time is over: they begin no further block."""
        if self.host and "search_ended" not in self._search.user_attrs:
            self._search.set_user_attr("search_ended", self.host)

    @writes
    def reap(self) -> list[str]:
        """End the blocks of other hosts whose lease ran out.

        Their windows are kept: finished rounds of a search count, and whatever was not measured
        is free to be measured by another worker.

        Returns:
            What was done, in words.
        """
        if not self.host:
            return []
        others = {f.number: f for f in self.running() if f.user_attrs.get("host") != self.host}
        leases = {
            number: Lease(len(frozen.user_attrs), frozen.user_attrs.get("lease_s", LEASE_S))
            for number, frozen in others.items()
        }
        return [self.abandon(others[number]) for number in sorted(self._watch.expired(leases))]

    def search_runs_elsewhere(self) -> bool:
        """Whether another host measures a block of the search now."""
        return bool(self.host) and any(
            frozen.user_attrs.get("phase") == "search"
            and frozen.user_attrs.get("host") != self.host
            for frozen in self.running()
        )

    def orphans(self, record: Record) -> set[int]:
        """Trials that were begun and that nobody measures: free to be measured here.

        Those that this host began, and those of other hosts that have been so for a while.
        """
        begun = [
            t
            for t in record.trials
            if t.state == "racing" and not t.losses and t.number not in record.busy
        ]
        own = {trial.number for trial in begun if trial.host == self.host}
        others = {t.number: Lease("begun", ORPHAN_S) for t in begun if t.number not in own}
        return own | self._orphans.expired(others)

    def running(self) -> list[optuna.trial.FrozenTrial]:
        """The blocks that have not ended."""
        import optuna

        states = (optuna.trial.TrialState.RUNNING,)
        return self._blocks.get_trials(deepcopy=False, states=states)

    def contested(self, number: int, trials: Collection[int]) -> bool:
        """Whether a block that was begun earlier measures one of these trials."""
        if not self.host or not trials:
            return False
        return any(
            frozen.number < number and trials_of(frozen) & set(trials) for frozen in self.running()
        )

    def abandon(self, frozen: optuna.trial.FrozenTrial) -> str:
        """End a block whose worker is gone; in words what became of it."""
        import optuna

        attrs: dict[str, Any] = frozen.user_attrs
        host = attrs.get("host", "")
        of = f" of {host}" if host != self.host else ""
        with unless_ended():
            if attrs.get("state") == "complete":
                self._blocks.tell(frozen.number, attrs["measured_share"], skip_if_finished=True)
                return f"block {frozen.number}{of} was complete, which is now noted"
            failed = optuna.trial.TrialState.FAIL
            self._blocks.tell(frozen.number, state=failed, skip_if_finished=True)
        windows = sum(key.startswith(WINDOW) for key in attrs)
        return f"block {frozen.number}{of} had been cut short; its {windows} windows are kept"


@contextlib.contextmanager
def unless_ended() -> Iterator[None]:
    """What another worker has ended already, or ends at this moment, stays as it is."""
    import optuna

    with contextlib.suppress(optuna.exceptions.UpdateFinishedTrialError):
        yield


def trials_of(block: optuna.trial.FrozenTrial) -> set[int]:
    """Numbers of the trials that a block measures."""
    return {i["trial"] for i in block.user_attrs["instances"] if i["trial"] is not None}
