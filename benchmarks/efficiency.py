"""Time that tuner's search and others take to find the best configuration of a recorded table.

All searchers measure in the same world (benchmarks/replay.py), with the same true values and the
same noise, drawn from real residuals: tuner's own search (benchmarks/own_search.py), and the others
with several lengths of their windows (benchmarks/rivals.py). tuner's search runs a second time
without the draws of TPE, with the time that its proposals take. The goal is that of
benchmarks/goal.py.

    python -m benchmarks.efficiency --table benchmarks/data/proxy.json --repetitions 50
    python -m benchmarks.efficiency --table benchmarks/data/proxy.json --only tuner
"""

from __future__ import annotations

import math
import os
import statistics
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import click
import numpy as np
import optuna

from benchmarks import finding
from benchmarks.finding import Finding, at_most
from benchmarks.goal import NEVER, WITHIN, Reached, Searcher, reached
from benchmarks.own_search import ours
from benchmarks.replay import world_of
from benchmarks.rivals import TooSlowError, rivals
from tuner.phases import search as search_phase
from tuner.search.propose import propose
from tuner.space.configuration import Configuration

REPETITIONS = 50
FIRST_SEED = 1000
"""First seed; the search was designed on lower ones, so its figures there are too good."""
WINDOWS_S = (3.0, 10.0, 30.0)
"""Lengths of the others' windows."""
LIMIT_S = 600.0
"""Processor time of one search by the others: proposals of Gaussian processes take ever longer."""
WITHOUT_TPE = "tuner without TPE"


@dataclass
class Timed:
    """tuner's proposals, with the processor time that they take."""

    tpe: bool = True
    spent_s: float = 0.0
    count: int = 0

    def __call__(self, *arguments: Any, **options: Any) -> list[Configuration]:
        """Return the proposals of ``tuner.search.propose.propose``."""
        begun_s = time.process_time()
        found = propose(*arguments, **options, tpe=self.tpe)
        self.spent_s += time.process_time() - begun_s
        self.count += len(found)
        return found

    @property
    def each_ms(self) -> float:
        """Mean time of a proposal."""
        return 1e3 * self.spent_s / self.count if self.count else math.nan


@dataclass(frozen=True, slots=True)
class Chosen:
    """The table, and the searchers that run on it."""

    path: Path
    windows_s: tuple[float, ...]
    smac: bool
    limit_s: float
    only: str = ""
    """Beginning of the names of the searchers to run; empty for all."""

    def searchers(self) -> Iterator[tuple[str, Searcher]]:
        """Yield every searcher by its name, tuner's first."""
        yield "tuner", ours
        yield WITHOUT_TPE, ours
        yield from rivals(self.windows_s, smac=self.smac, limit_s=self.limit_s)


def _one(chosen: Chosen, name: str, seed: int) -> Reached:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    world = world_of(chosen.path)
    searcher = dict(chosen.searchers())[name]
    timed = Timed(tpe=name != WITHOUT_TPE)
    try:
        with mock.patch.object(search_phase, "propose", timed):
            found = reached(world, searcher(world, seed))
    except TooSlowError:
        return replace(NEVER, cut=True)
    return replace(found, proposal_ms=timed.each_ms)


def run(chosen: Chosen, seeds: range) -> list[Finding]:
    """Run every searcher once with each seed; return the medians."""
    found: dict[str, list[Reached]] = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for name, _ in chosen.searchers():
            if not name.startswith(chosen.only):
                continue
            count = len(seeds)
            found[name] = list(pool.map(_one, [chosen] * count, [name] * count, seeds))
            click.echo(_line(name, found[name]))
    others = [name for name in found if not name.startswith("tuner")]
    findings = [_without_tpe(found["tuner"], found[WITHOUT_TPE])] if WITHOUT_TPE in found else []
    if not others or "tuner" not in found:
        return findings
    best_first = min(_median(found[name], "first_s") for name in others)
    best_good = min(_median(found[name], "for_good_s") for name in others)
    mine = found["tuner"]
    return [
        *findings,
        Finding(
            "wall-clock until within 5 % for good / best of the others",
            _median(mine, "for_good_s") / best_good,
            "",
            at_most(0.5),
        ),
        Finding(
            "wall-clock until within 5 % at first / best of the others",
            _median(mine, "first_s") / best_first,
        ),
    ]


def _without_tpe(with_: Sequence[Reached], without: Sequence[Reached]) -> Finding:
    """Return the ratio of the times until the goal, without TPE and with it."""
    ratio = _median(without, "for_good_s") / _median(with_, "for_good_s")
    return Finding("wall-clock until within 5 % for good, without / with TPE's draws", ratio)


def _median(found: Sequence[Reached], name: str) -> float:
    return float(statistics.median(getattr(one, name) for one in found))


def _line(name: str, found: Sequence[Reached]) -> str:
    figures = [_median(found, what) for what in ("first_s", "for_good_s", "evaluations")]
    lost = sum(math.isinf(one.for_good_s) for one in found)
    cells = [f"{value:8.0f}" if math.isfinite(value) else "       –" for value in figures]
    each_ms = statistics.fmean(one.proposal_ms for one in found)
    proposal = "" if math.isnan(each_ms) else f"   {each_ms:.1f} ms a proposal"
    cut = sum(one.cut for one in found)
    limited = f", {cut} of them ended at the limit" if cut else ""
    return (
        f"{name:34} first {cells[0]} s   for good {cells[1]} s   {cells[2]} evaluations"
        f"   not at the horizon {lost}/{len(found)}{limited}{proposal}"
    )


@click.command()
@click.option("--table", "path", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--repetitions", type=click.IntRange(min=1), default=REPETITIONS)
@click.option("--first-seed", type=click.IntRange(min=0), default=FIRST_SEED, show_default=True)
@click.option("--window", "windows_s", type=float, multiple=True, default=WINDOWS_S)
@click.option("--smac/--no-smac", default=True, help="SMAC3 must be installed for it.")
@click.option(
    "--limit",
    "limit_s",
    type=click.FloatRange(min=1),
    default=LIMIT_S,
    show_default=True,
    help="End a search with Optuna's samplers after N seconds of processor time.",
)
@click.option("--only", default="", help="Run the searchers whose names begin so.")
def main(
    path: Path,
    repetitions: int,
    first_seed: int,
    windows_s: tuple[float, ...],
    *,
    smac: bool,
    limit_s: float,
    only: str,
) -> None:
    """Replay searches on a recorded table and print medians in simulated seconds."""
    world = world_of(path)
    near = sum(world.is_near_best(row, WITHIN) for row in range(len(world.table.rows)))
    click.echo(
        f"{path}: {len(world.table.rows)} configurations, {near} within 5 % of the best"
        f" ({math.exp(world.best):.3f} of the baseline); noise of minute, start, window:"
        f" {np.std(world.minute_residuals):.3f}, {world.start_sd:.3f}, {world.window_sd:.3f}\n"
        f"recorded {world.table.setting}"
    )
    seeds = range(first_seed, first_seed + repetitions)
    finding.show(run(Chosen(path, windows_s, smac, limit_s, only), seeds))


if __name__ == "__main__":
    main()
