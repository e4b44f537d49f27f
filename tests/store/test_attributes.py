"""Attributes of a study's trials, read from a database and by Optuna."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import optuna
import pytest

from tuner.store.attributes import JsonAttributes, StoredTrial
from tuner.store.optuna_storage import StudyTrials
from tuner.store.storage import open_storage

VALUES: dict[str, Any] = {
    "text": "ä “quoted”\n",
    "number": 2**53 - 1,
    "fraction": 0.1,
    "infinite": math.inf,
    "window": {"p99_us": 1.5, "spans": [[1, 2]], "reason": None, "valid": True},
    "empty": {},
}


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database, by its URL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'record.db'}"
    url: str = request.getfixturevalue("url")
    return url


def test_a_database_and_optuna_give_the_same_trials(database: str) -> None:
    """In their order, in every state, without another study's."""
    storage = open_storage(database)
    trials = StudyTrials(storage, "mine", begin=True)
    StudyTrials(storage, "another", begin=True).create({"text": "not mine"})
    whole, failed, bare, running = (
        trials.create(attrs) for attrs in (VALUES, {"a": 1}, {}, {"b": 2})
    )
    trials.set_attr(running, "later", [1, 2])
    trials.set_attr(running, "b", 3)
    trials.end(whole, "complete", [0.5])
    trials.end(failed, "failed")
    study = optuna.load_study(study_name="mine", storage=storage)
    study.tell(trials.one(2).number, state=optuna.trial.TrialState.PRUNED)
    again = StudyTrials(open_storage(database), "mine")
    found = again.all()
    assert [(t.number, t.finished, dict(t.attrs)) for t in found] == [
        (t.number, t.finished, dict(t.attrs)) for t in again.all_again()
    ]
    assert [(t.number, t.finished, dict(t.attrs)) for t in found] == [
        (0, True, VALUES),
        (1, True, {"a": 1}),
        (2, True, {}),
        (3, False, {"b": 3, "later": [1, 2]}),
    ]
    assert bare != running


def test_a_study_without_trials_has_none(database: str) -> None:
    """Not an error."""
    assert StudyTrials(open_storage(database), "mine", begin=True).all() == []


def test_a_storage_in_memory_is_read_by_optuna() -> None:
    """Memory has no tables."""
    trials = StudyTrials(optuna.storages.InMemoryStorage(), "mine", begin=True)
    trials.create(VALUES)
    assert trials.all() == [StoredTrial(0, finished=False, attrs=VALUES)]


def test_an_attribute_is_decoded_when_it_is_used() -> None:
    """A damaged one disturbs nobody before."""
    attrs = JsonAttributes({"good": "[1, NaN]", "damaged": "{"})
    assert "damaged" in attrs
    assert list(attrs) == ["good", "damaged"]
    one, unknown = attrs["good"]
    assert (one, math.isnan(unknown)) == (1, True)
    with pytest.raises(ValueError, match="property name"):
        attrs["damaged"]
    with pytest.raises(KeyError):
        attrs["missing"]
