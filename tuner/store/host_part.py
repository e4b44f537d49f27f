"""Layout of a shared record: the common part, and the part of each host.

``NAME/blocks`` has a trial for every block of all hosts, with two attributes: its start, with the
configurations that it is the first to try, and its end, with the figures for the search.
``NAME/on/HOST`` has another trial with the block's windows, one attribute each, written as they
end. The host's facts, calibration and protocol are attributes of that study. Only its own host and
readers of the whole record read it: every worker reads every block of the common part, and the
windows are a hundred times larger than what a search needs.

A trial is only its configuration, which determines its number: two workers with the same proposal
at the same time mean the same trial, without a request to the storage.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tuner.measurement.window import Measurement
from tuner.record.model import (
    Block,
    BlockInstance,
    BlockState,
    ConfigurationRecord,
    Figures,
    Phase,
    TrialOrigin,
)
from tuner.space.configuration import Value
from tuner.store.attributes import StoredTrial
from tuner.store.optuna_storage import StudyTrials

BEGUN, ENDED, RENEWED = "begun", "ended", "renewed"
"""Attributes of a shared block; the last is a recent number of its windows."""
CONFIGURATION = "configuration:"
WINDOW = "window:"
_BLOCK = "block"


@dataclass(frozen=True, slots=True)
class BegunTrial:
    """A configuration with the block that first tries it."""

    space: str
    digest: str
    values: Mapping[str, Value]
    origin: TrialOrigin


@dataclass(frozen=True, slots=True)
class BlockStart:
    """The start of a block."""

    phase: Phase
    index: int
    seed: int
    started_unix_s: float
    host: str
    lease_s: float
    instances: tuple[BlockInstance, ...]
    trials: tuple[BegunTrial, ...]
    mark: str
    """Unique mark that identifies a block written twice after a lost answer."""


@dataclass(frozen=True, slots=True)
class BlockEnd:
    """The end of a block."""

    state: BlockState
    reason: str
    measured_share: float
    ended_unix_s: float
    instances: tuple[BlockInstance, ...]
    figures: Figures = field(default_factory=Figures)
    """Figures of a shared block; for a single host they follow from its windows."""


@dataclass(frozen=True, slots=True)
class SharedBlock:
    """A shared block, with the part that all workers read."""

    number: int
    running: bool
    begun: BlockStart
    ended: BlockEnd | None

    def block(self, windows: Sequence[Measurement] | None) -> Block:
        """Return the block for the record, with its windows or with its figures alone."""
        begun, ended = self.begun, self.ended
        state: BlockState = ended.state if ended else "running" if self.running else "failed"
        return Block(
            number=self.number,
            phase=begun.phase,
            index=begun.index,
            seed=begun.seed,
            state=state,
            reason=ended.reason if ended else "" if self.running else "interrupted",
            started_unix_s=begun.started_unix_s,
            ended_unix_s=ended.ended_unix_s if ended else last_s(begun, windows or ()),
            instances=ended.instances if ended else begun.instances,
            windows=tuple(sorted(windows or (), key=lambda w: w.started_unix_s)),
            host=begun.host,
            figures=ended.figures if ended and windows is None else None,
        )


def last_s(begun: BlockStart, windows: Iterable[Measurement]) -> float:
    """Return the end of the last window; the pause before a resumed block does not count."""
    return max(
        (w.started_unix_s + w.duration_s for w in windows),
        default=begun.started_unix_s,
    )


def number_of(digest: str) -> int:
    """Return a trial's number in a shared study, below 2**48."""
    return int(digest, 16)


def read_shared(stored: StoredTrial) -> SharedBlock | None:
    """Return a shared block; None for a withdrawn one, or one of a single host."""
    attrs = stored.attrs
    if BEGUN not in attrs:
        return None
    ended = attrs.get(ENDED)
    if ended is None and stored.finished:
        return None
    return SharedBlock(
        number=stored.number,
        running=not stored.finished,
        begun=msgspec.convert(attrs[BEGUN], BlockStart),
        ended=None if ended is None else msgspec.convert(ended, BlockEnd),
    )


class HostPart:
    """The part of one host in a record: its facts, and the windows of its blocks.

    Args:
        storage: Optuna's storage.
        study: name of the shared study.
        host: name of the host.
        own: whether it is the part of this worker's host, which is created if it is missing and
            read before every block; otherwise raise KeyError.
    """

    def __init__(self, storage: Any, study: str, host: str, *, own: bool) -> None:
        self.host = host
        self._trials = StudyTrials(storage, f"{study}/on/{host}", begin=own)
        self.trials = self._trials.all_again if own else self._trials.all
        """Read the trials of the part."""

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes of the host."""
        return self._trials.attrs

    def keep(self, key: str, value: object) -> None:
        """Store an attribute of the host."""
        self._trials.keep(key, value)

    def begin(self, block: int, texts: Iterable[ConfigurationRecord]) -> int:
        """Create the trial for a block's windows; return its index.

        Args:
            block: number of the block.
            texts: texts of the configurations that it is the first to try.
        """
        attrs = {CONFIGURATION + text.digest: msgspec.to_builtins(text) for text in texts}
        return self._trials.create({_BLOCK: block, **attrs})

    def add_window(self, place: int, window: Measurement) -> None:
        """Store a window; raise UpdateFinishedTrialError if another worker ended the block."""
        self._trials.set_attr(place, WINDOW + window.window_id, msgspec.to_builtins(window))

    def close(self, place: int) -> None:
        """Close a block; the storage refuses further windows."""
        self._trials.end(place, "complete", [0.0])

    def shut(self, block: int) -> list[Measurement]:
        """Close a block by its number; return its windows."""
        for stored in self.trials():
            if stored.attrs[_BLOCK] == block and not stored.finished:
                self.close(self._trials.id_of(stored.number))
        return windows_in(self.trials(), {block}).get(block, [])


def windows_in(
    trials: Iterable[StoredTrial], blocks: Container[int]
) -> dict[int, list[Measurement]]:
    """Return the windows of some blocks in a host's part, by block."""
    return {
        block: [msgspec.convert(value, Measurement) for value in found.values()]
        for block, found in _attrs(trials, WINDOW, blocks).items()
    }


def texts_in(trials: Iterable[StoredTrial]) -> dict[str, ConfigurationRecord]:
    """Return texts of the configurations that a host's blocks first tried, by digest."""
    return {
        key.removeprefix(CONFIGURATION): msgspec.convert(value, ConfigurationRecord)
        for found in _attrs(trials, CONFIGURATION).values()
        for key, value in found.items()
    }


def _attrs(
    trials: Iterable[StoredTrial], prefix: str, blocks: Container[int] | None = None
) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for stored in trials:
        block = stored.attrs[_BLOCK]
        if blocks is None or block in blocks:
            attrs = {key: stored.attrs[key] for key in stored.attrs if key.startswith(prefix)}
            found.setdefault(block, {}).update(attrs)
    return found
