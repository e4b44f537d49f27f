"""Proposals by one of Optuna's samplers, in place of tuner's own search.

Most samplers are functions of the trials that they see. They work on a study in memory with the
current figure of every trial, as tuner's own search does. Others keep their state in attributes of
the trials that they proposed. They see the trials in their order, one after another, so their
proposals are a function of the record too.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution

from tuner.errors import DefinitionError, HostError, summary
from tuner.search.dimensions import suggest
from tuner.search.samplers import SamplerChoice
from tuner.search.trials import MeasuredTrial, as_optunas, inside, running_trial
from tuner.space.configuration import Configuration
from tuner.space.space import Space

_ATTEMPTS = 3
"""Draws per proposal, after which random ones fill the block: a sampler that has converged
proposes the same configurations again."""
_RANDOM_ATTEMPTS = 30
"""The same for the random ones, after which the space counts as exhausted."""


def propose_by(
    sampler: SamplerChoice,
    space: Space,
    allow: Collection[str],
    base: Configuration,
    seen: Sequence[MeasuredTrial],
    *,
    count: int,
    seed: int,
    study_seed: int,
    objectives: int = 1,
    pending: Sequence[Configuration] = (),
) -> list[Configuration]:
    """Draw new configurations with a sampler; see ``tuner.search.propose.propose``.

    Args:
        sampler: the sampler.
        space: the search space, bound to the host.
        allow: names of the parameters with a trade-off that the user accepts.
        base: source of the values of parameters that are not searched.
        seen: all trials so far, in their order.
        count: number of configurations to draw.
        seed: seed of this block.
        study_seed: seed of all blocks, for samplers that see the trials one after another.
        objectives: number of objectives.
        pending: configurations that other workers measure now.

    Returns:
        At most ``count`` new, distinct configurations; fewer when the space is exhausted.

    Raises:
        HostError: the sampler fails.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    known = {trial.configuration.digest for trial in seen} | {c.digest for c in pending}
    blind = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    drawn: list[Configuration] = []

    def draw(study: optuna.Study, attempts: int) -> None:
        for _ in range(attempts * count):
            if len(drawn) == count:
                return
            try:
                configuration = suggest(study.ask(), space, allow, base)
            except DefinitionError:
                # A relation between parameters does not hold.
                continue
            if configuration.digest not in known:
                known.add(configuration.digest)
                drawn.append(configuration)

    with warnings.catch_warnings():
        # Samplers warn of experimental features and of unusual spaces at every proposal.
        warnings.simplefilter("ignore")
        try:
            inner = sampler.make(study_seed if sampler.replays else seed)
            directions = [optuna.study.StudyDirection.MINIMIZE] * objectives
            if sampler.replays:
                study = _replayed(inner, seen, space, allow, directions)
            else:
                study = optuna.create_study(sampler=inner, directions=directions)
                study.add_trials(as_optunas(seen, space, allow))
            study.add_trials([running_trial(each, space, allow) for each in pending])
            draw(study, _ATTEMPTS)
        except Exception as error:
            raise HostError(
                f"the sampler {sampler.name} fails: {summary(error)}; choose another one with"
                " --sampler"
            ) from error
    draw(blind, _RANDOM_ATTEMPTS)
    return drawn


class _Replay(optuna.samplers.BaseSampler):
    """A sampler that lets another one see trials as if it had proposed them."""

    def __init__(self, inner: optuna.samplers.BaseSampler) -> None:
        self._inner = inner
        self.given: dict[str, Any] | None = None
        """Values of the trial that is replayed; None for a new one."""

    def infer_relative_search_space(
        self, study: optuna.Study, trial: optuna.trial.FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return self._inner.infer_relative_search_space(study, trial)

    def sample_relative(
        self,
        study: optuna.Study,
        trial: optuna.trial.FrozenTrial,
        search_space: dict[str, BaseDistribution],
    ) -> dict[str, Any]:
        # The other sampler writes its attributes even if its values are not used.
        found = self._inner.sample_relative(study, trial, search_space)
        return found if self.given is None else {}

    def sample_independent(
        self,
        study: optuna.Study,
        trial: optuna.trial.FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        if self.given is not None:
            return self.given[param_name]
        return self._inner.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        self._inner.before_trial(study, trial)

    def after_trial(
        self,
        study: optuna.Study,
        trial: optuna.trial.FrozenTrial,
        state: optuna.trial.TrialState,
        values: Sequence[float] | None,
    ) -> None:
        self._inner.after_trial(study, trial, state, values)


def _replayed(
    inner: optuna.samplers.BaseSampler,
    seen: Sequence[MeasuredTrial],
    space: Space,
    allow: Collection[str],
    directions: Sequence[optuna.study.StudyDirection],
) -> optuna.Study:
    """Return a study in memory in which the sampler has seen the trials one after another."""
    replay = _Replay(inner)
    study = optuna.create_study(sampler=replay, directions=directions)
    for measured in seen:
        replay.given, domains = inside(measured.configuration, space, allow)
        trial = study.ask(fixed_distributions=domains)
        for limit, excess in measured.excess.items():
            trial.set_constraint(limit, excess)
        trial.set_constraint("feasible", -1.0 if measured.losses is not None else 1.0)
        if measured.losses is None:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            study.tell(trial, list(measured.losses))
    replay.given = None
    return study
