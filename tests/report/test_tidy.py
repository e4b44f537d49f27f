"""Tidy tables: every observation of a record, with the figures that its report shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import get_args

import pytest

from tuner.judge.results import evaluate
from tuner.paths import checkout
from tuner.record.model import Record
from tuner.report.tidy import TABLES, Cell, TidyTable, blocks, trials, windows
from tuner.report.tidy_columns import COLUMNS, TableName
from tuner.testing.sample_record import STAGES, Stage

Records = Callable[..., Record]
TYPES: Mapping[str, tuple[type, ...]] = {
    "text": (str,),
    "integer": (int,),
    "number": (int, float),
    "flag": (bool,),
    "any": (str, int, float, bool),
}


def dicts(table: TidyTable) -> list[dict[str, Cell]]:
    """Return the rows by the names of the columns."""
    return [dict(zip(table.names, row, strict=True)) for row in table.rows]


@pytest.mark.parametrize("stage", STAGES)
def test_every_cell_has_its_columns_type(record: Records, stage: Stage) -> None:
    """However far a study came, a cell is of the declared type or None, never NaN."""
    for name, table in ((name, of(record(stage=stage))) for name, of in TABLES.items()):
        assert table.columns[: len(COLUMNS[name])] == COLUMNS[name]
        for column, values in zip(table.columns, zip(*table.rows, strict=True), strict=False):
            for value in values:
                assert value is None or type(value) in TYPES[column.kind]
                assert not isinstance(value, float) or math.isfinite(value)


def test_windows_are_complete_and_in_order(record: Records) -> None:
    """One row per window in the order of measurement, invalid ones with their reasons."""
    kept = record()
    found = dicts(windows(kept))
    assert len(found) == sum(len(block.windows) for block in kept.blocks)
    assert [row["started_unix_s"] for row in found] == [
        window.started_unix_s for block in kept.blocks for window in block.windows
    ]
    invalid = [row for row in found if not row["valid"]]
    assert invalid
    assert all(row["invalid_reasons"] for row in invalid)


def test_ratios_of_the_confirmation_are_the_reports(record: Records) -> None:
    """The candidate's ratio in each block equals that of the report's block table."""
    kept = record()
    study = evaluate(kept)
    shown = {
        block.number: math.exp(block.difference(study.objective.difference_ln))
        for block in study.confirm
        if block.used
    }
    found = {
        row["block"]: row["ratio"]
        for row in dicts(blocks(kept))
        if row["phase"] == "confirm" and row["arm"] != "baseline" and row["state"] == "complete"
    }
    assert shown
    assert found == shown


def test_trials_have_their_figures_and_parameters(record: Records) -> None:
    """One row per trial with the report's ratio; a parameter that is not in use has no value."""
    kept = record()
    study = evaluate(kept)
    found = dicts(trials(kept))
    assert [row["trial"] for row in found] == [trial.number for trial in study.trials]
    measured = [(row, trial) for row, trial in zip(found, study.trials, strict=True)]
    assert all(row["ratio"] == trial.ratio for row, trial in measured if trial.blocks)
    for row, trial in measured:
        values = kept.configurations[trial.digest].values
        parameters = {k.removeprefix("params_"): v for k, v in row.items() if "params_" in k}
        assert {k: v for k, v in parameters.items() if v is not None} == dict(values)


def test_an_arm_without_a_counted_window_has_no_figure(record: Records) -> None:
    """An invalid window leaves out its round; without any round the figures are empty."""
    kept = record(stage="calibrated")
    spoilt = tuple(replace(window, invalid=("stolen",)) for window in kept.blocks[0].windows)
    table = blocks(replace(kept, blocks=(replace(kept.blocks[0], windows=spoilt),)))
    for row in dicts(table):
        assert row["windows_counted"] == 0
        assert row["windows_invalid"] == row["windows"]
        assert row["p99_us"] is row["value"] is row["ratio"] is None


def test_two_objectives_have_two_ratios(record: Records) -> None:
    """A trial of a study with two objectives has the ratio of each."""
    kept = record()
    both = replace(
        kept,
        definition={**kept.definition, "objective": ["p99", "memory"]},
        trials=tuple(replace(trial, second={0: math.log(2)}) for trial in kept.trials),
    )
    for one, two in zip(dicts(trials(kept)), dicts(trials(both)), strict=True):
        assert (one["second_objective"], one["second_ratio"]) == (None, None)
        assert two["second_objective"] == "memory"
        assert two["second_ratio"] == pytest.approx(2)


@pytest.mark.parametrize("name", get_args(TableName))
def test_the_documentation_lists_every_column(name: TableName) -> None:
    """docs/outputs.md has the name, type and meaning of each column, in order."""
    top = checkout()
    assert top is not None
    page = (top / "docs" / "outputs.md").read_text(encoding="utf-8")
    lines = [f"| `{each.name}` | {each.kind} | {each.meaning} |" for each in COLUMNS[name]]
    assert "\n".join(lines) in page
