"""From windows to figures: block differences and trial losses, the same for search and report."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tuner.goals.constraint import Constraint
from tuner.goals.objective import Objective
from tuner.measurement.window import Measurement
from tuner.record.model import Block, Figures
from tuner.stats.additive import fit
from tuner.stats.polish import arm_levels

BASELINE = "baseline"
"""Label of the baseline's instance in every block."""

_COPY = "#"


def copy_of(label: str, number: int) -> str:
    """Return the label of an arm's further instance in the same block; of the first, its own."""
    return f"{label}{_COPY}{number}" if number > 1 else label


def original(label: str) -> str:
    """Return the label of the first instance of an arm."""
    return label.partition(_COPY)[0]


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


def round_differences(block: Block, objective: Objective) -> dict[str, list[float]]:
    """Log ratios to the baseline, by instance: of each round with both windows valid, in order."""
    found: dict[str, list[float]] = {}
    for _, values in sorted(by_round(block, objective).items()):
        for instance, value in values.items():
            difference = value - values.get(BASELINE, math.nan)
            if math.isfinite(difference):
                found.setdefault(instance, []).append(difference)
    return found


def block_losses(block: Block, objective: Objective) -> dict[str, float]:
    """Signed log ratio to the baseline of every instance that has one; negative is better.

    The difference of the levels that the arms have over the rounds, where what a whole round shared
    is taken out (``tuner.stats.polish``). Rounds are complete blocks in themselves, so the finished
    ones of an interrupted block count; those in which the baseline has no valid window do not. A
    capacity has no rounds; it follows from all windows of an instance.
    """
    if block.figures is not None:
        return dict(block.figures.losses.get(objective.text, {}))
    ratios = _capacities(block, objective) if objective.slo else _polished(block, objective)
    return {
        name: objective.loss(ratio)
        for name, ratio in ratios.items()
        if name != BASELINE and math.isfinite(ratio)
    }


def _polished(block: Block, objective: Objective) -> dict[str, float]:
    """Level of every arm less the baseline's, ln units, from all arms at once."""
    finite = [
        {name: value for name, value in values.items() if math.isfinite(value)}
        for values in by_round(block, objective).values()
    ]
    rounds = [values for values in finite if BASELINE in values]
    names = sorted({name for values in rounds for name in values})
    if not names:
        return {}
    levels = arm_levels([[values.get(name, math.nan) for values in rounds] for name in names])
    base = float(levels[names.index(BASELINE)])
    return {name: float(level) - base for name, level in zip(names, levels, strict=True)}


def _capacities(block: Block, objective: Objective) -> dict[str, float]:
    base = windows_of(block, BASELINE)
    return {
        i.instance: objective.difference_ln(windows_of(block, i.instance), base)
        for i in block.instances
    }


def differences(block: Block, objective: Objective) -> list[list[float]]:
    """Log ratios of each two instances of a block, such as identical ones: (k, k)."""
    arms = [counted_windows(block, i.instance) for i in block.instances]
    return [[objective.difference_ln(own, other) for other in arms] for own in arms]


def block_excess(block: Block, constraint: Constraint) -> dict[str, float]:
    """Return the excess of each candidate over a limit; see ``Constraint.excess``."""
    if block.figures is not None:
        return dict(block.figures.excess.get(constraint.text, {}))
    valid = {
        i.instance: [w for w in windows_of(block, i.instance) if w.valid] for i in block.instances
    }
    base = valid.get(BASELINE, [])
    found = {
        name: constraint.excess(own, base)
        for name, own in valid.items()
        if name != BASELINE and own
    }
    return {name: value for name, value in found.items() if math.isfinite(value)}


def trial_losses(blocks: Iterable[Block], objective: Objective) -> dict[int, dict[int, float]]:
    """Losses by trial number, then by block number, from the search blocks alone."""
    return _by_trial(blocks, lambda block: block_losses(block, objective))


@dataclass(frozen=True, slots=True)
class Pooled:
    """The whole search in one fit; see ``tuner.stats.additive``."""

    effects: Mapping[int, float]
    """By trial: signed log ratio to the baseline, shrunk; negative is better."""
    blocks: tuple[int, ...]
    """Numbers of the blocks, in order of time."""
    baseline: tuple[float, ...]
    """Figure of the baseline's own instance in each block, signed ln."""
    disturbed: tuple[int, ...]
    """Numbers of the blocks whose baseline is contradicted by the other arms."""


