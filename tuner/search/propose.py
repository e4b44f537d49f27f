"""Proposals: what Optuna's TPE would try next, given every trial's figure as known now.

A trial is measured again in later blocks, so its figure changes; a told value in Optuna does
not. The sampler therefore works on a study in memory that is made anew from the record before
each block: proposals are a function of the record and the seed.

TPE: Bergstra et al. 2011; multivariate and grouped as in Falkner et al. 2018. Trials in progress
count as bad while a batch is drawn (constant liar, Ginsbourger et al. 2010), which spreads it.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tuner.configuration import Configuration, Value
from tuner.errors import DefinitionError
from tuner.search.dimensions import dimensions_of, suggest, vary
from tuner.space import Space

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

_STARTUP = 16
"""Trials before TPE models anything: two blocks. In a space with conditions, fewer may all lie in
one branch, and TPE then stays there."""
_BLIND = 0.25
"""Share of the proposals that is drawn without the model, for the branches that it gave up."""
_NEAR = 0.5
"""Share that varies one of the best ``_CENTRES``, each parameter with the chance ``_CHANGED``:
where the best ones differ by less than a look's noise, TPE proposes ever the same."""
_CENTRES = 3
_CHANGED = 0.25
_ATTEMPTS = 20
"""Draws per proposal before a space is taken to be exhausted."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A trial as the sampler is told of it."""

    configuration: Configuration
    losses: tuple[float, ...] | None
    """Mean signed log ratio of each objective; None if infeasible."""
    excess: Mapping[str, float] = field(default_factory=dict)
    """How far beyond each limit; 0 or less holds. Told to the sampler, which avoids the rest."""


def propose(
    space: Space,
    allow: Collection[str],
    base: Configuration,
    seen: Sequence[Seen],
    *,
    count: int,
    seed: int,
    objectives: int = 1,
    pending: Sequence[Configuration] = (),
) -> list[Configuration]:
    """Draw new configurations.

    Args:
        space: the search space, bound to the host.
        allow: names of the parameters whose trade the user accepts.
        base: gives the values of parameters that are not searched.
        seen: all trials so far, in their order.
        count: how many are wanted.
        seed: of the sampler; the same arguments give the same proposals.
        objectives: how many; of two, TPE looks for the front (Ozaki et al. 2022).
        pending: what other workers measure now; counts as bad until its figure is known, as the
            proposals of one batch do, so that workers spread.

    Returns:
        At most ``count`` configurations that differ from each other and from all seen; fewer
        when the space has no more.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        sampler=_sampler(optuna, seed), directions=["minimize"] * objectives
    )
    for trial in seen:
        study.add_trial(_frozen(trial, space, allow))
    for configuration in pending:
        study.add_trial(_running(configuration, space, allow))
    known = {trial.configuration.digest for trial in seen} | {c.digest for c in pending}
    blind = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    dice = random.Random(seed)  # noqa: S311 - no secret
    centres = _best(seen) if len(seen) > _STARTUP else []

    def draw() -> Configuration:
        kind = dice.random()
        if centres and kind < _NEAR:
            centre = dice.choice(centres)
            return vary(blind.ask(), space, allow, centre, lambda: dice.random() < _CHANGED)
        asked = blind if kind < _NEAR + _BLIND else study
        return suggest(asked.ask(), space, allow, base)

    proposals: list[Configuration] = []
    for _ in range(count * _ATTEMPTS):
        if len(proposals) == count:
            break
        try:
            configuration = draw()
        except DefinitionError:
            # A relation between parameters does not hold, which a space's ranges need not exclude.
            continue
        if configuration.digest not in known:
            known.add(configuration.digest)
            proposals.append(configuration)
    return proposals


def as_optunas(
    seen: Sequence[Seen], space: Space, allow: Collection[str]
) -> list[optuna.trial.FrozenTrial]:
    """Trials as Optuna has them, with their parameters."""
    return [_frozen(trial, space, allow) for trial in seen]


def _best(seen: Sequence[Seen]) -> list[Configuration]:
    """The first few by the product of their ratios, of those that keep to the limits."""
    measured = [(sum(t.losses), t.configuration) for t in seen if t.losses and _keeps(t)]
    return [found for _, found in sorted(measured, key=lambda entry: entry[0])[:_CENTRES]]


def _keeps(trial: Seen) -> bool:
    return all(excess <= 0 for excess in trial.excess.values())


def _sampler(optuna: Any, seed: int) -> Any:
    with warnings.catch_warnings():
        # Grouping is experimental since 2.8 and what conditional spaces need.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(
            multivariate=True, group=True, n_startup_trials=_STARTUP, seed=seed
        )


def _frozen(trial: Seen, space: Space, allow: Collection[str]) -> optuna.trial.FrozenTrial:
    import optuna

    params, distributions = _inside(trial.configuration, space, allow)
    feasible = trial.losses is not None
    states = optuna.trial.TrialState
    return optuna.trial.create_trial(
        state=states.COMPLETE if feasible else states.PRUNED,
        values=trial.losses,
        params=params,
        distributions=distributions,
        constraints={"feasible": -1.0 if feasible else 1.0, **trial.excess},
    )


def _running(
    configuration: Configuration, space: Space, allow: Collection[str]
) -> optuna.trial.FrozenTrial:
    import optuna

    params, distributions = _inside(configuration, space, allow)
    return optuna.trial.create_trial(
        state=optuna.trial.TrialState.RUNNING, params=params, distributions=distributions
    )


def _inside(
    configuration: Configuration, space: Space, allow: Collection[str]
) -> tuple[dict[str, Value], dict[str, BaseDistribution]]:
    """The dimensions whose value lies in their domain; the sampler knows of no others."""
    values, domains = dimensions_of(space, allow, configuration)
    inside = {
        name: domain
        for name, domain in domains.items()
        if domain._contains(domain.to_internal_repr(values[name]))  # noqa: SLF001 - no public way
    }
    return {name: values[name] for name in inside}, inside
