"""A shared record for several workers, each with its own host.

The storage assigns Optuna's numbers one by one, and they resolve conflicts: of two workers with the
same claim, the lower number wins. A block is a lease (``tuner.store.lease``), renewed while its
windows arrive. A worker that finds an abandoned block ends it; from then on the storage refuses
writes of its former holder. ``tuner.store.host_part`` describes the layout.
"""

from __future__ import annotations

import functools
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from tuner.errors import ClaimedError, StoreError
from tuner.goals.goals import Goals
from tuner.judge.scoring import figures_of
from tuner.measurement.window import Measurement
from tuner.record.model import Block, ConfigurationRecord, Figures, Record, StudyHost, TrialOrigin
from tuner.space.configuration import Configuration
from tuner.store.attributes import StoredTrial
from tuner.store.decode import (
    HOST,
    Header,
    SearchFigureCache,
    in_order,
    read_host,
    read_record,
    shared_trials,
)
from tuner.store.host_part import (
    BEGUN,
    ENDED,
    RENEWED,
    WINDOW,
    BegunTrial,
    BlockEnd,
    BlockStart,
    HostPart,
    SharedBlock,
    last_s,
    number_of,
    read_shared,
    texts_in,
    windows_in,
)
from tuner.store.lease import Lease, LeaseWatch
from tuner.store.optuna_storage import StudyTrials, unless_ended
from tuner.store.storage import writes

if TYPE_CHECKING:
    import optuna

LEASE_S = 120.0
"""Minimum lease of a block without a sign of life; a deployment may take this long."""
ORPHAN_S = 30.0
"""Grace period before taking over another worker's trial that no block measures."""
_RENEWALS = 6
"""Renewals in a lease's time; fewer than windows, to save writes."""


@dataclass(slots=True)
class _OpenBlock:
    """A block that this worker is measuring."""

    trial_id: int
    place: int
    """Index of its windows in the host's part."""
    begun: BlockStart
    renewed_s: float
    windows: list[Measurement] = field(default_factory=list)


