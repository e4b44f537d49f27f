"""From windows to figures: block differences and trial losses, the same for search and report."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping

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
    """Mean signed log ratio to the baseline of each instance; negative is better.

    Rounds are complete blocks in themselves, so the finished rounds of an interrupted block count.
    """
    losses = {}
    for instance in block.instances:
        differences = round_differences(block, instance.instance, objective)
        if instance.instance != BASELINE and differences:
            losses[instance.instance] = objective.loss(statistics.fmean(differences))
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


def arm_mean_ln(block: Block, instance: str, objective: Objective) -> float:
    """Mean over the rounds of ln(objective) of one instance of a complete block."""
    return statistics.fmean(
        objective.ln(window) for window in block.windows if window.instance == instance
    )


def confirmation_differences(blocks: Iterable[Block], objective: Objective) -> list[float]:
    """d_i = mean ln(candidate) − mean ln(baseline) of each complete confirmation block."""
    differences = []
    for block in blocks:
        if block.phase == "confirm" and block.state == "complete":
            labels = [i.instance for i in block.instances]
            candidate = next(label for label in labels if label != BASELINE)
            differences.append(
                arm_mean_ln(block, candidate, objective) - arm_mean_ln(block, BASELINE, objective)
            )
    return differences


def windows_of(block: Block, instance: str) -> list[Measurement]:
    """The windows of one instance, in the order of measurement."""
    return [window for window in block.windows if window.instance == instance]
