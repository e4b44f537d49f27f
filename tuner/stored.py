"""From Optuna's trials and attributes to the record: what the store wrote, read as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from tuner.contenders import Contest
from tuner.facts import CoreSplit, HostFacts, ServerFacts
from tuner.goals import goals_of
from tuner.instrument import NATIVE, Instrument
from tuner.measurement import Measurement
from tuner.record import (
    AblationProtocol,
    Applied,
    Block,
    BlockInstance,
    BlockState,
    Calibration,
    ConfigurationRecord,
    Original,
    Protocol,
    Record,
    StudyHost,
    Trial,
)
from tuner.scoring import trial_excess, trial_losses
from tuner.standing import pooled_all

if TYPE_CHECKING:
    import optuna

_T = TypeVar("_T")
CONFIGURATION = "configuration:"
WINDOW = "window:"
HOST = "host:"
WITHDRAWN = "withdrawn"
"""Of a block that was begun and given up before anything ran: another worker was first."""


@dataclass(frozen=True, slots=True)
class Header:
    """What is known of a study when it starts."""

    name: str
    definition: Mapping[str, object]
    tuner_version: str
    command: str
    generator: str
    host: HostFacts
    server: ServerFacts
    cores: CoreSplit
    notes: tuple[str, ...]
    started_unix_s: float
    baseline: str
    objective: str
    instrument: Instrument = NATIVE
    home: str = ""
    """Name of the host whose worker began it; empty where one host measures alone."""
    asked: Mapping[str, object] = field(default_factory=dict)
    """As in ``Record``."""


def at(key: str, host: str) -> str:
    """The attribute's key for one of several hosts; the plain one where there is one only."""
    return f"{key}:{host}" if host else key


def read_record(
    attrs: Mapping[str, Any],
    trials: Sequence[optuna.trial.FrozenTrial],
    blocks: Sequence[Block],
    here: str,
) -> Record:
    """The whole record.

    Args:
        attrs: of the search.
        trials: of the search, in their order.
        blocks: of all hosts.
        here: the host as which it is read: calibration and protocol are its own, and of the
            blocks that are no search those that it measured. Empty: as nobody in particular.
    """
    header = msgspec.convert(attrs["header"], Header)
    goals = goals_of(header.definition)
    hosts = _hosts(attrs)
    seen_as = here or _home(header, hosts)
    own = hosts.get(seen_as)
    if here:
        blocks = [b for b in blocks if b.phase == "search" or b.host == here]
    losses = trial_losses(blocks, goals.first)
    second = trial_losses(blocks, goals.second) if goals.second else {}
    calibration = maybe(attrs.get(at("calibration", seen_as)), Calibration)
    effects = [found.effects for found in pooled_all(blocks, goals, calibration)]
    excess = {limit.text: trial_excess(blocks, limit) for limit in goals.limits}
    return Record(
        schema_version=attrs["schema_version"],
        name=header.name,
        definition=header.definition,
        tuner_version=header.tuner_version,
        command=header.command,
        generator=own.generator if own else header.generator,
        host=own.host if own else header.host,
        server=own.server if own else header.server,
        cores=own.cores if own else header.cores,
        notes=own.notes if own else header.notes,
        started_unix_s=header.started_unix_s,
        ended_unix_s=attrs.get(at("ended_unix_s", seen_as)),
        baseline=header.baseline,
        configurations={
            key.removeprefix(CONFIGURATION): msgspec.convert(value, ConfigurationRecord)
            for key, value in attrs.items()
            if key.startswith(CONFIGURATION)
        },
        calibration=calibration,
        trials=tuple(
            replace(
                _trial(frozen, losses.get(frozen.number, {})),
                second=second.get(frozen.number, {}),
                excess={text: found.get(frozen.number, {}) for text, found in excess.items()},
                effects=tuple(found[frozen.number] for found in effects if frozen.number in found),
            )
            for frozen in _first_of_each(trials)
        ),
        blocks=tuple(blocks),
        protocol=maybe(attrs.get(at("protocol", seen_as)), Protocol),
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
    )


def maybe(value: object, kind: type[_T]) -> _T | None:
    """A part of the record that may not be there yet."""
    return None if value is None else msgspec.convert(value, kind)


def _hosts(attrs: Mapping[str, Any]) -> dict[str, StudyHost]:
    found = {}
    for key, value in attrs.items():
        if key.startswith(HOST):
            name = key.removeprefix(HOST)
            found[name] = replace(
                msgspec.convert(value, StudyHost),
                calibration=maybe(attrs.get(at("calibration", name)), Calibration),
                protocol=maybe(attrs.get(at("protocol", name)), Protocol),
                ended_unix_s=attrs.get(at("ended_unix_s", name)),
            )
    return dict(sorted(found.items(), key=lambda entry: (entry[1].joined_unix_s, entry[0])))


def _home(header: Header, hosts: Mapping[str, StudyHost]) -> str:
    """The host that stands for the study where one must: the first that began to confirm."""
    confirming = [name for name, host in hosts.items() if host.protocol]
    return header.home if header.home in confirming or not confirming else confirming[0]


def _first_of_each(
    trials: Sequence[optuna.trial.FrozenTrial],
) -> list[optuna.trial.FrozenTrial]:
    """One trial by configuration: two workers may have proposed the same at the same time."""
    first: dict[str, optuna.trial.FrozenTrial] = {}
    for frozen in sorted(trials, key=lambda trial: trial.number):
        if "digest" in frozen.user_attrs:
            first.setdefault(frozen.user_attrs["digest"], frozen)
    return list(first.values())


def read_block(frozen: optuna.trial.FrozenTrial) -> Block:
    """A block with its windows, as far as it has come."""
    attrs = frozen.user_attrs
    windows = [msgspec.convert(v, Measurement) for k, v in attrs.items() if k.startswith(WINDOW)]
    interrupted = frozen.state.is_finished() and "state" not in attrs
    windows.sort(key=lambda window: window.started_unix_s)
    started = attrs["started_unix_s"]
    # What was cut short ended with its last window: the time until it was taken up again was not
    # spent on the study.
    last = windows[-1].started_unix_s + windows[-1].duration_s if windows else started
    ended = attrs.get("ended_unix_s", last)
    state: BlockState = "failed" if interrupted else attrs.get("state", "running")
    return Block(
        number=frozen.number,
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


def _trial(frozen: optuna.trial.FrozenTrial, losses: Mapping[int, float]) -> Trial:
    attrs = frozen.user_attrs
    # A trial whose end was under way when the study was killed has not ended.
    ended = frozen.state.is_finished()
    return Trial(
        number=frozen.number,
        digest=attrs["digest"],
        origin=attrs["origin"],
        state=attrs["state"] if ended else "racing",
        losses=losses,
        message=attrs["message"] if ended else "",
        host=attrs.get("host", ""),
    )
