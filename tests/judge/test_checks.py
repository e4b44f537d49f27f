"""Diagnostics of a confirmation name the cause that its windows show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.judge.results import evaluate
from tuner.record.model import Block
from tuner.testing.sample_record import sample_record


@pytest.mark.parametrize(
    ("bad", "cause"),
    [(True, "the server failed the load"), (False, "the host or the generator cannot hold")],
)
def test_invalid_windows_are_blamed_on_what_failed(bad: bool, cause: str) -> None:
    """A confirmation that gave up on them says whether server or host did."""

    def given_up(block: Block) -> Block:
        if block.phase != "confirm":
            return block
        windows = tuple(replace(w, bad=bad, invalid=("too few samples",)) for w in block.windows)
        return replace(block, windows=windows, state="invalid", reason="too few samples")

    record = sample_record("better", trials=6)
    found = evaluate(replace(record, blocks=tuple(map(given_up, record.blocks))))
    assert any(cause in warning for warning in found.warnings), found.warnings
