"""Synthetic studies shared by the tests of the reports; drawn once, since they hold requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.goldens import check_golden
from tuner.judge.results import StudyResult, evaluate
from tuner.record.model import Record
from tuner.testing.sample_record import SampleOutcome, Stage, sample_record

HOSTILE = "</script><img src=x onerror=\"document.title='pwned'\">{{ 7 * 7 }}<!--"
"""Markup that would change the page's title if a report let it run."""
GOLDEN = Path(__file__).parent / "golden"


@cache
def _record(outcome: SampleOutcome, stage: Stage, objective: str) -> Record:
    return sample_record(outcome, stage=stage, objective=objective)


@pytest.fixture(scope="session")
def record() -> Callable[..., Record]:
    """A record by outcome, stage and objective."""

    def make(
        outcome: SampleOutcome = "better", stage: Stage = "confirmed", objective: str = "p99"
    ) -> Record:
        return _record(outcome, stage, objective)

    return make


@pytest.fixture(scope="session")
def study(record: Callable[..., Record]) -> Callable[..., StudyResult]:
    """The evaluated study by outcome, stage and objective."""
    return lambda *choice, **named: evaluate(record(*choice, **named))


@pytest.fixture(scope="session")
def hostile_record() -> Record:
    """A whole study with markup wherever a study brings in text."""
    original = _record("better", "confirmed", "p99")
    blocks = tuple(
        replace(block, reason=f"{block.reason} {HOSTILE}") if block.reason else block
        for block in original.blocks
    )
    trials = tuple(replace(trial, message=HOSTILE) for trial in original.trials)
    configurations = {
        digest: replace(
            entry,
            values={**entry.values, HOSTILE: f"{HOSTILE}{digest}"},
            text=f"# {digest} {HOSTILE}\n{entry.text}",
        )
        for digest, entry in original.configurations.items()
    }
    return replace(
        original,
        name=HOSTILE,
        command=HOSTILE,
        notes=(HOSTILE,),
        definition={**original.definition, "baseline": HOSTILE, "allow": [HOSTILE], HOSTILE: 1},
        host=replace(original.host, hostname=HOSTILE),
        server=replace(original.server, build=HOSTILE),
        blocks=blocks,
        trials=trials,
        configurations=configurations,
        importance={HOSTILE: 0.5, **original.importance},
    )


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare a text with the file kept under a name; ACCEPT_GOLDEN=1 writes it anew."""

    def check(name: str, text: str) -> None:
        check_golden(GOLDEN / name, text)

    return check
