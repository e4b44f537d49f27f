"""Trials as samplers see them: figures of the record, and their form in a study of Optuna."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tuner.search.dimensions import dimensions_of
from tuner.space.configuration import Configuration, Value
from tuner.space.space import Space

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution


@dataclass(frozen=True, slots=True)
class MeasuredTrial:
    """A trial as the sampler sees it."""

    configuration: Configuration
    losses: tuple[float, ...] | None
    """Mean signed log ratio of each objective; None if infeasible."""
    looks: int = 1
    """Number of looks in each mean; 0 for the baseline and for infeasible trials."""
    excess: Mapping[str, float] = field(default_factory=dict)
    """Excess over each limit; above 0 the limit is broken, and the sampler avoids it."""


def as_optunas(
    seen: Sequence[MeasuredTrial], space: Space, allow: Collection[str]
) -> list[optuna.trial.FrozenTrial]:
    """Return trials as frozen Optuna trials with their parameters."""
    return [frozen_trial(trial, space, allow) for trial in seen]


def frozen_trial(
    trial: MeasuredTrial, space: Space, allow: Collection[str]
) -> optuna.trial.FrozenTrial:
    """Return a trial for a study in memory, with its current figure."""
    import optuna

    params, distributions = inside(trial.configuration, space, allow)
    feasible = trial.losses is not None
    states = optuna.trial.TrialState
    return optuna.trial.create_trial(
        state=states.COMPLETE if feasible else states.PRUNED,
        values=trial.losses,
        params=params,
        distributions=distributions,
        constraints={"feasible": -1.0 if feasible else 1.0, **trial.excess},
    )


def running_trial(
    configuration: Configuration, space: Space, allow: Collection[str]
) -> optuna.trial.FrozenTrial:
    """Return the trial of a configuration that is being measured."""
    import optuna

    params, distributions = inside(configuration, space, allow)
    return optuna.trial.create_trial(
        state=optuna.trial.TrialState.RUNNING, params=params, distributions=distributions
    )


def inside(
    configuration: Configuration, space: Space, allow: Collection[str]
) -> tuple[dict[str, Value], dict[str, BaseDistribution]]:
    """Return the dimensions with a value in their domain; the sampler models no others."""
    values, domains = dimensions_of(space, allow, configuration)
    kept = {
        name: domain
        for name, domain in domains.items()
        if domain._contains(domain.to_internal_repr(values[name]))  # noqa: SLF001 - no public way
    }
    return {name: values[name] for name in kept}, kept
