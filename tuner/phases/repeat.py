"""Repetition of a block that failed for reasons other than the configurations."""

from __future__ import annotations

from tuner.errors import HostError, InstrumentError, UnreachableError
from tuner.phases.bench import Bench
from tuner.phases.block import BlockSpec, Drop, Witness, keep_all, run_block, see_nothing
from tuner.record.model import Block

_CALLED = {"aa": "A/A"}
"""Names of phases in messages, where they differ from those in the record."""
MOST_REPEATS = 3
"""Attempts for a block before the study gives up."""
FIRST_PAUSE_S = 5.0
"""First pause before repeating a block on a silent host; each later one is four times longer."""


class InvalidBlockError(HostError):
    """A block that was not valid in any attempt.

    Args:
        message: the error in words.
        overloaded: whether an arm did not keep up with the load.
    """

    def __init__(self, message: str, *, overloaded: bool = False) -> None:
        super().__init__(message)
        self.overloaded = overloaded


def repeat_until_complete(
    bench: Bench, spec: BlockSpec, drop: Drop = keep_all, witness: Witness = see_nothing
) -> Block:
    """Run a block, and repeat it while it fails for reasons other than the configurations.

    Raises:
        HostError, InstrumentError: it failed ``MOST_REPEATS`` times.
    """
    problem, overloaded = "", False
    for attempt in range(1, MOST_REPEATS + 1):
        failure: Exception | None = None
        try:
            block = run_block(bench, spec, drop, witness)
            problem, overloaded = block.reason, any(window.bad for window in block.windows)
        except (HostError, InstrumentError) as error:
            if attempt == MOST_REPEATS:
                raise
            problem, failure = str(error), error
        else:
            if block.state == "complete":
                return block
        bench.progress.note(f"block repeated ({attempt} of {MOST_REPEATS}): {problem}")
        wait_out(bench, failure, attempt)
    name = f"{_CALLED.get(spec.phase, spec.phase)} block {spec.index + 1}"
    raise InvalidBlockError(
        f"{name} was not valid in {MOST_REPEATS} attempts; the last time: {problem}",
        overloaded=overloaded,
    )


def wait_out(bench: Bench, failure: Exception | None, attempt: int) -> None:
    """Wait for a silent host, longer at every attempt."""
    if isinstance(failure, UnreachableError):
        pause_s = FIRST_PAUSE_S * 4 ** (attempt - 1)
        bench.progress.note(f"waiting {pause_s:.0f} s for the host")
        bench.pause(pause_s)
