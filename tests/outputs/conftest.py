"""Synthetic studies for the formats, and the files that they are held against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.goldens import check_golden
from tuner.judge.results import StudyResult, evaluate
from tuner.record.model import Record
from tuner.testing.sample_record import sample_record

GOLDEN = Path(__file__).parent / "golden"
HOSTILE = '=cmd|"/c calc"!A0,\n# EOF\\{x="1"} \x1b'
"""Text that leaves its place in every format unless it is escaped."""


@cache
def _sample() -> StudyResult:
    return evaluate(sample_record("better"))


@pytest.fixture(scope="session")
def sample() -> StudyResult:
    """A finished study."""
    return _sample()


@pytest.fixture(scope="session")
def hostile() -> StudyResult:
    """The same with hostile text wherever a record may have any text."""
    record = _sample().record
    label = HOSTILE
    blocks = tuple(
        replace(
            block,
            reason=HOSTILE,
            windows=tuple(replace(w, invalid=(HOSTILE,) * (not w.valid)) for w in block.windows),
            instances=tuple(replace(each, message=label) for each in block.instances),
        )
        for block in record.blocks
    )
    return evaluate(
        replace(
            record,
            name=HOSTILE,
            definition={**record.definition, "workload": HOSTILE},
            host=replace(record.host, hostname=HOSTILE),
            server=replace(record.server, version=HOSTILE),
            blocks=blocks,
            trials=tuple(replace(trial, message=HOSTILE) for trial in record.trials),
        )
    )


@pytest.fixture
def shortened(sample: StudyResult) -> StudyResult:
    """The study with three blocks of the confirmation alone, for files that are kept."""
    record = sample.record
    confirm = [block for block in record.blocks if block.phase == "confirm"]
    kept: Record = replace(record, blocks=tuple(confirm[:3]), trials=record.trials[:2])
    return evaluate(kept)


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare a document with the kept one of that name; ACCEPT_GOLDEN=1 writes it anew."""

    def check(name: str, text: str) -> None:
        check_golden(GOLDEN / name, text)

    return check
