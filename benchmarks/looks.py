"""Noise of the search's looks, and what the quieter figures of a look say of its p99.

A look is one configuration in one block, relative to the baseline of the block. Looks at the same
configuration differ by noise alone. Each figure of a look is also compared with the mean ln p99 of
the *other* looks at the same configuration, which share none of its noise.

The search decides among the best, so the quarter of the configurations with the lowest p99 is shown
separately, relative to the level of the block and so without the baseline's noise. There the
question is whether another figure of a look improves the prediction that its p99 alone makes.

    python -m benchmarks.looks proxy studies/results/x/record.json.gz benchmarks/data/looks.json
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks import finding
from benchmarks.finding import Finding, at_most
from benchmarks.table import OUTPUTS, Table, Window, load
from tuner.app.session import open_store
from tuner.goals.objective import Objective
from tuner.judge.scoring import block_losses
from tuner.record.file import read_record
from tuner.record.model import Record
from tuner.search.schedule import KEEP
from tuner.stats.noise import repeat_noise
from tuner.stats.polish import arm_levels

FloatArray = NDArray[np.float64]
NAMES = tuple(metric.name for metric in OUTPUTS)
AIM = 0.05
"""Largest noise of a look at p99, ln units."""
BEST = KEEP
"""Share of the configurations that a search keeps and must rank."""
_LEAST_ARMS = 5
_LEAST_LOOKS = 8
"""Looks below which there is no figure."""


@dataclass(frozen=True, slots=True)
class Look:
    """One configuration in one block."""

    configuration: str
    block: int
    values: tuple[float, ...]
    """Ln ratio to the baseline of the block, for each of ``NAMES``; NaN if unknown."""


def of_record(record: Record) -> list[Look]:
    """Return the looks of a study's search."""
    found = []
    for block in record.blocks:
        if block.phase != "search":
            continue
        losses = [block_losses(block, Objective(name)) for name in NAMES]
        found += [
            Look(i.digest, block.number, tuple(of.get(i.instance, math.nan) for of in losses))
            for i in block.instances
            if i.trial is not None and i.instance in losses[0]
        ]
    return found


def of_table(table: Table) -> list[Look]:
    """Return the looks of a recorded table, whose first row is in every deployment."""
    by_deployment: dict[int, dict[int, list[Window]]] = defaultdict(lambda: defaultdict(list))
    for place, row in enumerate(table.rows):
        for window in row.windows:
            by_deployment[window.deployment][place].append(window)
    found = []
    for deployment, arms in by_deployment.items():
        places = sorted(arms)
        if places[0] != 0:
            continue
        levels = np.array(
            [_levels([arms[p] for p in places], output) for output in range(len(NAMES))]
        )
        found += [
            Look(str(place), deployment, tuple((levels[:, column] - levels[:, 0]).tolist()))
            for column, place in enumerate(places)
            if place
        ]
    return found


def _levels(arms: Sequence[Sequence[Window]], output: int) -> FloatArray:
    """Return the level of each arm over the rounds of a deployment, as the search does."""
    values = [{window.round: window.outputs[output] for window in arm} for arm in arms]
    rounds = sorted({round_ for own in values for round_ in own})
    figures = np.array([[own.get(round_, math.nan) for round_ in rounds] for own in values])
    kept = figures[:, np.isfinite(figures[0])]
    if not np.isfinite(kept).any(axis=1).all():
        return np.full(len(arms), math.nan)
    return arm_levels(kept)


def repeated(looks: Sequence[Look]) -> list[Look]:
    """Return the looks at configurations that have several."""
    counts = Counter(look.configuration for look in looks)
    return [look for look in looks if counts[look.configuration] > 1]


def best(looks: Sequence[Look]) -> list[Look]:
    """Return the looks at the configurations with the lowest mean p99."""
    groups = _groups(looks)
    order = sorted(groups, key=lambda configuration: float(groups[configuration][:, 0].mean()))
    kept = set(order[: max(1, round(BEST * len(order)))])
    return [look for look in looks if look.configuration in kept]


def within_blocks(looks: Sequence[Look]) -> list[Look]:
    """Return the looks relative to the level of their block, which at least ``_LEAST_ARMS`` show.

    A level from two or three arms would follow their noise.
    """
    arms = Counter(look.block for look in looks)
    looks = repeated([look for look in looks if arms[look.block] >= _LEAST_ARMS])
    if not looks:
        return []
    rows = {c: row for row, c in enumerate(sorted({look.configuration for look in looks}))}
    columns = {b: column for column, b in enumerate(sorted({look.block for look in looks}))}
    values = np.full((len(NAMES), len(rows), len(columns)), np.nan)
    for look in looks:
        values[:, rows[look.configuration], columns[look.block]] = look.values
    shift = np.full((len(NAMES), len(columns)), np.nan)
    for place, output in enumerate(values):
        # Older tables have p99 alone.
        if np.isfinite(output).any():
            shift[place] = np.nanmedian(output - arm_levels(output)[:, None], axis=0)
    return [
        Look(c.configuration, c.block, tuple((c.values - shift[:, columns[c.block]]).tolist()))
        for c in looks
    ]


