"""Proposals: the configurations to try next, from the current figure of every trial.

Optuna draws many more configurations than needed, and a surrogate of all figures so far chooses
from them. Half are neighbours of the best, a fiftieth is drawn by TPE (Bergstra et al. 2011;
multivariate and grouped as in Falkner et al. 2018), and the rest at random. Each proposal is the
best of them in one draw from the surrogate's posterior (Thompson, Biometrika 25, 1933), so a batch
spreads in proportion to the uncertainty.

Later blocks measure a trial again, so its figure changes, but a value reported to Optuna does not.
The sampler therefore works on a study in memory that is rebuilt from the record before each block:
proposals are a function of the record and the seed.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.errors import DefinitionError
from tuner.search.dimensions import dimensions_of, distances, suggest, vary
from tuner.space.configuration import Configuration, Value
from tuner.space.space import Space

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

_FIRST = 8
"""Trials before a model chooses: one block."""
_STARTUP = 16
"""Trials before TPE builds a model: two blocks. In a space with conditions, fewer may all lie in
one branch, and TPE then stays there."""
_POOL = 20
"""Draws for each proposal, among which the surrogate chooses."""
_MOST_MODELLED = 200
"""Most trials that the surrogate is fitted to, half the best and half the latest; its cost is
cubic."""
_KNOWN_SD = 0.01
"""Standard deviation of a figure known without a look, ln units; above 0 to keep it invertible."""
_LOOK_SEES = 2.0
"""Standard deviations of a look that count as a visible difference."""
_BLIND = 0.25
"""Share of the proposals drawn without TPE, for branches that TPE no longer visits."""
_BLIND_POOL = 0.48
"""The same where the surrogate chooses from the draws: a draw by TPE takes ten times as long."""
_NEAR = 0.5
"""Share that varies one of the best ``_CENTRES``, each parameter with probability ``_CHANGED``:
where the best ones differ by less than the noise of a look, TPE repeats itself."""
_CENTRES = 3
_CHANGED = 0.25
_ATTEMPTS = 30
"""Draws per proposal after which the space counts as exhausted; more than the pool."""


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


def propose(
    space: Space,
    allow: Collection[str],
    base: Configuration,
    seen: Sequence[MeasuredTrial],
    *,
    count: int,
    seed: int,
    noise: float = 0.1,
    objectives: int = 1,
    pending: Sequence[Configuration] = (),
) -> list[Configuration]:
    """Draw new configurations.

    Args:
        space: the search space, bound to the host.
        allow: names of the parameters with a trade-off that the user accepts.
        base: source of the values of parameters that are not searched.
        seen: all trials so far, in their order.
        count: number of configurations to draw.
        seed: seed of the sampler; the same arguments give the same proposals.
        noise: standard deviation of a single look, ln units.
        objectives: number of objectives; with two, TPE looks for the front (Ozaki et al. 2022)
            without a surrogate.
        pending: configurations that other workers measure now. They are not proposed again, and
            TPE takes them for bad until their figures are known, like the proposals of one
            batch (constant liar, Ginsbourger et al. 2010), so that workers spread.

    Returns:
        At most ``count`` new, distinct configurations; fewer when the space is exhausted.
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
    modelled = len(seen) > _FIRST
    centres = _best(seen) if modelled else []
    chosen = modelled and objectives == 1
    wanted, blindly = (count * _POOL, _BLIND_POOL) if chosen else (count, _BLIND)

    def draw() -> Configuration:
        kind = dice.random()
        if centres and kind < _NEAR:
            centre = dice.choice(centres)
            return vary(blind.ask(), space, allow, centre, lambda: dice.random() < _CHANGED)
        asked = blind if kind < _NEAR + blindly else study
        return suggest(asked.ask(), space, allow, base)

    drawn: list[Configuration] = []
    for _ in range(count * _ATTEMPTS):
        if len(drawn) == wanted:
            break
        try:
            configuration = draw()
        except DefinitionError:
            # A relation between parameters does not hold; ranges alone need not exclude that.
            continue
        if configuration.digest not in known:
            known.add(configuration.digest)
            drawn.append(configuration)
    if chosen and len(drawn) > count:
        return _choose(drawn, space, allow, seen, count=count, noise=noise, seed=seed)
    return drawn[:count]


def _choose(
    drawn: Sequence[Configuration],
    space: Space,
    allow: Collection[str],
    seen: Sequence[MeasuredTrial],
    *,
    count: int,
    noise: float,
    seed: int,
) -> list[Configuration]:
    """Return the best drawn configurations, each by one draw from the surrogate's posterior."""
    seen = _modelled(seen)
    known = [sum(trial.losses) if trial.losses and _keeps(trial) else np.nan for trial in seen]
    # An infeasible trial counts as visibly worse than the worst feasible one.
    values = np.nan_to_num(known, nan=float(np.nanmax(known, initial=0.0)) + _LOOK_SEES * noise)
    looks = np.array([trial.looks for trial in seen])
    variances = np.where(looks > 0, noise**2 / np.maximum(1, looks), _KNOWN_SD**2)
    measured = [trial.configuration for trial in seen]
    # It needs SciPy's optimizers, whose import would delay every command's first word.
    from tuner.stats.surrogate import fit

    surrogate = fit(distances(space, allow, measured, measured), values, variances)
    draws = surrogate.draws(
        distances(space, allow, drawn, measured),
        distances(space, allow, drawn, drawn),
        count,
        np.random.default_rng(seed),
    )
    places: list[int] = []
    for draw in draws:
        places.append(next(int(place) for place in np.argsort(draw) if place not in places))
    return [drawn[place] for place in places]


def _modelled(seen: Sequence[MeasuredTrial]) -> Sequence[MeasuredTrial]:
    """Return the baseline with the best and the latest trials."""
    if len(seen) <= _MOST_MODELLED:
        return seen
    latest = len(seen) - _MOST_MODELLED // 2
    known = [trial for trial in seen[1:latest] if trial.losses and _keeps(trial)]
    best = sorted(known, key=lambda trial: sum(trial.losses or ()))[: _MOST_MODELLED // 2]
    return [seen[0], *best, *seen[latest:]]


def as_optunas(
    seen: Sequence[MeasuredTrial], space: Space, allow: Collection[str]
) -> list[optuna.trial.FrozenTrial]:
    """Return trials as frozen Optuna trials with their parameters."""
    return [_frozen(trial, space, allow) for trial in seen]


def _best(seen: Sequence[MeasuredTrial]) -> list[Configuration]:
    """Return the best few within the limits, by the product of their ratios."""
    measured = [(sum(t.losses), t.configuration) for t in seen if t.losses and _keeps(t)]
    return [found for _, found in sorted(measured, key=lambda entry: entry[0])[:_CENTRES]]


def _keeps(trial: MeasuredTrial) -> bool:
    return all(excess <= 0 for excess in trial.excess.values())


def _sampler(optuna: Any, seed: int) -> Any:
    with warnings.catch_warnings():
        # Conditional spaces need grouping, which is experimental since 2.8.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(
            multivariate=True,
            group=True,
            constant_liar=True,
            n_startup_trials=_STARTUP,
            seed=seed,
        )


def _frozen(trial: MeasuredTrial, space: Space, allow: Collection[str]) -> optuna.trial.FrozenTrial:
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
    """Return the dimensions with a value in their domain; the sampler models no others."""
    values, domains = dimensions_of(space, allow, configuration)
    inside = {
        name: domain
        for name, domain in domains.items()
        if domain._contains(domain.to_internal_repr(values[name]))  # noqa: SLF001 - no public way
    }
    return {name: values[name] for name in inside}, inside
