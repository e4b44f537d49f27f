"""The noise of looks, and what their other figures add, are found where the truth is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks import looks
from benchmarks.table import AT_ONCE, Row, Table, Window, load, place_next, save
from tuner.testing.sample_record import sample_record

DATA = Path(__file__).resolve().parents[2] / "benchmarks" / "data"
P99_SD, OTHERS_SD, BLOCK_SD = 0.08, 0.005, 0.3
CONFIGURATIONS, DEPLOYMENTS = 24, 60

Outputs = tuple[float, float, float, float]


def recorded(truth: Callable[[int], Outputs]) -> Table:
    """Return a table whose looks have a known noise, and a common disturbance in each deployment.

    The disturbance spares the baseline, so looks relative to it have it as noise.
    """
    random = np.random.default_rng(1)
    rows: list[list[Window]] = [[] for _ in range(CONFIGURATIONS + 1)]
    for deployment in range(DEPLOYMENTS):
        disturbance = random.normal(0, BLOCK_SD)
        for place in (0, *(1 + random.permutation(CONFIGURATIONS)[:AT_ONCE]).tolist()):
            noise = random.normal(0, (P99_SD, OTHERS_SD, OTHERS_SD, OTHERS_SD))
            outputs = np.array(truth(place)) + (noise + disturbance if place else 0.0)
            rows[place].append(Window(deployment, 0, *outputs.tolist()))
    return Table("", "proxy", 1e3, tuple(Row({"place": n}, tuple(w)) for n, w in enumerate(rows)))


def level(place: int) -> Outputs:
    """Return the same figures for all configurations."""
    return (0.0, 0.0, 0.0, 0.0) if place else (1.0, 1.0, 1.0, 1.0)


def test_noise_is_that_of_the_looks_and_of_their_block() -> None:
    """Relative to the baseline a look has the disturbance of its block too."""
    noise = looks.noise(looks.repeated(looks.of_table(recorded(level))))
    assert noise["p99"] == pytest.approx(math.hypot(P99_SD, BLOCK_SD), rel=0.2)
    assert noise["cpu"] == pytest.approx(BLOCK_SD, rel=0.2)


def test_within_a_block_only_the_noise_of_the_looks_is_left() -> None:
    """The other arms show what the block shares."""
    noise = looks.noise(looks.within_blocks(looks.of_table(recorded(level))))
    assert noise["p99"] == pytest.approx(P99_SD, rel=0.2)
    assert noise["p50"] < 2 * OTHERS_SD


def test_a_figure_that_follows_the_p99_improves_its_prediction_and_others_do_not() -> None:
    """p50 is the true p99 here, and CPU says nothing."""
    true = np.random.default_rng(2).normal(0, P99_SD, CONFIGURATIONS + 1)
    idle = np.random.default_rng(3).normal(0, P99_SD, CONFIGURATIONS + 1)
    table = recorded(lambda place: (true[place], true[place], idle[place], idle[place]))
    gains = looks.gains(looks.within_blocks(looks.of_table(table)))
    assert gains["p50"] < 0.9
    assert gains["cpu"] == pytest.approx(1.0, abs=0.1)


def test_the_best_are_the_quarter_with_the_lowest_p99() -> None:
    """The search keeps the best quarter."""
    table = recorded(lambda place: (float(place), 0.0, 0.0, 0.0))
    best = looks.best(looks.of_table(table))
    assert {look.configuration for look in best} == {str(n) for n in range(1, 7)}


def test_a_study_has_the_looks_of_its_trials() -> None:
    """Their p99 is the loss that the search uses."""
    record = sample_record()
    losses = {
        (trial.digest, block): loss
        for trial in record.trials
        if trial.origin != "baseline"
        for block, loss in trial.losses.items()
    }
    found = {(look.configuration, look.block): look.values[0] for look in looks.of_record(record)}
    assert found == pytest.approx(losses)


def test_a_table_reads_back_with_all_its_figures(tmp_path: Path) -> None:
    """An older one has p99 alone."""
    table = recorded(level)
    save(table, tmp_path / "table.json")
    again = load(tmp_path / "table.json")
    assert again.rows[3].windows[1].outputs == pytest.approx(
        table.rows[3].windows[1].outputs, abs=1e-4
    )
    assert again.deployments == DEPLOYMENTS
    old = load(DATA / "proxy.json")
    assert math.isnan(old.rows[1].windows[0].ln_p50_us)
    assert {name for name, sd in looks.noise(looks.of_table(old)).items() if sd > 0} == {"p99"}


def test_a_table_measures_all_configurations_once_and_then_the_best_again() -> None:
    """Those with the fewest windows come first."""
    random = np.random.default_rng(1)
    known = [[Window(0, 0, float(place))] * (1 + place % 2) for place in range(3 * AT_ONCE)]
    known[5] = []
    assert place_next(known, random, all_once=False)[0] == 5
    again = place_next(known, random, all_once=True)
    assert len(again) == AT_ONCE
    assert set(again) <= set(range(AT_ONCE + 1)) - {5}
