"""Diagnostics of a confirmation name the cause that its windows show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.judge.results import evaluate
from tuner.measurement.window import Measurement
from tuner.record.model import Block
from tuner.testing.sample_record import sample_record


@pytest.mark.parametrize(
    ("errors", "cause"),
    [("wrong_length", "the server failed the load"), ("", "the host or the generator cannot hold")],
)
def test_invalid_windows_are_the_fault_of_a_server_that_fails_requests(
    errors: str, cause: str
) -> None:
    """Also where too few samples, a reason of the host's, follow from it."""

    def spoilt(window: Measurement) -> Measurement:
        counts = {errors: window.offered} if errors else {}
        return replace(window, errors=counts, invalid=("an effective sample of 0 requests",))

    def given_up(block: Block) -> Block:
        if block.phase != "confirm":
            return block
        windows = tuple(map(spoilt, block.windows))
        return replace(block, windows=windows, state="invalid", reason="too few samples")

    record = sample_record("better", trials=6)
    found = evaluate(replace(record, blocks=tuple(map(given_up, record.blocks))))
    assert any(cause in warning for warning in found.warnings), found.warnings