def noise(looks: Sequence[Look]) -> dict[str, float]:
    """Return the standard deviation of a look for each output; 0 with too few looks."""
    groups = _groups(looks).values()
    return {
        name: repeat_noise([group[:, place] for group in groups], _LEAST_LOOKS)
        for place, name in enumerate(NAMES)
    }


def correlations(looks: Sequence[Look]) -> dict[str, float]:
    """Return each output's correlation with the mean ln p99 of the other looks."""
    values, others, _ = _pairs(looks)
    if len(others) < _LEAST_LOOKS:
        return {}
    return {
        name: float(np.corrcoef(values[:, place], others)[0, 1]) for place, name in enumerate(NAMES)
    }


def gains(looks: Sequence[Look]) -> dict[str, float]:
    """Return for each other output the error of a prediction with it / with p99 alone.

    A linear model predicts the mean ln p99 of the other looks; it is fitted to the looks at all
    other configurations.
    """
    values, others, owners = _pairs(looks)
    if len(set(owners)) < _LEAST_LOOKS:
        return {}
    alone = _error(values[:, :1], others, owners)
    return {
        name: _error(values[:, [0, place]], others, owners) / alone
        for place, name in enumerate(NAMES)
        if place and np.isfinite(values[:, place]).all()
    }


def _error(values: FloatArray, others: FloatArray, owners: NDArray[np.int64]) -> float:
    """Return the root mean square error of predictions for left-out configurations."""
    model = np.column_stack([np.ones(len(values)), values])
    errors = np.empty(len(others))
    for owner in set(owners.tolist()):
        out = owners == owner
        fitted = np.linalg.lstsq(model[~out], others[~out], rcond=None)[0]
        errors[out] = model[out] @ fitted - others[out]
    return float(np.sqrt(np.mean(errors**2)))


def _pairs(looks: Sequence[Look]) -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
    """Return each look, the mean ln p99 of the other looks, and the number of its configuration."""
    values, others, owners = [], [], []
    for number, group in enumerate(_groups(repeated(looks)).values()):
        for place, look in enumerate(group):
            values.append(look)
            others.append(np.delete(group[:, 0], place).mean())
            owners.append(number)
    return np.reshape(values, (-1, len(NAMES))), np.array(others), np.array(owners, dtype=np.int64)


def _groups(looks: Sequence[Look]) -> dict[str, FloatArray]:
    """Return the values by configuration, shape (looks, outputs)."""
    found: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for look in looks:
        found[look.configuration].append(look.values)
    return {configuration: np.array(values) for configuration, values in found.items()}


def findings(looks: Sequence[Look]) -> list[Finding]:
    """Return noise and correlations of each output, for all configurations and for the best."""
    known = [look for look in looks if math.isfinite(look.values[0])]
    among = within_blocks(best(known))
    found = [*_noise("", repeated(known)), *_noise(", the best", among)]
    found += [
        Finding(f"correlation of {name} with the p99 of other looks", value)
        for name, value in correlations(known).items()
        if math.isfinite(value)
    ]
    return found + [
        Finding(f"error of predicting p99 with {name} too / alone, the best", value)
        for name, value in gains(among).items()
    ]


def _noise(which: str, looks: Sequence[Look]) -> list[Finding]:
    return [
        Finding(
            f"sd of a look at {name}, ln units ({len(looks)} looks{which})",
            sd,
            aim=at_most(AIM) if name == NAMES[0] else None,
        )
        for name, sd in noise(looks).items()
        if sd > 0
    ]


def read(name: str) -> list[Look]:
    """Return the looks of a table, of an exported record, or of a study in this folder."""
    if name.endswith(".json"):
        return of_table(load(Path(name)))
    exported = name.endswith(".json.gz")
    return of_record(read_record(Path(name)) if exported else open_store(name, None).record())


@click.command()
@click.argument("names", nargs=-1, required=True)
def main(names: Sequence[str]) -> None:
    """Show the noise of looks in studies, exported records or recorded tables."""
    for name in names:
        looks = read(name)
        count = len({look.configuration for look in looks})
        click.secho(f"{name}: {len(looks)} looks at {count} configurations", bold=True)
        finding.show(findings(looks))


if __name__ == "__main__":
    main()
