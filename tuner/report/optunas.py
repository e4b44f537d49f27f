"""The trials of a study that several hosts share, as Optuna's own tools show others'.

With several hosts a trial is only its configuration (docs/scale.md), so the study's storage
holds none that Optuna would know. The record's view of them is laid out here in a storage of
this process's memory.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tuner.goals.goals import goals_of
from tuner.judge.ranking import mean_excess
from tuner.judge.scoring import mean_loss
from tuner.record.model import Record, Trial
from tuner.space.configuration import Value
from tuner.store.single_host import VALID_CONSTRAINT
from tuner.store.store import name_losses

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution


def in_memory(record: Record) -> Any:
    """Return a storage with one study, of the record's name, that holds its trials as they are now.

    They have the values, intermediate values (a block's each), constraints and attributes that a
    study of one host has. Parameters are those in which trials differ, between the ends that were
    tried.
    """
    import optuna

    storage = optuna.storages.InMemoryStorage()
    goals = goals_of(record.definition)
    study = optuna.create_study(
        storage=storage,
        study_name=record.name,
        sampler=optuna.samplers.RandomSampler(),
        directions=["minimize"] * len(goals.objectives),
    )
    name_losses(study, goals)
    trials = [trial for trial in record.trials if trial.digest in record.configurations]
    domains = _domains([record.configurations[trial.digest].values for trial in trials])
    for trial in trials:
        study.add_trial(_frozen(trial, record, domains, objectives=len(goals.objectives)))
    return storage


def _frozen(
    trial: Trial, record: Record, domains: Mapping[str, BaseDistribution], *, objectives: int
) -> optuna.trial.FrozenTrial:
    import optuna

    states = optuna.trial.TrialState
    configuration = record.configurations[trial.digest].values
    losses: Sequence[Mapping[int, float]] = (trial.losses, trial.second)
    if trial.origin == "baseline":
        # By definition: all others are relative to it.
        losses = ({0: 0.0}, {0: 0.0})
    values = [mean_loss(found) for found in losses[:objectives]]
    infeasible = trial.state == "infeasible"
    complete = not infeasible and all(map(math.isfinite, values))
    state = states.COMPLETE if complete else states.PRUNED
    if trial.state == "racing":
        state = states.RUNNING
    excess = {limit: mean_excess(trial, limit) for limit in trial.excess}
    params = {name: configuration[name] for name in domains if name in configuration}
    made = optuna.trial.create_trial(
        state=state,
        values=values if state is states.COMPLETE else None,
        params=params,
        distributions={name: domains[name] for name in params},
        # Optuna takes intermediate values of one objective only.
        intermediate_values=dict(losses[0]) if objectives == 1 else {},
        constraints={
            **{limit: value for limit, value in excess.items() if math.isfinite(value)},
            VALID_CONSTRAINT: 1.0 if infeasible else -1.0,
        },
        user_attrs={
            "digest": trial.digest,
            "origin": trial.origin,
            "configuration": dict(configuration),
            "state": trial.state,
            "message": trial.message,
            "host": trial.host,
        },
    )
    blocks = [block for block in record.blocks if block.number in trial.losses]
    if blocks:
        made.datetime_start = _moment(min(block.started_unix_s for block in blocks))
        if made.datetime_complete is not None:
            made.datetime_complete = _moment(max(block.ended_unix_s for block in blocks))
    return made


def _moment(unix_s: float) -> dt.datetime:
    # Optuna's times are local and say nothing of a zone.
    return dt.datetime.fromtimestamp(unix_s)  # noqa: DTZ006


def _domains(configurations: Sequence[Mapping[str, Value]]) -> dict[str, BaseDistribution]:
    """Return the domain of every parameter with more than one value."""
    seen: dict[str, list[Value]] = {}
    for values in configurations:
        for name, value in values.items():
            seen.setdefault(name, []).append(value)
    found = {name: _domain(values) for name, values in seen.items()}
    return {name: domain for name, domain in found.items() if domain is not None}


def _domain(values: Sequence[Value]) -> BaseDistribution | None:
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    different = list(dict.fromkeys(values))
    if len(different) < 2:
        return None
    numbers = [v for v in different if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) < len(different):
        return CategoricalDistribution(sorted(different, key=str))
    if all(isinstance(number, int) for number in numbers):
        return IntDistribution(int(min(numbers)), int(max(numbers)))
    return FloatDistribution(min(numbers), max(numbers))
