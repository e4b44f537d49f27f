"""Proposals by Optuna's samplers: new, allowed, a function of the record; and their refusals."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.samplers import RandomSampler

from tests.search.spaces import SMALL, bind, loss_of, tiny_space
from tuner.definition.sampler_names import SAMPLERS
from tuner.errors import DefinitionError, HostError
from tuner.search.sampled import propose_by
from tuner.search.samplers import SamplerChoice, choose_sampler
from tuner.search.trials import MeasuredTrial

BASE = SMALL.baseline("stock")
STATIC = bind("nginx/static")


def searched(choice: SamplerChoice, blocks: int, seed: int = 1) -> list[MeasuredTrial]:
    """Return a search without noise, in blocks of five."""
    seen = [MeasuredTrial(BASE, (0.0,), looks=0)]
    for block in range(blocks):
        found = propose_by(
            choice, SMALL, (), BASE, seen, count=5, seed=seed * 1_000 + block, study_seed=seed
        )
        seen += [MeasuredTrial(each, (loss_of(each),)) for each in found]
    return seen


def choice(name: str) -> SamplerChoice:
    """Return a sampler by name."""
    found = choose_sampler(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.gp) if name == "gp" else name
        for name in SAMPLERS
        if name != "auto"
    ],
)
def test_every_sampler_proposes_new_configurations_in_a_function_of_the_record(name: str) -> None:
    """Distinct and allowed in every block; the same again with the same seed."""
    found = searched(choice(name), 4)
    digests = [each.configuration.digest for each in found]
    assert len(set(digests)) == len(digests) == 21
    for each in found:
        assert SMALL.complete(each.configuration.values, BASE) == each.configuration
    assert [e.configuration.digest for e in searched(choice(name), 4)] == digests


@pytest.mark.parametrize("name", ["tpe", "cmaes", "nsgaii"])
def test_samplers_learn_from_the_figures(name: str) -> None:
    """Late proposals are better than early ones."""
    losses = [sum(each.losses or ()) for each in searched(choice(name), 14)[1:]]
    assert sum(losses[-20:]) < sum(losses[:20]) - 20 * 0.02


def test_auto_is_no_sampler_of_optuna() -> None:
    """Tuner's own search has other means."""
    assert choose_sampler("auto") is None


class Watching(RandomSampler):
    """A sampler that keeps the numbers and values of the trials that it has seen."""

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(seed)
        self.seen: list[tuple[int, float | None]] = []

    def sample_relative(self, study: Any, trial: Any, search_space: Any) -> dict[str, Any]:
        """Note the trial."""
        self.seen.append((trial.number, None))
        return super().sample_relative(study, trial, search_space)

    def after_trial(self, study: Any, trial: Any, state: Any, values: Any) -> None:
        """Note its value."""
        self.seen.append((trial.number, values[0] if values else None))
        super().after_trial(study, trial, state, values)


def test_a_sampler_with_state_sees_the_trials_one_after_another() -> None:
    """The sampler proposes every trial of the record again, and each takes the record's values."""
    made = Watching(seed=1)
    seen = [MeasuredTrial(BASE, (0.0,)), MeasuredTrial(SMALL.baseline("hand"), None)]
    watching = SamplerChoice("watching", lambda _: made, replays=True)
    propose_by(watching, SMALL, (), BASE, seen, count=1, seed=5, study_seed=1)
    assert made.seen[:4] == [(0, None), (0, 0.0), (1, None), (1, None)]
    assert made.seen[4] == (2, None)


def test_an_exhausted_space_ends(tmp_path: Path) -> None:
    """Fewer configurations than asked for, and none when all are known."""
    tiny = tiny_space(tmp_path)
    base = tiny.baseline("stock")
    found = propose_by(
        choice("tpe"), tiny, (), base, [MeasuredTrial(base, (0.0,))], count=9, seed=1, study_seed=1
    )
    assert len(found) == 3


def test_two_objectives_and_pending_configurations() -> None:
    """A sampler of fronts gets both figures; what other workers measure is not proposed."""
    seen = [MeasuredTrial(BASE, (0.0, 0.0))]
    arguments: dict[str, Any] = {"count": 5, "seed": 1, "study_seed": 1, "objectives": 2}
    first = propose_by(choice("nsgaii"), SMALL, (), BASE, seen, **arguments)
    again = propose_by(choice("nsgaii"), SMALL, (), BASE, seen, pending=first, **arguments)
    assert not {c.digest for c in first} & {c.digest for c in again}


def test_a_space_with_conditions() -> None:
    """Proposals of a real space are complete for samplers that know no conditions."""
    base = STATIC.baseline("stock")
    for name in ("qmc", "nsgaii"):
        seen = [MeasuredTrial(base, (0.0,), looks=0)]
        for block in range(4):
            found = propose_by(
                choice(name), STATIC, (), base, seen, count=8, seed=block, study_seed=1
            )
            assert len(found) == 8
            seen += [MeasuredTrial(each, (0.1,)) for each in found]


# --- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "extra"), [("gp", "gp"), ("cmaes", "cmaes")])
def test_a_missing_library_is_named(name: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, with the command that installs it."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(DefinitionError, match=rf"pip install 'servertune\[{extra}\]'$"):
        choose_sampler(name)


def test_a_class_of_the_folder_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The class receives the seed if it takes one."""
    (tmp_path / "my_samplers.py").write_text(
        "from optuna.samplers import RandomSampler\n\n\nclass Mine(RandomSampler):\n    pass\n"
    )
    monkeypatch.chdir(tmp_path)
    found = choose_sampler("my_samplers:Mine")
    assert found is not None
    assert type(found.make(1)).__name__ == "Mine"
    assert len(searched(found, 2)) == 11
    digests = [[e.configuration.digest for e in searched(found, 2, seed=s)] for s in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no_such_module_here:X", "cannot be imported: ModuleNotFoundError"),
        ("optuna.samplers:NoSuchSampler", "cannot be imported: AttributeError"),
        ("optuna:Study", "is not a class derived from optuna.samplers.BaseSampler"),
        ("optuna.samplers:GridSampler", "cannot be created without arguments other than seed"),
        ("broken_samplers:X", "cannot be imported: SyntaxError"),
    ],
)
def test_what_is_no_sampler_is_refused_in_one_line(
    text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has the reason, whatever the class raises."""
    (tmp_path / "broken_samplers.py").write_text("def\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DefinitionError) as refused:
        choose_sampler(text)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


class Failing(optuna.samplers.RandomSampler):
    """A sampler with a bug."""

    def sample_relative(self, study: Any, trial: Any, search_space: Any) -> dict[str, Any]:
        """Fail."""
        del study, trial, search_space
        raise ZeroDivisionError("division by zero")


def test_a_failing_sampler_ends_the_study_with_its_reason() -> None:
    """A traceback would be a defect."""
    failing = SamplerChoice("mine:Failing", Failing)
    with pytest.raises(HostError, match="mine:Failing fails: ZeroDivisionError: division by zero"):
        searched(failing, 1)
