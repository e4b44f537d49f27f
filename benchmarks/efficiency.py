"""Time that tuner's search and others take to find the best configuration of a recorded table.

All searchers measure in the same world (benchmarks/replay.py), with the same true values and the
same noise, drawn from real residuals. tuner's search is its own code on the simulated lab. The
others work in their usual way: they measure one long window per trial of a freshly started server
and recommend the best figure so far. They are random search, Optuna's TPE and its Gaussian process
(GPSampler, which needs PyTorch), OptunaHub's Gaussian process with a noise of each trial, and SMAC3
(Lindauer et al., JMLR 23, 2022), which measures an incumbent again before it replaces it. The
length of their windows is varied. Only measuring and deploying cost time; the searchers' own
arithmetic is free. tuner's search runs a second time without the draws of TPE, with the time that
its proposals take.

The clock stops when the recommended configuration is within 5 % of the best one: at first, and
for good until the horizon, so that luck does not count.

    python -m benchmarks.efficiency --table benchmarks/data/proxy.json --repetitions 50
    python -m benchmarks.efficiency --table benchmarks/data/proxy.json --only tuner
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import click
import numpy as np
import optuna
from numpy.typing import NDArray

from benchmarks import finding
from benchmarks.finding import Finding, at_most
from benchmarks.replay import DEPLOY_S, EACH_S, World
from benchmarks.table import load
from tuner.generators.generator import Endpoint, WindowSpec
from tuner.goals.goals import Goals
from tuner.hosts.deployer import InstanceSpec, InstanceState
from tuner.judge.plan import plan_blocks
from tuner.measurement.stalls import StallRule
from tuner.measurement.window import RawWindow
from tuner.phases import search as search_phase
from tuner.phases.bench import Bench, Silence
from tuner.phases.search import SearchSpec, run_search
from tuner.phases.study import SATURATION_GATES
from tuner.record.model import Calibration
from tuner.search.dimensions import suggest
from tuner.search.propose import propose
from tuner.search.schedule import winner
from tuner.space.configuration import Configuration
from tuner.space.parameter import Parameter
from tuner.space.space import load_space
from tuner.store.store import Store
from tuner.testing.lab import (
    Effect,
    Instance,
    SimulatedDeployer,
    SimulatedGenerator,
    SimulatedHost,
    values_of,
)
from tuner.workload.workload import Workload, load_workload

HORIZON_S = 1200.0
WITHIN = 0.05
REPETITIONS = 50
FIRST_SEED = 1000
"""First seed; the search was designed on lower ones, so its figures there are too good."""
WINDOWS_S = (3.0, 10.0, 30.0)
"""Lengths of the others' windows."""
_WARMUP_S = 0.25
_STUDY_S = 600.0
"""tuner's search is that of a ten-minute study, extended to the horizon."""


@dataclass(frozen=True, slots=True)
class Step:
    """A searcher's recommendation from an instant on."""

    time_s: float
    evaluations: int
    row: int


@dataclass(frozen=True, slots=True)
class Reached:
    """Times at which a search reached its goal; infinity if it never did."""

    first_s: float
    for_good_s: float
    evaluations: float
    """Evaluations until ``for_good_s``."""
    proposal_ms: float = math.nan
    """Mean time of a proposal by tuner's search, processor time in ms."""


Searcher = Callable[[World, int], list[Step]]


def reached(world: World, steps: Sequence[Step]) -> Reached:
    """Return when the recommendation came within 5 % of the best: at first, and for good."""
    good = [world.is_near_best(step.row, WITHIN) for step in steps]
    first = next((s.time_s for s, near in zip(steps, good, strict=True) if near), math.inf)
    last_bad = max((place for place, near in enumerate(good) if not near), default=-1)
    stays = steps[last_bad + 1] if last_bad + 1 < len(steps) else None
    if stays is None:
        return Reached(first, math.inf, math.inf)
    return Reached(first, stays.time_s, stays.evaluations)


