"""From windows to figures: block differences and trial losses, the same for search and report."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from tuner.measurement import Measurement
from tuner.objective import Objective
from tuner.record import Block

BASELINE = "baseline"
"""Label of the baseline's instance in every block."""


def window_id(round_: int, instance: str) -> str:
    """Identity of a window within its block; ``Measurement.round`` reads it back."""
    return f"{round_:02d}-{instance}"


def by_round(block: Block, objective: Objective) -> dict[int, dict[str, float]]:
    """Logarithm of the objective of every valid window, by round and instance."""
    rounds: dict[int, dict[str, float]] = {}
    for window in block.windows:
        if window.valid:
            rounds.setdefault(window.round, {})[window.instance] = objective.ln(window)
    return rounds


def round_differences(block: Block, instance: str, objective: Objective) -> list[float]:
    """Log ratio to the baseline of each round in which both windows are valid, in order."""
    return [
        values[instance] - values[BASELINE]
        for _, values in sorted(by_round(block, objective).items())
        if instance in values and BASELINE in values
    ]


def block_losses(block: Block, objective: Objective) -> dict[str, float]:
    """Median over rounds of the signed log ratio to the baseline; negative is better.

    Rounds are complete blocks in themselves, so the finished rounds of an interrupted block count.
    """
    losses = {}
    for instance in block.instances:
        differences = round_differences(block, instance.instance, objective)
        if instance.instance != BASELINE and differences:
            losses[instance.instance] = objective.loss(statistics.median(differences))
    return losses


def trial_losses(blocks: Iterable[Block], objective: Objective) -> dict[int, dict[int, float]]:
    """Losses by trial number, then by block number, from the search blocks alone."""
    losses: dict[int, dict[int, float]] = {}
    for block in blocks:
        if block.phase != "search":
            continue
        found = block_losses(block, objective)
        for instance in block.instances:
            if instance.trial is not None and instance.instance in found:
                losses.setdefault(instance.trial, {})[block.number] = found[instance.instance]
    return losses


def mean_loss(losses: Mapping[int, float]) -> float:
    """Mean over blocks, by which trials are compared; infinite where nothing was measured.

    The mean and never the minimum: the smallest of many noisy looks is the luckiest one.
    """
    return statistics.fmean(losses.values()) if losses else math.inf


def counted_windows(block: Block, instance: str) -> list[Measurement]:
    """The windows of one instance that count, in the order of their rounds.

    Those of the rounds in which every instance of the block has a valid window: a round in which
    one arm was disturbed is left out for all arms.
    """
    valid: dict[int, dict[str, Measurement]] = {}
    for window in block.windows:
        if window.valid:
            valid.setdefault(window.round, {})[window.instance] = window
    present = {window.instance for window in block.windows}
    return [
        windows[instance]
        for _, windows in sorted(valid.items())
        if windows.keys() == present and instance in windows
    ]


def typical_ln(windows: Sequence[Measurement], metric: Callable[[Measurement], float]) -> float:
    """An arm's value in a block: the logarithm of its typical window, the median over rounds.

    A host that loses a tenth of its speed for a fifth of a second makes one window's p99 ten or a
    hundred times what it is elsewhere; a mean of logarithms follows such a window, the median
    does not. Which rounds are disturbed is the same chance for all arms, so the sign of a
    difference of medians is as random as that of a difference of means. What a configuration
    itself does now and then is not lost: p99.9 and the spread over windows are reported.

    Returns:
        NaN where there is no window, or one whose value is not positive and finite.
    """
    values = [metric(window) for window in windows]
    if not values or not all(math.isfinite(value) and value > 0 for value in values):
        return math.nan
    return statistics.median(map(math.log, values))


def windows_of(block: Block, instance: str) -> list[Measurement]:
    """All windows of one instance, in the order of measurement."""
    return [window for window in block.windows if window.instance == instance]
