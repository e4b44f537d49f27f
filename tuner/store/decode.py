"""Decoding of Optuna's trials and attributes into the record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from tuner.goals.goals import Goals, goals_of
from tuner.judge.ranking import pooled_all
from tuner.judge.scoring import figures_of, trial_excess, trial_losses
from tuner.measurement.window import Measurement
from tuner.record.contenders import Contest
from tuner.record.model import (
    SCHEMA_VERSION,
    AblationProtocol,
    Applied,
    Block,
    BlockInstance,
    BlockState,
    Calibration,
    ConfigurationRecord,
    Figures,
    Original,
    Protocol,
    Record,
    RecordSignatures,
    StudyHost,
    StudyStart,
    Trial,
    TrialState,
)
from tuner.store.attributes import StoredTrial
from tuner.store.host_part import CONFIGURATION, WINDOW, BegunTrial, SharedBlock, number_of

_T = TypeVar("_T")
HOST = "host:"
"""Attribute prefix of hosts in a shared search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header(StudyStart):
    """The header of a record."""

    objective: str
    home: str = ""
    """Name of the host that began the record; empty for a single host."""


class SearchFigureCache:
    """Cache of per-block search figures and of configurations, each decoded once.

    The record is read before every block; finished blocks and configurations never change.
    """

    def __init__(self) -> None:
        self._kept: dict[int, Figures] = {}
        self._configurations: dict[str, ConfigurationRecord] = {}

    def configuration(self, key: str, value: object) -> ConfigurationRecord:
        """Return the configuration of a study's attribute."""
        found = self._configurations.get(key)
        if found is None:
            found = self._configurations[key] = msgspec.convert(value, ConfigurationRecord)
        return found

    def of(self, blocks: Sequence[Block], goals: Goals) -> list[Block]:
        """Return the blocks of the search, each with its figures."""
        return [
            block if block.figures else replace(block, figures=self._figures(block, goals))
            for block in blocks
            if block.phase == "search"
        ]

    def _figures(self, block: Block, goals: Goals) -> Figures:
        found = self._kept.get(block.number)
        if found is None:
            found = figures_of(block, goals.objectives, goals.limits)
            if block.state != "running":
                self._kept[block.number] = found
        return found


def read_record(
    attrs: Mapping[str, Any],
    trials: Sequence[Trial],
    blocks: Sequence[Block],
    here: str,
    hosts: Mapping[str, StudyHost],
    *,
    cache: SearchFigureCache,
) -> Record:
    """Return the whole record.

    Args:
        attrs: attributes of the search.
        trials: trials in their order, without figures.
        blocks: blocks of all hosts.
        here: the host to read for: the record has its calibration, its protocol, and the other
            blocks that it measured. Empty: no particular host.
        hosts: hosts of a shared record that were read.
        cache: figures of the blocks from earlier reading.
    """
    header = msgspec.convert(attrs["header"], Header)
    goals = goals_of(header.definition)
    own = hosts.get(here or _home(header, hosts))
    place = own or header
    if here:
        blocks = [b for b in blocks if b.phase == "search" or b.host == here]
    search = cache.of(blocks, goals)
    losses = trial_losses(search, goals.first)
    second = trial_losses(search, goals.second) if goals.second else {}
    calibration = own.calibration if own else maybe(attrs.get("calibration"), Calibration)
    effects = [found.effects for found in pooled_all(search, goals, calibration)]
    excess = {limit.text: trial_excess(search, limit) for limit in goals.limits}
    return Record(
        schema_version=SCHEMA_VERSION,
        name=header.name,
        definition=header.definition,
        tuner_version=header.tuner_version,
        command=header.command,
        generator=place.generator,
        host=place.host,
        server=place.server,
        cores=place.cores,
        notes=place.notes,
        started_unix_s=header.started_unix_s,
        ended_unix_s=own.ended_unix_s if own else attrs.get("ended_unix_s"),
        baseline=header.baseline,
        configurations={
            key.removeprefix(CONFIGURATION): cache.configuration(key, value)
            for key, value in attrs.items()
            if key.startswith(CONFIGURATION)
        },
        calibration=calibration,
        trials=tuple(
            replace(
                trial,
                losses=losses.get(trial.number, {}),
                second=second.get(trial.number, {}),
                excess={text: found.get(trial.number, {}) for text, found in excess.items()},
                effects=tuple(found[trial.number] for found in effects if trial.number in found),
            )
            for trial in trials
        ),
        blocks=tuple(blocks),
        protocol=own.protocol if own else maybe(attrs.get("protocol"), Protocol),
        importance=attrs.get("importance", {}),
        ablation=maybe(attrs.get("ablation"), AblationProtocol),
        original=maybe(attrs.get("original"), Original),
        applied=msgspec.convert(attrs.get("applied", []), tuple[Applied, ...]),
        instrument=header.instrument,
        hosts=hosts,
        here=here,
        chosen=tuple(attrs.get("chosen", ())),
        search_ended="search_ended" in attrs,
        contest=maybe(attrs.get("contest"), Contest),
        asked=header.asked,
        signed=maybe(attrs.get("signed"), RecordSignatures) or RecordSignatures(),
        code=own.code if own else attrs.get("code", {}),
    )