@dataclass
class Timed:
    """tuner's proposals, with the processor time that they take."""

    tpe: bool = True
    spent_s: float = 0.0
    count: int = 0

    def __call__(self, *arguments: Any, **options: Any) -> list[Configuration]:
        """Return the proposals of ``tuner.search.propose.propose``."""
        begun_s = time.process_time()
        found = propose(*arguments, **options, tpe=self.tpe)
        self.spent_s += time.process_time() - begun_s
        self.count += len(found)
        return found

    @property
    def each_ms(self) -> float:
        """Mean time of a proposal."""
        return 1e3 * self.spent_s / self.count if self.count else math.nan


# --- tuner ----------------------------------------------------------------------------------------


@dataclass
class ReplayHost(SimulatedHost):
    """A simulated host with the truth of a table, and its residuals as noise."""

    world: World | None = None
    _minute: float = field(default=0.0, init=False)
    _drawn: float = field(default=0.0, init=False)
    """Noise of the window that is being measured."""
    _rows: dict[str, int] = field(default_factory=dict, init=False)
    """The table's row by address."""

    def next_deployment(self) -> int:
        """Begin a deployment of ``SimulatedHost``; the minute has its own level."""
        self._minute = _draw(self._rng, self._known.minute_residuals)
        return super().next_deployment()

    def start(self, spec: InstanceSpec, deployment: int) -> InstanceState:
        """Implement ``SimulatedHost.start``."""
        self.now_s += EACH_S
        state = super().start(spec, deployment)
        address = next(a for a, i in self.running.items() if i.spec is spec)
        row = self._known.row(Configuration.of(self._known.space.name, values_of(spec)))
        self._rows[address] = row
        level = float(self._rng.normal(0.0, self._known.start_sd))
        effect = Effect(float(self._known.truth[row]), capacity_per_s=1e9)
        self.running[address] = Instance(spec, effect, level, state.pids[0])
        return state

    def measure(
        self,
        workload: Workload,
        endpoint: Endpoint,
        spec: WindowSpec,
        level: float | None = None,  # noqa: ARG002 - the table has the noise of separate windows
    ) -> RawWindow:
        """Measure like ``SimulatedHost``, with the noise of a similar row."""
        self._drawn = self._known.window_noise(
            self._rng, self._rows[endpoint.address], spec.duration_s
        )
        return super().measure(workload, endpoint, spec)

    def next_level(self) -> float:
        """Implement ``SimulatedHost.next_level``."""
        return self._minute + self._drawn

    def _latencies(self, count: int, ln_median_ns: float) -> NDArray[np.float64]:
        """Return the same distribution in every window: all noise is the table's."""
        shape = np.linspace(0.5, 1.5, count)
        self._rng.shuffle(shape)
        return np.asarray(shape * math.exp(ln_median_ns))

    @property
    def _known(self) -> World:
        assert self.world is not None  # noqa: S101 - a default only for the dataclass's sake
        return self.world


@dataclass
class Watch(Silence):
    """Progress that records the recommendation after every block."""

    world: World
    host: ReplayHost
    store: Store | None = None
    goals: Goals = field(default_factory=lambda: Goals.of("p99"))
    steps: list[Step] = field(default_factory=list)
    begun_s: float = 0.0

    def step(self, text: str, left_s: float) -> None:
        """Implement ``Progress.step``."""
        del text, left_s
        assert self.store is not None  # noqa: S101 - set before the search begins
        record = self.store.record()
        trials = [trial for trial in record.trials if trial.origin != "baseline"]
        best = winner(trials, self.goals)
        row = 0
        if best is not None and min(best.losses.values(), default=0.0) < 0:
            row = self.world.row(record.configurations[best.digest].configuration)
        looks = sum(len(trial.losses) for trial in trials)
        self.steps.append(Step(self.host.now_s - self.begun_s, looks, row))


