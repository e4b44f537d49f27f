"""Other searches on a recorded table, in their usual way.

Each measures one long window per trial of a freshly started server and recommends the best figure
so far: random search, Optuna's TPE and its Gaussian process (GPSampler, which needs PyTorch),
OptunaHub's Gaussian process with a noise of each trial, and SMAC3 (Lindauer et al., JMLR 23, 2022),
which measures an incumbent again before it replaces it. Only measuring and deploying cost time; the
searchers' own arithmetic is free.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import optuna

from benchmarks.goal import HORIZON_S, Searcher, Step
from benchmarks.replay import DEPLOY_S, EACH_S, World, draw
from tuner.search.dimensions import suggest
from tuner.space.configuration import Configuration
from tuner.space.parameter import Parameter

_WARMUP_S = 0.25


@dataclass
class LongWindows:
    """Cost and result of one long window of a fresh server per trial."""

    world: World
    seed: int
    window_s: float
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)
        self._variances: dict[int, float] = {}

    def measure(self, row: int) -> float:
        """Return ln p99 of a row relative to the baseline's truth, and let its time pass."""
        self.now_s += DEPLOY_S + EACH_S + _WARMUP_S + self.window_s
        return float(self.world.truth[row] + self._noise(self._rng, row))

    def variance(self, row: int) -> float:
        """Return the true variance of a figure, which no user would know so well."""
        if row not in self._variances:
            rng = np.random.default_rng(row)
            drawn = [self._noise(rng, row) for _ in range(_DRAWS)]
            self._variances[row] = float(np.var(drawn))
        return self._variances[row]

    def _noise(self, rng: np.random.Generator, row: int) -> float:
        world = self.world
        level = draw(rng, world.minute_residuals) + rng.normal(0.0, world.start_sd)
        return float(level + world.window_noise(rng, row, self.window_s))


_VARIANCE = "variance"
"""Attribute of a trial with the variance of its value."""
_DRAWS = 200


class TooSlowError(Exception):
    """A search took more than its limit of processor time."""


def by_optuna(sampler: Callable[[int], Any], window_s: float, limit_s: float) -> Searcher:
    """Return a searcher with one objective value per trial, as in Optuna's tutorial.

    It raises ``TooSlowError`` after ``limit_s`` of processor time.
    """

    def search(world: World, seed: int) -> list[Step]:
        lab = LongWindows(world, seed, window_s)
        study = optuna.create_study(sampler=sampler(seed))
        base = Configuration.of(world.space.name, world.table.rows[0].values)
        steps: list[Step] = []
        best = (lab.measure(0), 0)
        until_s = time.process_time() + limit_s
        while lab.now_s < HORIZON_S:
            if time.process_time() > until_s:
                raise TooSlowError(f"{len(steps)} trials took more than {limit_s:g} s")
            trial = study.ask()
            row = world.row(suggest(trial, world.space, (), base))
            trial.set_user_attr(_VARIANCE, lab.variance(row))
            value = lab.measure(row)
            study.tell(trial, value)
            best = min(best, (value, row))
            steps.append(Step(lab.now_s, len(steps) + 1, best[1]))
        return steps

    return search


def by_smac(window_s: float) -> Searcher:
    """Return a searcher with SMAC3's facade for hyperparameters and a noisy objective."""

    def search(world: World, seed: int) -> list[Step]:
        import smac
        from smac.runhistory.dataclasses import TrialValue

        lab = LongWindows(world, seed, window_s)
        base = Configuration.of(world.space.name, world.table.rows[0].values)
        searched = world.space.searched()
        with tempfile.TemporaryDirectory(prefix="tuner-smac-") as folder:
            scenario = smac.Scenario(
                _configspace(world, seed),
                deterministic=False,
                n_trials=100_000,
                seed=seed,
                output_directory=Path(folder),
            )
            facade = smac.HyperparameterOptimizationFacade(
                scenario, _never_called, overwrite=True, logging_level=50
            )
            steps: list[Step] = []
            row_of: dict[Any, int] = {}
            while lab.now_s < HORIZON_S:
                info = facade.ask()
                values = {n: _plain(v) for n, v in dict(info.config).items()}
                chosen = world.space.propose(searched, base, functools.partial(_chosen, values))
                row = row_of[info.config] = world.row(chosen)
                facade.tell(info, TrialValue(cost=math.exp(lab.measure(row))))
                incumbents = facade.intensifier.get_incumbents()
                best = row_of[incumbents[0]] if incumbents else 0
                steps.append(Step(lab.now_s, len(steps) + 1, best))
        return steps

    return search