class Sharing:
    """A worker's view of the others; without a host until it joins.

    Args:
        storage: Optuna's.
        search: Optuna's study of the configurations.
        blocks: Optuna's study of the blocks.
        goals: goals of the study, which determine the shared figures of a block.
    """

    def __init__(
        self, storage: Any, search: optuna.Study, blocks: optuna.Study, goals: Callable[[], Goals]
    ) -> None:
        self._storage = storage
        self._search = search
        self._blocks = blocks
        self._block_trials = StudyTrials(storage, blocks.study_name)
        self._goals = functools.cache(goals)
        self._watch = LeaseWatch()
        self._orphans = LeaseWatch()
        self._token = uuid.uuid4().hex
        self._parts: dict[str, HostPart] = {}
        self._seen: list[StoredTrial] = []
        self._ended: dict[int, SharedBlock | None] = {}
        self._open: dict[int, _OpenBlock] = {}
        self._chosen: dict[int, BegunTrial] = {}
        self._texts: dict[str, ConfigurationRecord] = {}
        self.host = ""
        """This worker's host; empty until it joins."""
        self.pause: Callable[[], None] = functools.partial(time.sleep, 2.0)
        """Wait for other workers."""

    @writes
    def join(
        self,
        host: StudyHost,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[], None] | None = None,
    ) -> None:
        """Join as the worker of one host; a former worker of that host loses access.

        Args:
            host: facts of the host; earlier results stay in the record.
            clock: clock for the leases of others.
            pause: see ``pause``.
        """
        self.host = host.name
        self._watch, self._orphans = LeaseWatch(clock), LeaseWatch(clock)
        self.pause = pause or self.pause
        facts = msgspec.to_builtins(host)
        for learnt in ("calibration", "protocol", "ended_unix_s", "code"):
            del facts[learnt]
        self.own.keep("facts", facts)
        self.own.keep("worker", self._token)
        # Last, because readers of the record look for the hosts in this list.
        self._search.set_user_attr(HOST + host.name, host.joined_unix_s)

    def part(self, host: str) -> HostPart:
        """Return the part of one host."""
        if host not in self._parts:
            self._parts[host] = HostPart(
                self._storage, self._search.study_name, host, own=host == self.host
            )
        return self._parts[host]

    @property
    def own(self) -> HostPart:
        """The part of this worker's host."""
        return self.part(self.host)

    def check_worker(self) -> None:
        """Check that this worker still owns its host.

        Raises:
            StoreError: another worker for the host has begun.
        """
        if self.host and self.own.attrs.get("worker") != self._token:
            raise StoreError(
                f"another worker for the host {self.host!r} has begun, so this one ends: two would"
                " disturb each other's windows"
            )

    @writes
    def choose(self, digests: Sequence[str]) -> tuple[str, ...]:
        """Fix the configurations to confirm on all hosts; return the final choice.

        Concurrent choices agree, because both come from the same finished search.
        """
        if not self.host:
            return tuple(digests)
        if "chosen" not in self._search.user_attrs:
            self._search.set_user_attr("chosen", list(digests))
        return tuple(self._search.user_attrs["chosen"])

    @writes
    def end_search(self) -> None:
        """Signal the end of the search to other workers, which then begin no further block."""
        if self.host and "search_ended" not in self._search.user_attrs:
            self._search.set_user_attr("search_ended", self.host)

    # --- blocks and trials of several hosts ---------------------------------------------------

    def open_trial(self, configuration: Configuration, origin: TrialOrigin) -> int:
        """Register a configuration to try; its first block writes it to the storage."""
        number = number_of(configuration.digest)
        self._chosen[number] = BegunTrial(
            configuration.space, configuration.digest, configuration.values, origin
        )
        return number

    def add_text(self, text: ConfigurationRecord) -> None:
        """Keep the text of a configuration until its first block."""
        self._texts[text.digest] = text

    def open_block(self, begun: BlockStart) -> int:
        """Begin a block of this host; return its number.

        Raises:
            ClaimedError: another worker claimed one of its trials first.
        """
        trials = {i.trial for i in begun.instances if i.trial is not None}
        first = tuple(self._chosen[number] for number in sorted(trials & self._chosen.keys()))
        begun = replace(begun, trials=first)
        trial_id = self._block_trials.create({BEGUN: msgspec.to_builtins(begun)})
        running = self.running()
        mine = [f.number for f in running if _begun(f).get("mark") == begun.mark]
        number = min(mine)
        if len(mine) > 1:
            # It was written twice, because the first answer was lost.
            trial_id = self._block_trials.id_of(number)
            for again in sorted(mine)[1:]:
                self._end(self._block_trials.id_of(again), None)
        if any(f.number < number and trials_of(f) & trials for f in running):
            self._end(trial_id, None)
            raise ClaimedError(f"block {number}: another worker measures one of its trials")
        texts = [self._texts.pop(t.digest) for t in first if t.digest in self._texts]
        for known in first:
            del self._chosen[number_of(known.digest)]
        place = self.own.begin(number, texts)
        self._open[number] = _OpenBlock(trial_id, place, begun, self._watch.clock())
        return number

    def add_window(self, block: int, window: Measurement) -> None:
        """Store a window, and renew the block's lease periodically."""
        held = self._open[block]
        self.own.add_window(held.place, window)
        held.windows.append(window)
        now = self._watch.clock()
        if now - held.renewed_s >= held.begun.lease_s / _RENEWALS:
            held.renewed_s = now
            self._block_trials.set_attr(held.trial_id, RENEWED, len(held.windows))

    def close_block(self, block: int, ended: BlockEnd) -> None:
        """End a block of this host, with figures from its windows."""
        held = self._open.pop(block)
        shared = SharedBlock(block, running=True, begun=held.begun, ended=None)
        ended = replace(ended, figures=self._figures(shared, held.windows))
        self._block_trials.set_attr(held.trial_id, ENDED, msgspec.to_builtins(ended))
        self.own.close(held.place)
        self._end(held.trial_id, ended)

    def _figures(self, shared: SharedBlock, windows: Sequence[Measurement]) -> Figures:
        goals = self._goals()
        return figures_of(shared.block(windows), goals.objectives, goals.limits)

    def _end(self, trial_id: int, ended: BlockEnd | None) -> None:
        if ended is not None and ended.state == "complete":
            self._block_trials.end(trial_id, "complete", [ended.measured_share])
        else:
            self._block_trials.end(trial_id, "failed")

    def chosen(self) -> tuple[BegunTrial, ...]:
        """Configurations that this worker will try, without a block yet."""
        return tuple(self._chosen.values())

    # --- looking at the others ----------------------------------------------------------------

    def look(self) -> list[StoredTrial]:
        """Return all blocks from the storage."""
        trials = self._block_trials
        self._seen = trials.all_again() if self.host else trials.all()
        return self._seen

    def shared(self) -> list[SharedBlock]:
        """Return the shared blocks of the last look, in order; finished ones are read once."""
        found = []
        for stored in self._seen:
            if stored.number not in self._ended:
                read = read_shared(stored)
                if stored.finished:
                    self._ended[stored.number] = read
            else:
                read = self._ended[stored.number]
            if read is not None:
                found.append(read)
        return found

    def record(
        self,
        attrs: Mapping[str, Any],
        names: Sequence[str],
        alone: Sequence[Block],
        cache: SearchFigureCache,
    ) -> Record:
        """Return the record of several hosts as of the last look, for one host or for none.

        A worker reads only the figures of other workers' blocks.

        Args:
            attrs: of the search.
            names: names of the hosts to read.
            alone: blocks from before the first join.
            cache: see ``read_record``.
        """
        here, shared = self.host, self.shared()
        parts = {name: self.part(name) for name in names}
        # A search needs no windows, not even the worker's own.
        whole = {
            s.number
            for s in shared
            if not here or (s.begun.host == here and s.begun.phase != "search")
        }
        stored = {name: part.trials() for name, part in parts.items()}
        windows = {name: windows_in(trials, whole) for name, trials in stored.items()}
        hosts = {name: read_host(part.attrs) for name, part in parts.items()}
        hosts = dict(sorted(hosts.items(), key=lambda entry: (entry[1].joined_unix_s, entry[0])))
        over = "search_ended" in attrs and not any(
            s.running and s.begun.phase == "search" for s in shared
        )
        blocks = list(alone)
        for block in shared:
            read = block.number in whole
            own = windows[block.begun.host].get(block.number, []) if read else None
            blocks.append(block.block(own))
        header = msgspec.convert(attrs["header"], Header)
        chosen = self.chosen()
        trials = shared_trials(header.baseline, shared, chosen, here, over=over)
        blocks.sort(key=lambda block: block.number)
        record = read_record(attrs, trials, blocks, here, hosts, cache=cache)
        values = [*(t for s in shared for t in s.begun.trials), *chosen]
        configurations = {
            t.digest: ConfigurationRecord(t.space, t.digest, t.values, "") for t in values
        }
        if not here:
            for found in stored.values():
                configurations |= texts_in(found)
        record = replace(record, configurations={**configurations, **record.configurations})
        return record if here else in_order(record)

    @writes
    def reap(self, *, look: bool = True) -> list[str]:
        """End the blocks of other hosts with an expired lease.

        Their windows stay: finished rounds of a search count, and other workers may measure the
        rest.

        Args:
            look: whether to read the storage again.

        Returns:
            Descriptions of the actions.
        """
        if not self.host:
            return []
        others = {
            f.number: f for f in self.running(look=look) if _begun(f).get("host") != self.host
        }
        leases = {
            number: Lease(
                (len(stored.attrs), stored.attrs.get(RENEWED)),
                _begun(stored).get("lease_s", LEASE_S),
            )
            for number, stored in others.items()
        }
        return [self.abandon(others[number]) for number in sorted(self._watch.expired(leases))]

    def search_runs_elsewhere(self, *, look: bool = True) -> bool:
        """Return whether another host measures a block of the search now."""
        return bool(self.host) and any(
            _begun(stored).get("phase") == "search" and _begun(stored).get("host") != self.host
            for stored in self.running(look=look)
        )

    def orphans(self, record: Record) -> set[int]:
        """Return begun trials that no worker measures, which this one may take.

        They are this host's own, those in a block of a dead worker, and after a grace period those
        of other hosts, because a worker repeats its own invalid blocks.
        """
        cut = {i.trial for b in record.blocks if b.reason == "interrupted" for i in b.instances}
        begun = [
            t
            for t in record.trials
            if t.state == "racing" and not t.losses and t.number not in record.busy
        ]
        own = {t.number for t in begun if t.host == self.host or t.number in cut}
        others = {t.number: Lease("begun", ORPHAN_S) for t in begun if t.number not in own}
        return own | self._orphans.expired(others)

    def running(self, *, look: bool = True) -> list[StoredTrial]:
        """Return the blocks that have not ended."""
        return [f for f in (self.look() if look else self._seen) if not f.finished]

    def abandon(self, stored: StoredTrial) -> str:
        """End a block of a dead worker; return a description."""
        shared = read_shared(stored)
        if shared is not None:
            return self._abandon_shared(shared)
        import optuna

        attrs = stored.attrs
        with unless_ended():
            if attrs.get("state") == "complete":
                self._blocks.tell(stored.number, attrs["measured_share"], skip_if_finished=True)
                return f"block {stored.number} was complete, which is now noted"
            failed = optuna.trial.TrialState.FAIL
            self._blocks.tell(stored.number, state=failed, skip_if_finished=True)
        return _cut_short(stored.number, "", sum(key.startswith(WINDOW) for key in attrs))

    def _abandon_shared(self, shared: SharedBlock) -> str:
        number, host = shared.number, shared.begun.host
        of = f" of {host}" if host != self.host else ""
        # First, so that the count below is final.
        windows = self.part(host).shut(number)
        trial_id = self._block_trials.id_of(number)
        if shared.ended is not None:
            self._end(trial_id, shared.ended)
            if shared.ended.state == "complete":
                return f"block {number}{of} was complete, which is now noted"
            return _cut_short(number, of, len(windows))
        ended = BlockEnd(
            state="failed",
            reason="interrupted",
            measured_share=0.0,
            ended_unix_s=last_s(shared.begun, windows),
            instances=shared.begun.instances,
            figures=self._figures(shared, windows),
        )
        with unless_ended():
            self._block_trials.set_attr(trial_id, ENDED, msgspec.to_builtins(ended))
        self._end(trial_id, ended)
        return _cut_short(number, of, len(windows))


def _cut_short(number: int, of: str, windows: int) -> str:
    return f"block {number}{of} was interrupted; its {windows} windows are kept"


def _begun(stored: StoredTrial) -> Mapping[str, Any]:
    """Return the start of a block, shared or not."""
    found: Mapping[str, Any] = stored.attrs.get(BEGUN, stored.attrs)
    return found


def host_of(block: StoredTrial) -> str:
    """Return the host of a block; empty for a single host."""
    found: str = _begun(block).get("host", "")
    return found


def trials_of(block: StoredTrial) -> set[int]:
    """Return the numbers of a block's trials."""
    return {i["trial"] for i in _begun(block)["instances"] if i["trial"] is not None}