def ours(world: World, seed: int, time_s: float = HORIZON_S) -> list[Step]:
    """Run tuner's own search."""
    host = ReplayHost(seed=seed, world=world, tail_share=0.0, most_samples=4_000)
    baseline = Configuration.of(world.space.name, world.table.rows[0].values)
    goals = Goals.of("p99")
    store = Store.create(
        optuna.storages.InMemoryStorage(), host.header("replay", baseline, "p99"), host.clock
    )
    store.add_configuration(host.describe(baseline))
    watch = Watch(world, host, store, goals)
    bench = Bench(
        deployer=SimulatedDeployer(host),
        generator=SimulatedGenerator(host),
        store=store,
        progress=watch,
        baseline=baseline,
        make_instance=host.instance,
        describe=host.describe,
        free_ports=host.free_ports,
        workload=load_workload(world.table.workload),
        goals=goals,
        rule=StallRule(),
        gates=SATURATION_GATES,
        seed=seed,
        clock=host.clock,
    )
    rate_per_s = world.table.rate_per_s
    calibration = _calibration(world, rate_per_s)
    store.set_calibration(calibration)
    watch.begun_s = host.now_s
    run_search(
        bench,
        SearchSpec(world.space, (), baseline, (), time_s, None),
        calibration,
        plan_blocks(goals, rate_per_s, _STUDY_S),
    )
    return watch.steps


def _calibration(world: World, rate_per_s: float) -> Calibration:
    """Return a calibration with the table's noise of a difference."""
    sigma = math.sqrt(2 * (world.start_sd**2 + world.window_sd**2 / 12))
    return Calibration(
        capacity_per_s=rate_per_s / 0.7,
        generator_bound=False,
        rate_per_s=rate_per_s,
        rate_source="the table's",
        sigma_d=sigma,
        sigma_d_upper=1.3 * sigma,
        degrees_of_freedom=6,
        half_width=sigma,
        minimum_detectable_effect=sigma,
        correlation=0.0,
        warnings=(),
    )


# --- the others -----------------------------------------------------------------------------------


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
        level = _draw(rng, world.minute_residuals) + rng.normal(0.0, world.start_sd)
        return float(level + world.window_noise(rng, row, self.window_s))


_VARIANCE = "variance"
"""Attribute of a trial with the variance of its value."""
_DRAWS = 200


def by_optuna(sampler: Callable[[int], Any], window_s: float) -> Searcher:
    """Return a searcher with one objective value per trial, as in Optuna's tutorial."""

    def search(world: World, seed: int) -> list[Step]:
        lab = LongWindows(world, seed, window_s)
        study = optuna.create_study(sampler=sampler(seed))
        base = Configuration.of(world.space.name, world.table.rows[0].values)
        steps: list[Step] = []
        best = (lab.measure(0), 0)
        while lab.now_s < HORIZON_S:
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


def _draw(rng: np.random.Generator, values: np.ndarray[Any, Any]) -> float:
    return float(values[rng.integers(len(values))])


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


# --- all of them ----------------------------------------------------------------------------------


WITHOUT_TPE = "tuner without TPE"


def searchers(windows_s: Sequence[float], *, smac: bool) -> Iterator[tuple[str, Searcher]]:
    """Yield every searcher by its name, tuner's first."""
    yield "tuner", ours
    yield WITHOUT_TPE, ours
    has_torch = importlib.util.find_spec("torch") is not None
    for window_s in windows_s:
        yield f"random search, {window_s:g} s", by_optuna(_random, window_s)
        yield f"Optuna TPE, {window_s:g} s", by_optuna(_tpe, window_s)
        if has_torch:
            yield f"Optuna GPSampler, {window_s:g} s", by_optuna(_gp, window_s)
        if has_torch and HUB in os.environ:
            yield f"OptunaHub heteroscedastic GP, {window_s:g} s", by_optuna(_hub_gp, window_s)
        if smac:
            yield f"SMAC3, {window_s:g} s", by_smac(window_s)


def _one(arguments: tuple[Path, str, tuple[float, ...], bool, int]) -> Reached:
    path, name, windows_s, smac, seed = arguments
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    world = world_of(path)
    searcher = dict(searchers(windows_s, smac=smac))[name]
    timed = Timed(tpe=name != WITHOUT_TPE)
    with mock.patch.object(search_phase, "propose", timed):
        found = reached(world, searcher(world, seed))
    return replace(found, proposal_ms=timed.each_ms)


def world_of(path: Path) -> World:
    """Return the world of a recorded table."""
    table = load(path)
    connections = load_workload(table.workload).connections
    space = load_space(
        f"nginx/{table.workload}",
        server_cores=1,
        connections=connections,
        memory_bytes=8 << 30,
        server_version=(1, 22, 1),
        modules=(),
    )
    return World(table, space)


