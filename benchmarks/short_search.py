"""Share of short searches that end near the best configuration of a recorded table.

tuner's search of a ten-minute study has about four minutes. It is replayed on a recorded table (as
in benchmarks/efficiency.py) with the noise of windows, in which the table was recorded, and with
that of slices. A search succeeds if the p99 of the configuration that it would confirm exceeds the
best one's by at most 5 %.

    python -m benchmarks.short_search --repetitions 20
"""

from __future__ import annotations

import os
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import click
import optuna

from benchmarks import finding
from benchmarks.efficiency import FIRST_SEED
from benchmarks.finding import Finding
from benchmarks.goal import WITHIN
from benchmarks.own_search import ours
from benchmarks.replay import world_of

TABLE = Path(__file__).parent / "data" / "proxy.json"
TIME_S = 240.0
NOISE = {"windows": 1.0, "slices": 0.5}
"""Noise of a look, as a share of the table's. Within a block that of slices was 0.058 for looks of
2 s (``data/proxy-slices.json``), and that of windows 0.196 for looks of 1 s (``data/proxy.json``),
at different hours (benchmarks/looks.py): 0.42 for the same length, rounded up."""


def run(path: Path, seeds: range) -> list[Finding]:
    """Replay a search with each seed and each noise."""
    found = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for name, noise in NOISE.items():
            ended = list(pool.map(_succeeds, [(path, noise, seed) for seed in seeds]))
            title = f"share of {len(seeds)} searches within 5 %, noise of {name}"
            found.append(Finding(title, statistics.fmean(ended)))
    return found


def _succeeds(arguments: tuple[Path, float, int]) -> bool:
    path, noise, seed = arguments
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    world = replace(world_of(path), noise=noise)
    return world.is_near_best(ours(world, seed, TIME_S)[-1].row, WITHIN)


@click.command()
@click.option("--table", "path", type=click.Path(exists=True, path_type=Path), default=TABLE)
@click.option("--repetitions", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--first-seed", type=click.IntRange(min=0), default=FIRST_SEED, show_default=True)
def main(path: Path, repetitions: int, first_seed: int) -> None:
    """Replay short searches on a recorded table."""
    finding.show(run(path, range(first_seed, first_seed + repetitions)))


if __name__ == "__main__":
    main()