def pooled(
    blocks: Iterable[Block], objective: Objective, *, sigma_d: float, correlation: float
) -> Pooled:
    """Estimate every trial of the search from all arms of all its blocks.

    Args:
        sigma_d: of two identical instances in one block, from the A/A blocks.
        correlation: of identical instances in one block, likewise.
    """
    search = [block for block in blocks if block.phase == "search"]
    base = {block.number: _baseline_level(block, objective) for block in search}
    numbers = tuple(number for number, level in base.items() if math.isfinite(level))
    losses = trial_losses(search, objective)
    if not numbers or not sigma_d > 0:
        effects = {trial: mean_loss(found) for trial, found in losses.items()}
        return Pooled(effects, numbers, tuple(base[n] for n in numbers), ())
    place = {number: column for column, number in enumerate(numbers)}
    looks = [(0, column, base[number]) for number, column in place.items()]
    looks += [
        (row, place[number], base[number] + loss)
        for row, found in enumerate(losses.values(), 1)
        for number, loss in found.items()
        if number in place and math.isfinite(loss)
    ]
    rows, columns, figures = zip(*looks, strict=True)
    fitted = fit(
        rows,
        columns,
        figures,
        configurations=1 + len(losses),
        sigma=sigma_d / math.sqrt(2),
        correlation=correlation,
    )
    return Pooled(
        effects=dict(zip(losses, fitted.effects[1:].tolist(), strict=True)),
        blocks=numbers,
        baseline=tuple(base[number] for number in numbers),
        disturbed=tuple(numbers[place] for place in fitted.disturbed),
    )


def figures_of(
    block: Block, objectives: Iterable[Objective], limits: Iterable[Constraint]
) -> Figures:
    """Return the figures of a block that a search needs."""
    wanted = tuple(objectives)
    return Figures(
        losses={objective.text: block_losses(block, objective) for objective in wanted},
        levels={objective.text: _baseline_level(block, objective) for objective in wanted},
        excess={limit.text: block_excess(block, limit) for limit in limits},
        bad=tuple(sorted({window.instance for window in block.windows if window.bad})),
    )


def _baseline_level(block: Block, objective: Objective) -> float:
    if block.figures is not None:
        return block.figures.levels.get(objective.text, math.nan)
    windows = [w for w in windows_of(block, BASELINE) if objective.slo or w.valid]
    return objective.loss(objective.arm_ln(windows)) if windows else math.nan


def trial_excess(blocks: Iterable[Block], constraint: Constraint) -> dict[int, dict[int, float]]:
    """Excess over a limit by trial number, then by block number, from the search alone."""
    return _by_trial(blocks, lambda block: block_excess(block, constraint))


def _by_trial(
    blocks: Iterable[Block], figures: Callable[[Block], Mapping[str, float]]
) -> dict[int, dict[int, float]]:
    by_trial: dict[int, dict[int, float]] = {}
    for block in blocks:
        if block.phase != "search":
            continue
        found = figures(block)
        for instance in block.instances:
            if instance.trial is not None and instance.instance in found:
                by_trial.setdefault(instance.trial, {})[block.number] = found[instance.instance]
    return by_trial


def mean_loss(losses: Mapping[int, float]) -> float:
    """Return mean over blocks, by which trials are compared; infinite where nothing was measured.

    The mean and never the minimum: the smallest of many noisy looks is the luckiest one.
    """
    return statistics.fmean(losses.values()) if losses else math.inf


def counted_windows(block: Block, instance: str) -> list[Measurement]:
    """Return the windows of one instance that count, in the order of their rounds.

    Those of the rounds in which every instance of the block has a valid window: a round in which
    one arm was disturbed is left out for all arms. An arm that left the block does not count.
    """
    left = {i.instance for i in block.instances if i.state == "dropped"}
    valid: dict[int, dict[str, Measurement]] = {}
    for window in block.windows:
        if window.valid:
            valid.setdefault(window.round, {})[window.instance] = window
    present = {window.instance for window in block.windows} - left
    return [
        windows[instance]
        for _, windows in sorted(valid.items())
        if windows.keys() >= present and instance in windows
    ]


def windows_of(block: Block, instance: str) -> list[Measurement]:
    """Return all windows of one instance, in the order of measurement."""
    return [window for window in block.windows if window.instance == instance]