def run(
    path: Path, seeds: range, windows_s: tuple[float, ...], *, smac: bool, only: str = ""
) -> list[Finding]:
    """Run every searcher once with each seed; return the medians.

    Args:
        path: the recorded table.
        seeds: one search for each.
        windows_s: lengths of the others' windows.
        smac: whether to run SMAC3.
        only: beginning of the names of the searchers to run; empty for all.
    """
    found: dict[str, list[Reached]] = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for name, _ in searchers(windows_s, smac=smac):
            if not name.startswith(only):
                continue
            jobs = [(path, name, windows_s, smac, seed) for seed in seeds]
            found[name] = list(pool.map(_one, jobs))
            click.echo(_line(name, found[name]))
    others = [name for name in found if not name.startswith("tuner")]
    findings = [_without_tpe(found["tuner"], found[WITHOUT_TPE])] if WITHOUT_TPE in found else []
    if not others or "tuner" not in found:
        return findings
    best_first = min(_median(found[name], "first_s") for name in others)
    best_good = min(_median(found[name], "for_good_s") for name in others)
    mine = found["tuner"]
    return [
        *findings,
        Finding(
            "wall-clock until within 5 % for good / best of the others",
            _median(mine, "for_good_s") / best_good,
            "",
            at_most(0.5),
        ),
        Finding(
            "wall-clock until within 5 % at first / best of the others",
            _median(mine, "first_s") / best_first,
        ),
    ]


def _without_tpe(with_: Sequence[Reached], without: Sequence[Reached]) -> Finding:
    """Return the ratio of the times until the goal, without TPE and with it."""
    ratio = _median(without, "for_good_s") / _median(with_, "for_good_s")
    return Finding("wall-clock until within 5 % for good, without / with TPE's draws", ratio)


def _median(found: Sequence[Reached], name: str) -> float:
    return float(statistics.median(getattr(one, name) for one in found))


def _line(name: str, found: Sequence[Reached]) -> str:
    figures = [_median(found, what) for what in ("first_s", "for_good_s", "evaluations")]
    lost = sum(math.isinf(one.for_good_s) for one in found)
    cells = [f"{value:8.0f}" if math.isfinite(value) else "       –" for value in figures]
    each_ms = statistics.fmean(one.proposal_ms for one in found)
    proposal = "" if math.isnan(each_ms) else f"   {each_ms:.1f} ms a proposal"
    return (
        f"{name:34} first {cells[0]} s   for good {cells[1]} s   {cells[2]} evaluations"
        f"   not at the horizon {lost}/{len(found)}{proposal}"
    )


@click.command()
@click.option("--table", "path", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--repetitions", type=click.IntRange(min=1), default=REPETITIONS)
@click.option("--first-seed", type=click.IntRange(min=0), default=FIRST_SEED, show_default=True)
@click.option("--window", "windows_s", type=float, multiple=True, default=WINDOWS_S)
@click.option("--smac/--no-smac", default=True, help="SMAC3 must be installed for it.")
@click.option("--only", default="", help="Run the searchers whose names begin so.")
def main(
    path: Path,
    repetitions: int,
    first_seed: int,
    windows_s: tuple[float, ...],
    *,
    smac: bool,
    only: str,
) -> None:
    """Replay searches on a recorded table and print medians in simulated seconds."""
    world = world_of(path)
    near = sum(world.is_near_best(row, WITHIN) for row in range(len(world.table.rows)))
    click.echo(
        f"{path}: {len(world.table.rows)} configurations, {near} within 5 % of the best"
        f" ({math.exp(world.best):.3f} of the baseline); noise of minute, start, window:"
        f" {np.std(world.minute_residuals):.3f}, {world.start_sd:.3f}, {world.window_sd:.3f}\n"
        f"recorded {world.table.setting}"
    )
    seeds = range(first_seed, first_seed + repetitions)
    finding.show(run(path, seeds, windows_s, smac=smac, only=only))


if __name__ == "__main__":
    main()
