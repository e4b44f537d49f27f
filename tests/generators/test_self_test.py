"""The self-test as tuner runs it, and one that goes wrong.

The real one runs in ``test_schema.py``, which holds its report against its schema too.
"""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from tuner.errors import InstrumentError
from tuner.generators.self_test import self_test
from tuner.machine.facts import CoreSplit

CORES = CoreSplit((0,), (1, 2), (), shared=False)
REPORT = {
    "shared_core": False,
    "floor": {"p50_us": 20.0, "p99_us": 60.0},
    "accuracy": [{"worst_error": 0.01}, {"worst_error": 0.004}],
    "capacity": [{"open_per_s": 90_000.0, "closed_per_s": 120_000.0}],
    "verdict": {
        "fit": True,
        "above_us": 25.0,
        "noise_us": 15.0,
        "pacing_us": 10.0,
        "reasons": [],
    },
}


def program(folder: Path, script: str) -> Path:
    """Return a program in place of tuner-loadgen."""
    path = folder / "tuner-loadgen"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_the_report_is_read_whatever_the_verdict(tmp_path: Path) -> None:
    """The self-test runs on the study's cores; its exit code 1 is a verdict, not a failure."""
    verdict = {**REPORT["verdict"], "fit": False, "reasons": ["the host is busy"]}  # type: ignore[dict-item]
    text = json.dumps({**REPORT, "verdict": verdict})
    binary = program(tmp_path, f"echo \"$@\" > {tmp_path}/asked; echo '{text}'; exit 1")
    found = self_test(binary, CORES, 18.0)
    assert (found.fit, found.reasons) == (False, ("the host is busy",))
    assert (found.worst_error, found.open_per_s) == (0.01, 90_000.0)
    asked = (tmp_path / "asked").read_text().strip()
    assert asked == "self-test --json --for 18 --cpus 0 --server-cpus 1"


def test_an_error_that_is_unknown_is_not_the_largest(tmp_path: Path) -> None:
    """The worst error is unknown if one part could not be measured."""
    accuracy = [{"worst_error": 0.01}, {"worst_error": None}]
    text = json.dumps({**REPORT, "accuracy": accuracy})
    assert self_test(program(tmp_path, f"echo '{text}'"), CORES, 18.0).worst_error is None


@pytest.mark.parametrize(
    ("script", "words"),
    [("exit 2", "exit code 2"), ("echo nothing", "no report"), ("echo '{}'", "no report")],
)
def test_a_self_test_that_breaks_off_is_an_error(tmp_path: Path, script: str, words: str) -> None:
    """No figure is made up."""
    with pytest.raises(InstrumentError, match=words):
        self_test(program(tmp_path, script), CORES, 18.0)