_IN_RANGE = "in range"


def _configspace(world: World, seed: int) -> Any:
    """Return the space for ConfigSpace: a choice of special values precedes the range."""
    import ConfigSpace

    space = ConfigSpace.ConfigurationSpace(seed=seed)
    for parameter in world.space.searched():
        name = parameter.name
        if parameter.kind == "boolean":
            space.add(ConfigSpace.Categorical(name, [False, True]))
            continue
        if parameter.kind == "choice":
            space.add(ConfigSpace.Categorical(name, list(parameter.choices)))
            continue
        kind = ConfigSpace.Integer if parameter.kind == "integer" else ConfigSpace.Float
        number = kind(name, (parameter.low, parameter.high), log=parameter.log)
        space.add(number)
        if parameter.special:
            words = [*map(str, parameter.special), _IN_RANGE]
            choice = ConfigSpace.Categorical(f"{name} kind", words)
            space.add(choice)
            space.add(ConfigSpace.EqualsCondition(number, choice, _IN_RANGE))
    return space


def _never_called(config: Any, seed: int = 0) -> float:
    """Raise, since SMAC requires a target function but its ask-and-tell interface calls none."""
    raise NotImplementedError(config, seed)


def _chosen(values: dict[str, Any], parameter: Parameter) -> Any:
    kind = values.get(f"{parameter.name} kind")
    if kind is not None and kind != _IN_RANGE:
        return next(value for value in parameter.special if str(value) == kind)
    return values[parameter.name]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _random(seed: int) -> optuna.samplers.BaseSampler:
    return optuna.samplers.RandomSampler(seed=seed)


def _tpe(seed: int) -> optuna.samplers.BaseSampler:
    return optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True)


def _gp(seed: int) -> optuna.samplers.BaseSampler:
    return optuna.samplers.GPSampler(seed=seed, warn_independent_sampling=False)


HUB = "TUNER_OPTUNAHUB"
"""Environment variable with the folder ``package`` of OptunaHub's registry."""
_OLD_THREADS = "optuna._gp.scipy_blas_thread_patch"


def _hub_gp(seed: int) -> optuna.samplers.BaseSampler:
    """Return OptunaHub's HeteroscedasticGPSampler, which gets the true noise of each trial."""
    folder = Path(os.environ[HUB]) / "samplers" / "heteroscedastic_gp"
    name = "heteroscedastic_gp"
    if name not in sys.modules:
        _name_threads_as_before()
        file = folder / "__init__.py"
        spec = importlib.util.spec_from_file_location(
            name, file, submodule_search_locations=[str(folder)]
        )
        assert spec is not None  # noqa: S101 - the file has a loader
        assert spec.loader is not None  # noqa: S101 - likewise
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    made: optuna.samplers.BaseSampler = sys.modules[name].HeteroscedasticGPSampler(
        seed=seed,
        noise_func=lambda trial: trial.user_attrs[_VARIANCE],
        warn_independent_sampling=False,
    )
    return made


def _name_threads_as_before() -> None:
    """Give a function of Optuna 5.0 the name that it had before.

    The hub's package imports it from `optuna._gp.scipy_blas_thread_patch`; now it is
    `optuna._gp.thread_limiting.limit_threads_in_optimization`.
    """
    if importlib.util.find_spec(_OLD_THREADS) is not None:
        return
    limiting = importlib.import_module("optuna._gp.thread_limiting")
    old = ModuleType(_OLD_THREADS)
    vars(old)["single_blas_thread_if_scipy_v1_15_or_newer"] = limiting.limit_threads_in_optimization
    sys.modules[_OLD_THREADS] = old


def rivals(
    windows_s: Sequence[float], *, smac: bool, limit_s: float
) -> Iterator[tuple[str, Searcher]]:
    """Yield every searcher that can be had by its name, for each length of its windows."""
    samplers = [("random search", _random), ("Optuna TPE", _tpe)]
    if importlib.util.find_spec("torch") is not None:
        samplers.append(("Optuna GPSampler", _gp))
        if HUB in os.environ:
            samplers.append(("OptunaHub heteroscedastic GP", _hub_gp))
    for window_s in windows_s:
        for name, sampler in samplers:
            yield f"{name}, {window_s:g} s", by_optuna(sampler, window_s, limit_s)
        if smac:
            yield f"SMAC3, {window_s:g} s", by_smac(window_s)
