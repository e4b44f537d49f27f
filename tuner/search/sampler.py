"""tuner's own search as a sampler for any study of Optuna with one noisy objective.

The study's trials are looks: trials with equal parameters measure the same configuration again.
The search is that of ``tuner optimize``. It draws configurations near the best ones and at random,
and a Gaussian process of all figures so far chooses among them by Thompson sampling
(``tuner.search.choice``). It measures the better configurations again, in the rungs of
``tuner.search.schedule``. It recommends the one with the best upper bound, so that one lucky value
does not decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, TrialState

from tuner.goals.goals import Goals
from tuner.record.model import Trial
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
from tuner.search.domains import Domains, Values
from tuner.search.schedule import again, look_noise, winner

_BATCH = 5
"""Proposals of a block, which share their draws; a sampler proposes one at a time."""
_AGAIN = 0.5
"""Share of the trials for further looks, as long as some configuration is worth one."""
_SPREAD = 0.2
"""Typical spread of the figures in ln units, for which the surrogate's priors are made."""
_MOST_SPREADS = 4.0
"""Limit for bad figures, in spreads from the median: far ones would flatten the others."""
_GUESSED_NOISE = 0.3
"""Noise of a look that is assumed while no configuration has several, in spreads."""
_SMALLER = Goals.of("p99")
"""Goals under which a smaller figure is better."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The parameters that a noisy study recommends."""

    params: Mapping[str, Any]
    value: float
    """Mean of the looks; as the best of many it is too good."""
    looks: int
    """Number of trials with these parameters."""


@dataclass(slots=True)
class _Looked:
    """A configuration with the values of all its looks, smaller is better."""

    params: Values
    values: list[float] = field(default_factory=list)
    infeasible: bool = False
    busy: bool = False

    @property
    def figure(self) -> float:
        """Mean of the values; NaN if infeasible."""
        return float(np.mean(self.values)) if self.values and not self.infeasible else np.nan


