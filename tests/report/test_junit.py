"""JUnit XML: what a build fails by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from tuner.judge.results import StudyResult, evaluate
from tuner.record.model import Original, Record
from tuner.report.junit import cases, render_junit

Studies = Callable[..., StudyResult]
Records = Callable[..., Record]


def outcomes(study: StudyResult) -> dict[str, str]:
    """Outcome by case."""
    return {case.name: case.outcome for case in cases(study)}


@pytest.mark.parametrize(
    ("outcome", "not_worse", "improvement"),
    [
        ("better", "passed", "passed"),
        ("worse", "failure", "failure"),
        ("equivalent", "passed", "failure"),
        ("inconclusive", "passed", "failure"),
    ],
)
def test_a_search_claims_an_improvement(
    study: Studies, outcome: str, not_worse: str, improvement: str
) -> None:
    """The improvement test case fails unless the verdict is better."""
    assert outcomes(study(outcome)) == {"not-worse": not_worse, "improvement": improvement}


def test_a_comparison_claims_nothing(record: Records) -> None:
    """Two given configurations are compared: equivalent is well."""
    compared = evaluate(replace(record("equivalent"), trials=()))
    assert outcomes(compared) == {"not-worse": "passed"}


def test_without_a_verdict_nothing_was_shown(study: Studies) -> None:
    """An unfinished study is an error; nothing found to be better is none."""
    assert outcomes(study(stage="confirming")) == {"not-worse": "error", "improvement": "error"}
    assert outcomes(study(stage="searched"))["improvement"] == "skipped"


def test_a_replication_that_disagrees_fails(record: Records) -> None:
    """The improvement was claimed elsewhere, and is not there again."""
    first = Original("first", "0" * 12, "other", 0.0, "p99", "better", 0.2, 0.19, 0.21, 12)
    again = evaluate(replace(record(), trials=(), original=first))
    assert outcomes(again)["improvement"] == "failure"


def test_the_document_is_well_formed_and_counts(study: Studies, hostile_record: Record) -> None:
    """A suite for each study, counts that agree with its cases, and text that stays text."""
    wild = evaluate(replace(hostile_record, name=f"{hostile_record.name}\x00\x1b"))
    text = render_junit([study("worse"), wild])
    root = ET.fromstring(text.partition("\n")[2])  # noqa: S314 - our own text
    suites = root.findall("testsuite")
    assert [suite.get("failures") for suite in suites] == ["2", "0"]
    for suite in suites:
        assert suite.get("tests") == str(len(suite.findall("testcase")))
    failure = suites[0].find("testcase/failure")
    assert failure is not None
    assert str(failure.get("message")).startswith("Worse: ")
    assert "<img" in str(suites[1].get("name"))
    assert "\x00" not in text
