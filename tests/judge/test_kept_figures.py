"""Every record under studies/results is evaluated to the figures that were published with it.

``figures/`` keeps every number, verdict and state of each record's ``--json`` output, sentences
left out. A change of the estimator on purpose deletes the file of that record; the next run writes
it anew and fails once, so that the new figures are seen in the commit.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tuner.judge.results import evaluate
from tuner.record.file import read_record
from tuner.report.data import as_data, contest_data

RESULTS = Path(__file__).resolve().parents[2] / "studies" / "results"
RECORDS = sorted(RESULTS.glob("*/record*.json.gz"))
KEPT = Path(__file__).with_name("figures")
STATES = frozenset({"verdict", "state", "status", "side", "mode"})
"""Keys whose text is a figure too: one word from a fixed list."""


def figures(value: Any, path: str = "") -> dict[str, Any]:
    """Return every number and every state of JSON data by its path."""
    if isinstance(value, dict):
        return {
            k: v for key, part in value.items() for k, v in figures(part, f"{path}/{key}").items()
        }
    if isinstance(value, list):
        return {
            k: v for i, part in enumerate(value) for k, v in figures(part, f"{path}/{i}").items()
        }
    if isinstance(value, str) and path.rpartition("/")[2] not in STATES:
        return {}
    return {path: value}


def same(one: object, other: object) -> bool:
    """Return whether two figures agree, numbers to twelve digits."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-12)
    return one == other


def test_there_are_records() -> None:
    """The list below is not empty."""
    assert len(RECORDS) >= 8


@pytest.mark.parametrize("path", RECORDS, ids=lambda p: f"{p.parent.name}-{p.name.split('.')[0]}")
def test_a_kept_record_is_evaluated_to_the_same_figures(path: Path) -> None:
    """To the last digit but for rounding, which differs between processors' vector units."""
    record = read_record(path)
    result = evaluate(record)
    found = contest_data(result.contest) if result.contest else as_data(result, path.parent)
    kept = KEPT / f"{path.parent.name}-{path.name.split('.')[0]}.json"
    if not kept.is_file():
        kept.write_text(json.dumps(figures(found), indent=0) + "\n", encoding="utf-8")
        pytest.fail(f"{kept.name} was missing and is now written; look at it, then run again")
    now, then = figures(found), json.loads(kept.read_text(encoding="utf-8"))
    assert now.keys() == then.keys()
    assert {path: (then[path], now[path]) for path in now if not same(now[path], then[path])} == {}