def maybe(value: object, kind: type[_T]) -> _T | None:
    """Return an optional part of the record."""
    return None if value is None else msgspec.convert(value, kind)


def read_host(attrs: Mapping[str, Any]) -> StudyHost:
    """Return one of several hosts, from its own attributes."""
    return replace(
        msgspec.convert(attrs["facts"], StudyHost),
        calibration=maybe(attrs.get("calibration"), Calibration),
        protocol=maybe(attrs.get("protocol"), Protocol),
        ended_unix_s=attrs.get("ended_unix_s"),
        code=attrs.get("code", {}),
    )


def _home(header: Header, hosts: Mapping[str, StudyHost]) -> str:
    """Return the representative host of the study: the first that began to confirm."""
    confirming = [name for name, host in hosts.items() if host.protocol]
    return header.home if header.home in confirming or not confirming else confirming[0]


def read_block(stored: StoredTrial) -> Block:
    """Return a block with its windows so far."""
    attrs = stored.attrs
    windows = [msgspec.convert(attrs[k], Measurement) for k in attrs if k.startswith(WINDOW)]
    interrupted = stored.finished and "state" not in attrs
    windows.sort(key=lambda window: window.started_unix_s)
    started = attrs["started_unix_s"]
    # An interrupted block ended with its last window: the pause until its resumption does not
    # count.
    last = windows[-1].started_unix_s + windows[-1].duration_s if windows else started
    ended = attrs.get("ended_unix_s", last)
    state: BlockState = "failed" if interrupted else attrs.get("state", "running")
    return Block(
        number=stored.number,
        phase=attrs["phase"],
        index=attrs["index"],
        seed=attrs["seed"],
        state=state,
        reason="interrupted" if interrupted else attrs.get("reason", ""),
        started_unix_s=started,
        ended_unix_s=ended,
        instances=tuple(msgspec.convert(i, BlockInstance) for i in attrs["instances"]),
        windows=tuple(windows),
        host=attrs.get("host", ""),
    )


def read_trials(trials: Iterable[StoredTrial]) -> list[Trial]:
    """Return the trials of one host alone, without their figures."""
    return [_trial(stored) for stored in trials if "digest" in stored.attrs]


def _trial(stored: StoredTrial) -> Trial:
    attrs = stored.attrs
    # A trial with an unfinished end, because the study was killed, is still open.
    ended = stored.finished
    return Trial(
        number=stored.number,
        digest=attrs["digest"],
        origin=attrs["origin"],
        state=attrs["state"] if ended else "racing",
        losses={},
        message=attrs["message"] if ended else "",
    )


# --- several hosts ------------------------------------------------------------------------------


def shared_trials(
    baseline: str,
    shared: Sequence[SharedBlock],
    chosen: Sequence[BegunTrial],
    here: str,
    *,
    over: bool,
) -> list[Trial]:
    """Return the trials in the blocks of several hosts, without figures.

    Args:
        baseline: digest of the baseline, the first trial.
        shared: blocks in their order.
        chosen: configurations that this worker will try, without a block yet.
        here: host of this worker.
        over: whether the search has ended and none of its blocks runs.
    """
    begun = [(s.begun.host, trial) for s in shared for trial in s.begun.trials]
    begun += [(here, trial) for trial in chosen]
    ends: dict[str, tuple[TrialState, str]] = {}
    looked: set[str] = set()
    for block in shared:
        for digest, end in _ends(block):
            ends.setdefault(digest, end)
        figures = block.ended.figures if block.ended else None
        looked |= {
            i.digest
            for i in block.begun.instances
            if figures and any(i.instance in losses for losses in figures.losses.values())
        }
    known = "the baseline itself"
    found = {baseline: Trial(number_of(baseline), baseline, "baseline", "complete", {}, known)}
    for host, trial in begun:
        left: tuple[TrialState, str] = ("racing", "")
        if over:
            unseen: tuple[TrialState, str] = ("infeasible", "no valid window")
            left = ("complete", "") if trial.digest in looked else unseen
        state, words = ends.get(trial.digest, left)
        number = number_of(trial.digest)
        made = Trial(number, trial.digest, trial.origin, state, {}, words, host=host)
        found.setdefault(trial.digest, made)
    return list(found.values())


def _ends(block: SharedBlock) -> Iterator[tuple[str, tuple[TrialState, str]]]:
    """Yield digests of configurations that a block eliminates, with the reason."""
    ended = block.ended
    if ended is None or ended.state != "complete" or block.begun.phase != "search":
        return
    for instance in ended.instances:
        if instance.trial is None:
            continue
        if instance.state == "refused" or instance.instance in ended.figures.bad:
            yield instance.digest, ("infeasible", instance.message)
        elif instance.state == "dropped":
            yield instance.digest, ("dropped", instance.message)


def in_order(record: Record) -> Record:
    """Return the record with its trials numbered from 0, as a report shows them."""
    places = {trial.number: place for place, trial in enumerate(record.trials)}
    return replace(
        record,
        trials=tuple(replace(t, number=places[t.number]) for t in record.trials),
        blocks=tuple(
            replace(
                block,
                instances=tuple(
                    i if i.trial is None else replace(i, trial=places[i.trial])
                    for i in block.instances
                ),
            )
            for block in record.blocks
        ),
    )
