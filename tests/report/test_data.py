"""The outcome for scripts: what is printed is what the published schema says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.phases.rig import rig
from tuner.judge.results import StudyResult, evaluate
from tuner.measurement.instrument import Instrument
from tuner.report.data import as_data, schema
from tuner.report.facts import method_facts
from tuner.report.markdown import render_markdown
from tuner.testing.sample_record import STAGES, Stage

Studies = Callable[..., StudyResult]


def check(data: dict[str, Any]) -> None:
    """Hold an outcome against the schema, as a script would read it: through JSON."""
    text = json.dumps(data, allow_nan=False)
    jsonschema.Draft202012Validator(schema()).validate(json.loads(text))


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_keeps_to_the_schema(study: Studies, stage: Stage) -> None:
    """However far a study came, its outcome is complete, with null where nothing is known."""
    check(as_data(study(stage=stage), Path("studies/x")))


def test_the_time_to_first_byte_is_there_or_absent(study: Studies) -> None:
    """Both arms have the figure; records of older versions lack it, which is not 0."""
    name = "time to first byte p99"
    found = study()
    (figure,) = [each for each in as_data(found, Path("x"))["figures"] if each["figure"] == name]
    assert 0 < figure["tuned"] < figure["baseline"]
    assert f"| {name} |" in render_markdown(found)
    blocks = tuple(
        replace(block, windows=tuple(replace(w, first_byte=None) for w in block.windows))
        for block in found.record.blocks
    )
    older = evaluate(replace(found.record, blocks=blocks))
    assert name not in {each["figure"] for each in as_data(older, Path("x"))["figures"]}
    assert "first byte" not in render_markdown(older)
    wrk2 = evaluate(replace(older.record, instrument=Instrument(load="wrk2")))
    assert dict(method_facts(wrk2))["Time to first byte"] == "not reported by wrk2"


@pytest.mark.parametrize("outcome", ["worse", "equivalent", "inconclusive"])
def test_every_verdict_keeps_to_the_schema(study: Studies, outcome: str) -> None:
    """The verdict is one of those that the schema names."""
    data = as_data(study(outcome), Path("studies/x"))
    assert data["verdict"] == outcome
    check(data)


def test_two_objectives_and_a_constraint_keep_to_the_schema() -> None:
    """Their own lists are filled, and valid; the sentence says each verdict once."""
    made = rig(objective=("p50", "memory"), wanted={"constraint": ["errors <= 1%"]}, time_s=400.0)
    result = evaluate(made.run())
    assert re.match(r"Better: p50 .* Equivalent: memory .* Limits: ", result.sentence)
    data = as_data(result, Path("studies/x"))
    assert len(data["objectives"]) == 2
    assert data["constraints"]
    check(data)


def test_the_schema_is_one_and_refuses(study: Studies) -> None:
    """The schema is valid by its draft and refuses an unknown or missing field."""
    jsonschema.Draft202012Validator.check_schema(schema())
    data = as_data(study(), Path("studies/x"))
    assert data["resources"]
    assert len(data["confirmation"]) == 13
    for wrong in ({**data, "more": 1}, {k: v for k, v in data.items() if k != "ratio"}):
        with pytest.raises(jsonschema.ValidationError):
            check(wrong)
