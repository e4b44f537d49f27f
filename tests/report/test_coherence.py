"""Baseline, tuned, ratio and interval agree: a reader who divides finds the ratio."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest

from tuner.judge.results import StudyResult, evaluate
from tuner.record.file import read_record
from tuner.record.model import Record
from tuner.report.data import as_data
from tuner.testing.sample_record import SampleOutcome, sample_record

RESULTS = Path(__file__).resolve().parents[2] / "studies" / "results"
KEPT = sorted(RESULTS.glob("*/record*.json.gz"))
OUTCOMES: tuple[SampleOutcome, ...] = ("better", "worse", "equivalent", "inconclusive")


def rows(study: StudyResult) -> list[dict[str, Any]]:
    """Return every row of the JSON data with a baseline, a tuned figure and a ratio."""
    data = as_data(study, Path())
    return [*data["figures"], *data["resources"]]


def assert_coherent(study: StudyResult) -> int:
    """Assert that figures agree with their ratios; return the number of ratios seen."""
    seen = 0
    for row in rows(study):
        if row["ratio"] is None:
            continue
        seen += 1
        assert row["tuned"] / row["baseline"] == pytest.approx(row["ratio"], rel=1e-9), row
        if row["ratio_low"] is not None:
            high = math.inf if row["ratio_high"] is None else row["ratio_high"]
            assert row["ratio_low"] <= row["tuned"] / row["baseline"] * (1 + 1e-9), row
            assert row["tuned"] / row["baseline"] <= high * (1 + 1e-9), row
    for block in study.used:
        baseline, tuned = block.values(study.objective)
        ratio = math.exp(block.difference(study.objective.difference_ln))
        assert tuned / baseline == pytest.approx(ratio, rel=1e-9)
    if study.estimate and study.figures:
        claim = study.figures[0]
        assert claim.candidate / claim.baseline == pytest.approx(study.estimate.ratio, rel=1e-9)
        assert study.estimate.low <= study.estimate.ratio <= study.estimate.high
    for trial in study.trials:
        if trial.blocks:
            assert trial.low <= trial.ratio <= trial.high
    return seen


@pytest.mark.parametrize("path", KEPT, ids=lambda p: f"{p.parent.name}-{p.name.split('.')[0]}")
def test_the_figures_of_a_kept_record_agree(path: Path) -> None:
    """All rows of a study agree; the quotient of a contest's arms lies in each pair's interval.

    Percentiles of an arm rise to its maximum.
    """
    record = read_record(path)
    study = evaluate(record)
    if study.contest is None:
        assert assert_coherent(study) > 5
        return
    arms = {arm.label: arm for arm in study.contest.arms}
    for arm in study.contest.arms:
        rising = [figure for figure in arm.latency_us.values() if not math.isnan(figure)]
        assert rising == sorted(rising)
    assert study.contest.compared
    for pair in study.contest.compared:
        name, found = pair.objective.name, pair.verdict.estimate
        quotient = arms[pair.claim.arm].value(name) / arms[pair.claim.against].value(name)
        assert found.low <= quotient <= found.high


@pytest.mark.parametrize(
    ("outcome", "objective"), list(itertools.product(OUTCOMES, ("p99", "throughput", "cpu")))
)
def test_the_figures_of_a_simulated_study_agree(outcome: SampleOutcome, objective: str) -> None:
    """Whatever the verdict and the objective."""
    record: Record = sample_record(outcome, objective=objective)
    assert assert_coherent(evaluate(record)) > 5
