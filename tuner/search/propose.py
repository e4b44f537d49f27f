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
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tuner.errors import DefinitionError
from tuner.search.choice import (
    CENTRES,
    CHANGED,
    FIRST,
    NEAR,
    POOL,
    best_by_draws,
    modelled,
    with_infeasible,
)
from tuner.search.dimensions import distances, suggest, vary
from tuner.search.trials import MeasuredTrial, as_optunas, running_trial
from tuner.space.configuration import Configuration
from tuner.space.space import Space

if TYPE_CHECKING:
    import optuna

_STARTUP = 16
"""Trials before TPE builds a model: two blocks. In a space with conditions, fewer may all lie in
one branch, and TPE then stays there."""
_KNOWN_SD = 0.01
"""Standard deviation of a figure known without a look, ln units; above 0 to keep it invertible."""
_BLIND = 0.25
"""Share of the proposals drawn without TPE, for branches that TPE no longer visits."""
_BLIND_POOL = 0.48
"""The same where the surrogate chooses from the draws: a draw by TPE takes ten times as long."""
_ATTEMPTS = 30
"""Draws per proposal after which the space counts as exhausted; more than the pool."""


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
    tpe: bool = True,
) -> list[Configuration]:
    """Draw new configurations.

    Args:
        space: the search space, bound to the host.
        allow: names of the parameters with a trade-off that the user accepts.
        base: source of the values of parameters that are not searched.
        seen: all trials so far, the baseline first. Of very many, the models see the best and the
            latest ones, so that the cost of a proposal does not grow with the search.
        count: number of configurations to draw.
        seed: seed of the sampler; the same arguments give the same proposals.
        noise: standard deviation of a single look, ln units.
        objectives: number of objectives; with two, TPE looks for the front (Ozaki et al. 2022)
            without a surrogate.
        pending: configurations that other workers measure now. They are not proposed again, and
            TPE takes them for bad until their figures are known, like the proposals of one
            batch (constant liar, Ginsbourger et al. 2010), so that workers spread.
        tpe: False to let random draws take the place of TPE's, for comparison.

    Returns:
        At most ``count`` new, distinct configurations; fewer when the space is exhausted.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=tpe_sampler(seed), directions=["minimize"] * objectives)
    study.add_trials(as_optunas(_modelled(seen), space, allow))
    study.add_trials([running_trial(each, space, allow) for each in pending])
    known = {trial.configuration.digest for trial in seen} | {c.digest for c in pending}
    blind = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    dice = random.Random(seed)  # noqa: S311 - no secret
    informed = len(seen) > FIRST
    centres = _best(seen) if informed else []
    chosen = informed and objectives == 1
    wanted, blindly = (count * POOL, _BLIND_POOL) if chosen else (count, _BLIND)

    def draw() -> Configuration:
        kind = dice.random()
        if centres and kind < NEAR:
            centre = dice.choice(centres)
            return vary(blind.ask(), space, allow, centre, lambda: dice.random() < CHANGED)
        asked = blind if kind < NEAR + blindly or not tpe else study
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
    looks = np.array([trial.looks for trial in seen])
    variances = np.where(looks > 0, noise**2 / np.maximum(1, looks), _KNOWN_SD**2)
    measured = [trial.configuration for trial in seen]
    places = best_by_draws(
        distances(space, allow, measured, measured),
        with_infeasible(known, noise),
        variances,
        distances(space, allow, drawn, measured),
        distances(space, allow, drawn, drawn),
        count=count,
        rng=np.random.default_rng(seed),
    )
    return [drawn[place] for place in places]


def _modelled(seen: Sequence[MeasuredTrial]) -> Sequence[MeasuredTrial]:
    """Return the baseline with the best and the latest trials.

    With two objectives, the best are those with a good place in either of them or in their product,
    which keeps both ends of the front.
    """
    known = [trial.losses if trial.losses and _keeps(trial) else None for trial in seen[1:]]
    figures = np.full(len(known), np.nan)
    if feasible := [losses for losses in known if losses]:
        orders = np.column_stack([feasible, np.sum(feasible, axis=1)])
        best_places = np.argsort(np.argsort(orders, axis=0, kind="stable"), axis=0).min(axis=1)
        figures[[losses is not None for losses in known]] = best_places
    return [*seen[:1], *(seen[1 + place] for place in modelled(figures.tolist()))]


def _best(seen: Sequence[MeasuredTrial]) -> list[Configuration]:
    """Return the best few within the limits, by the product of their ratios."""
    measured = [(sum(t.losses), t.configuration) for t in seen if t.losses and _keeps(t)]
    return [found for _, found in sorted(measured, key=lambda entry: entry[0])[:CENTRES]]


def _keeps(trial: MeasuredTrial) -> bool:
    return all(excess <= 0 for excess in trial.excess.values())


def tpe_sampler(seed: int) -> optuna.samplers.BaseSampler:
    """Return Optuna's TPE for spaces with conditions and for batches."""
    import optuna

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