class TunerSampler(optuna.samplers.BaseSampler):
    """A sampler for noisy objectives, which measures promising parameters again.

    The objective is single. Trials with a violated constraint and pruned trials count as worse than
    all others; failed trials count as not measured. Parameters may depend on others.

    Args:
        seed: seed of all random choices; None for a random one.
        noise: standard deviation of the objective for equal parameters, if it is known.
        repeats: False to propose new parameters in every trial.
    """

    def __init__(
        self, *, seed: int | None = None, noise: float | None = None, repeats: bool = True
    ) -> None:
        if noise is not None and not noise > 0:
            raise ValueError(f"noise must be positive but is {noise}")
        self._rng = np.random.default_rng(seed)
        self._blind = optuna.samplers.RandomSampler(seed=seed)
        self._noise = noise
        self._repeats = repeats

    def reseed_rng(self) -> None:
        """Draw from another random sequence, in a copy for a parallel worker."""
        self._rng = np.random.default_rng()
        self._blind.reseed_rng()

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the domains of all parameters of earlier trials; see ``BaseSampler``."""
        del trial
        return dict(Domains.of(_measured_trials(study)).domains)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the parameters of a further look, or new ones; see ``BaseSampler``.

        Raises:
            ValueError: the study has several objectives.
        """
        del search_space
        seen = _looked(study)
        measured = [each for each in seen if each.values or each.infeasible]
        if len(measured) < FIRST:
            return {}
        if self._repeats and self._rng.random() < _AGAIN:
            worthy = again(_as_trials(seen), len(seen), _SMALLER)
            free = [seen[t.number] for t in worthy if not seen[t.number].busy]
            if free:
                return dict(free[0].params)
        domains = Domains.of(_measured_trials(study))
        drawn = self._draw(study, trial, domains, seen)
        if not drawn:
            # The space is exhausted: only further looks can teach something.
            best = winner(_as_trials(measured), _SMALLER)
            return dict(seen[best.number].params) if best else {}
        return dict(drawn[self._chosen(domains, measured, drawn)])

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Return a random value, for the first trials and for new parameters."""
        return self._blind.sample_independent(study, trial, param_name, param_distribution)

    @staticmethod
    def recommended(study: optuna.Study) -> Recommendation:
        """Return the parameters with the best upper bound of their mean, over all looks.

        Optuna's ``study.best_params`` belong to the best single value, which is mostly luck if
        the objective is noisy.

        Raises:
            ValueError: no trial is complete and feasible, or the study has several objectives.
        """
        seen = _looked(study)
        best = winner(_as_trials(seen), _SMALLER)
        if best is None:
            raise ValueError("no trial is complete and within its constraints")
        found = seen[best.number]
        value = _sign(study) * found.figure
        return Recommendation(dict(found.params), value, len(found.values))

    def _draw(
        self, study: optuna.Study, trial: FrozenTrial, domains: Domains, seen: Sequence[_Looked]
    ) -> list[Values]:
        """Return new parameters, half of them near the best ones."""
        feasible = [each for each in seen if np.isfinite(each.figure)]
        centres = sorted(feasible, key=lambda each: each.figure)[:CENTRES]
        known = {_key(each.params) for each in seen}

        def value(name: str) -> Any:
            return self._blind.sample_independent(study, trial, name, domains.domains[name])

        drawn = []
        for _ in range(POOL * _BATCH):
            centre: Values = {}
            if centres and self._rng.random() < NEAR:
                centre = centres[self._rng.integers(len(centres))].params
            params = domains.active(
                {
                    name: centre[name]
                    if name in centre and self._rng.random() >= CHANGED
                    else value(name)
                    for name in domains.domains
                }
            )
            if _key(params) not in known:
                known.add(_key(params))
                drawn.append(params)
        return drawn

    def _chosen(
        self, domains: Domains, measured: Sequence[_Looked], drawn: Sequence[Values]
    ) -> int:
        """Return the place of the best drawn parameters in one draw from the posterior."""
        kept = [measured[place] for place in modelled([each.figure for each in measured])]
        figures = [each.figure for each in kept]
        finite = np.array([figure for figure in figures if np.isfinite(figure)])
        if not len(finite):
            return 0
        middle = float(np.median(finite))
        spread = 1.4826 * float(np.median(np.abs(finite - middle))) or float(finite.std()) or 1.0
        noise, guessed = self._noise_of(measured, spread)
        scaled = [min((figure - middle) / spread, _MOST_SPREADS) for figure in figures]
        values = with_infeasible([_SPREAD * figure for figure in scaled], _SPREAD * noise / spread)
        looks = np.array([max(1, len(each.values)) for each in kept])
        variances: NDArray[np.float64] = (_SPREAD * noise / spread) ** 2 / looks
        points = [each.params for each in kept]
        places = best_by_draws(
            domains.distances(points, points),
            values,
            variances,
            domains.distances(drawn, points),
            domains.distances(drawn, drawn),
            count=1,
            rng=self._rng,
            guessed=guessed,
        )
        return places[0]

    def _noise_of(self, measured: Sequence[_Looked], spread: float) -> tuple[float, bool]:
        """Return the standard deviation of a look, and whether it is a guess."""
        if self._noise is not None:
            return self._noise, False
        found = look_noise(_as_trials(measured))
        return (found, False) if found > 0 else (_GUESSED_NOISE * spread, True)


def _measured_trials(study: optuna.Study) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))


def _looked(study: optuna.Study) -> list[_Looked]:
    """Return the configurations of a study with their looks, in the order of the first ones.

    Raises:
        ValueError: the study has several objectives.
    """
    if len(study.directions) > 1:
        raise ValueError("TunerSampler is for a single objective")
    sign = _sign(study)
    found: dict[object, _Looked] = {}
    for trial in study.get_trials(deepcopy=False):
        if not trial.params or trial.state in (TrialState.FAIL, TrialState.WAITING):
            continue
        looked = found.setdefault(_key(trial.params), _Looked(dict(trial.params)))
        if trial.state == TrialState.RUNNING:
            looked.busy = True
        elif trial.state == TrialState.PRUNED or any(
            excess > 0 for excess in trial.constraints.values()
        ):
            looked.infeasible = True
        elif trial.value is not None and np.isfinite(trial.value):
            looked.values.append(sign * trial.value)
        else:
            looked.infeasible = True
    return list(found.values())


def _as_trials(seen: Sequence[_Looked]) -> list[Trial]:
    """Return configurations as the schedule of looks takes them, numbered by their places."""
    return [
        Trial(
            number,
            str(number),
            "proposed",
            "infeasible" if each.infeasible or not each.values else "racing",
            {} if each.infeasible else dict(enumerate(each.values)),
            "",
        )
        for number, each in enumerate(seen)
    ]


def _sign(study: optuna.Study) -> float:
    return -1.0 if study.directions[0] == optuna.study.StudyDirection.MAXIMIZE else 1.0


def _key(params: Mapping[str, Any]) -> object:
    return tuple(sorted((name, repr(value)) for name, value in params.items()))
