"""TunerSampler in studies of Optuna: noisy, conditional, constrained."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

import tuner
from tuner.search.domains import Domains
from tuner.search.sampler import TunerSampler, _looked

DOCS = Path(__file__).resolve().parents[2] / "docs"
Objective = Callable[[optuna.Trial], float]


def truth(params: Mapping[str, Any]) -> float:
    """Return a bowl around x = 3; kind "b" is worse, and "c" is best with a large z."""
    extra = {"a": 0.0, "b": 1.0, "c": 0.5 - 1.0 * (params.get("z", 0) >= 7)}
    return float(0.2 * (params["x"] - 3.0) ** 2 + extra[params["kind"]])


def noisy(seed: int, noise: float, sign: float = 1.0) -> Objective:
    """Return the truth as an objective with noise."""
    rng = np.random.default_rng(seed)

    def objective(trial: optuna.Trial) -> float:
        params: dict[str, Any] = {
            "x": trial.suggest_float("x", -5.0, 5.0),
            "kind": trial.suggest_categorical("kind", ["a", "b", "c"]),
        }
        if params["kind"] == "c":
            params["z"] = trial.suggest_int("z", 1, 10)
        return sign * (truth(params) + float(rng.normal(0.0, noise)))

    return objective


def searched(objective: Objective, trials: int, **options: Any) -> optuna.Study:
    """Return a finished study."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=TunerSampler(seed=1, **options))
    study.optimize(objective, n_trials=trials)
    return study


@pytest.fixture(scope="module")
def usual() -> optuna.Study:
    """A study with noise as large as most differences."""
    return searched(noisy(1, 0.5), 80)


def test_what_it_recommends_is_good_in_truth(usual: optuna.Study) -> None:
    """The best is -0.5; random parameters have 2.3 on average."""
    best = TunerSampler.recommended(usual)
    assert truth(best.params) < -0.2
    assert best.value == pytest.approx(truth(best.params), abs=0.4)


def test_it_measures_the_better_ones_again(usual: optuna.Study) -> None:
    """Most configurations have one look, the recommended one has several."""
    looks = sorted(len(each.values) for each in _looked(usual))
    assert looks[len(looks) // 4] == 1
    assert TunerSampler.recommended(usual).looks >= 3


def test_without_repeats_every_trial_is_new() -> None:
    """``repeats=False`` is for objectives without noise."""
    study = searched(noisy(1, 0.0), 30, repeats=False)
    assert len(_looked(study)) == 30


def test_the_same_seed_gives_the_same_study() -> None:
    """Another seed gives another one."""
    one, same = (searched(noisy(1, 0.1), 25).trials for _ in range(2))
    assert [t.params for t in one] == [t.params for t in same]
    other = optuna.create_study(sampler=TunerSampler(seed=2))
    other.optimize(noisy(1, 0.1), n_trials=25)
    assert [t.params for t in one] != [t.params for t in other.trials]


def test_a_study_may_maximize() -> None:
    """The recommendation has the sign of the study."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=TunerSampler(seed=1))
    study.optimize(noisy(1, 0.1, sign=-1.0), n_trials=40)
    best = TunerSampler.recommended(study)
    assert truth(best.params) < 0.2
    assert best.value == pytest.approx(-truth(best.params), abs=0.3)


def test_dependent_parameters_are_learned_from_the_trials(usual: optuna.Study) -> None:
    """The parameter z exists for kind c alone, so candidates of other kinds have none."""
    domains = Domains.of([t for t in usual.trials if t.value is not None])
    assert domains.absent == {"z": ("kind", frozenset({"a", "b"}))}
    assert domains.active({"x": 1.0, "kind": "a", "z": 3}) == {"x": 1.0, "kind": "a"}
    assert domains.active({"x": 1.0, "kind": "c", "z": 3})["z"] == 3


def test_distances_know_choices_ranges_and_missing_values(usual: optuna.Study) -> None:
    """A share of the range for numbers; 1 for another choice and for a missing value."""
    domains = Domains.of([t for t in usual.trials if t.value is not None])
    names = list(domains.domains)
    found = domains.distances([{"x": 0.0, "kind": "a"}], [{"x": 5.0, "kind": "c", "z": 4}])
    assert dict(zip(names, found[0, 0], strict=True)) == {"x": 0.5, "kind": 1.0, "z": 1.0}


def test_constraints_and_pruned_trials_are_avoided() -> None:
    """The half that violates a constraint has the better values, and is not recommended."""
    rng = np.random.default_rng(1)

    def objective(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", -1.0, 1.0)
        trial.set_constraint("positive", -x)
        if x > 0.9:
            raise optuna.TrialPruned
        return x + float(rng.normal(0.0, 0.05))

    study = searched(objective, 60)
    assert 0.0 <= TunerSampler.recommended(study).params["x"] < 0.3
    late = [trial.params["x"] for trial in study.trials[30:]]
    assert sum(x > 0 for x in late) > 20


def test_an_exhausted_space_is_measured_again() -> None:
    """Four configurations and forty trials: no error, and all looks go to them."""
    rng = np.random.default_rng(1)

    def objective(trial: optuna.Trial) -> float:
        a = trial.suggest_categorical("a", [False, True])
        b = trial.suggest_int("b", 0, 9)
        return 2.0 * a + b + float(rng.normal(0.0, 1.0))

    study = searched(objective, 60)
    assert len(_looked(study)) <= 20
    assert TunerSampler.recommended(study).params["a"] is False


def test_trials_may_run_at_the_same_time() -> None:
    """Pending trials have no value yet; ask and tell work in any order."""
    objective = noisy(1, 0.1)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=TunerSampler(seed=1))
    for _ in range(8):
        asked = [study.ask() for _ in range(4)]
        values = [objective(trial) for trial in asked]
        for trial, value in reversed(list(zip(asked, values, strict=True))):
            study.tell(trial, value)
    assert truth(TunerSampler.recommended(study).params) < 1.0
    study.optimize(objective, n_trials=4, n_jobs=2)


def test_several_objectives_are_refused() -> None:
    """The message names the sampler."""
    study = optuna.create_study(directions=["minimize"] * 2, sampler=TunerSampler())
    with pytest.raises(ValueError, match="TunerSampler is for a single objective"):
        study.optimize(lambda trial: (trial.suggest_float("x", 0, 1), 0.0), n_trials=1)


def test_nothing_is_recommended_without_a_value() -> None:
    """Neither from an empty study."""
    with pytest.raises(ValueError, match="no trial is complete"):
        TunerSampler.recommended(optuna.create_study())
    with pytest.raises(ValueError, match="noise must be positive"):
        TunerSampler(noise=0.0)


def test_the_example_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    """The example runs as printed, and its recommendation is near the true optimum."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    page = (DOCS / "sampler.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    scope: dict[str, Any] = {}
    exec(example, scope)  # noqa: S102 - the page's own code
    assert scope["truth"](scope["best"].params) <= 8.5
    assert "looks" in capsys.readouterr().out


def test_it_is_public() -> None:
    """``tuner.TunerSampler``."""
    assert tuner.TunerSampler is TunerSampler
    assert "TunerSampler" in dir(tuner)
