"""The importance of parameters is shown only where the search can tell its trials apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scipy.stats import binom

from tests.seeds import RARE, rng
from tuner.judge.importance import shown_importance, trials_p
from tuner.record.model import Record, Trial
from tuner.stats.power import LEVEL
from tuner.testing.sample_record import sample_record


def record(effects: Sequence[float], seed: int = 1, *, looks: int = 2) -> Record:
    """Return a record with a trial for each true effect, each measured in several blocks."""
    noise = rng(seed)
    trials = tuple(
        Trial(
            number,
            f"{number:012x}",
            "proposed",
            "complete",
            {block: effect + float(noise.normal(0.0, 0.1)) for block in range(looks)},
            "",
        )
        for number, effect in enumerate(effects)
    )
    started = sample_record("better", stage="started")
    return replace(started, trials=trials, importance={"reuseport": 0.685, "sendfile": 0.315})


def test_an_importance_in_noise_alone_is_not_shown() -> None:
    """PED-ANOVA divides noise among the parameters too."""
    shown = [bool(shown_importance(record([0.0] * 12, seed))) for seed in range(200)]
    assert sum(shown) <= binom.isf(RARE, 200, LEVEL)


def test_an_importance_of_trials_that_differ_is_shown() -> None:
    """Half of the trials are twice as fast."""
    found = record([0.0, -0.7] * 6, looks=4)
    assert trials_p(found) < 1e-6
    assert shown_importance(found) == found.importance


def test_without_repeated_looks_nothing_is_known_of_the_noise() -> None:
    """Then no importance is shown."""
    assert trials_p(record([0.0, -0.7] * 6, looks=1)) == 1.0
    assert shown_importance(replace(record([0.0, -0.7]), trials=())) == {}
