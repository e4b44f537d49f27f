"""A table of real measurements, for replaying searches: many configurations of one space.

Every configuration is measured in three deployments, at different times and among different
neighbours, with two windows in each. So the effects of the configuration, the fresh start, the
minute and the window can be separated. The table is a small file on which searches can be compared
at any time without a server (benchmarks/efficiency.py).

    python -m benchmarks.table --configurations 400 --output benchmarks/data/proxy.json
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np
import optuna

from benchmarks.lab import setting
from tuner.app.preflight import preflight
from tuner.app.progress import TerminalProgress
from tuner.app.session import create_store, describe, open_bench
from tuner.definition.study import BASE_STUDY, load_study
from tuner.errors import HostError
from tuner.judge.plan import BlockPlan
from tuner.judge.scoring import BASELINE
from tuner.measurement.window import Gates
from tuner.phases.bench import Bench
from tuner.phases.block import Arm, BlockSpec, repeat_until_complete
from tuner.phases.calibrate import load_point, measure_capacity
from tuner.phases.study import SATURATION_GATES
from tuner.record.model import Block
from tuner.search.dimensions import suggest
from tuner.space.configuration import Configuration, Value
from tuner.space.space import Space

DEPLOYMENTS = 3
ROUNDS = 2
AT_ONCE = 20
"""Configurations per deployment, without the baseline."""
WINDOW = BlockPlan(rounds=ROUNDS, window_s=0.5, first_warmup_s=0.25, warmup_s=0.03)


@dataclass(frozen=True, slots=True)
class Window:
    """One measured window of a configuration."""

    deployment: int
    round: int
    ln_p99_us: float
    """Stall-free."""


@dataclass(frozen=True, slots=True)
class Row:
    """One configuration with its windows."""

    values: Mapping[str, Value]
    windows: tuple[Window, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A recorded table; the first row is the baseline, which is in every deployment."""

    setting: str
    workload: str
    rate_per_s: float
    rows: tuple[Row, ...]


def load(path: Path) -> Table:
    """Read a table as ``save`` writes it."""
    head, *lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    rows = tuple(
        Row(line["values"], tuple(Window(*window) for window in line["windows"])) for line in lines
    )
    return Table(head["setting"], head["workload"], head["rate_per_s"], rows)


def save(table: Table, path: Path) -> None:
    """Write a table: a line about it, then a line for each configuration."""
    head = {
        "setting": table.setting,
        "workload": table.workload,
        "rate_per_s": table.rate_per_s,
        "windows": "[deployment, round, ln of the stall-free p99 in µs]",
    }
    lines = [json.dumps(head)]
    for row in table.rows:
        windows = [[w.deployment, w.round, round(w.ln_p99_us, 4)] for w in row.windows]
        lines.append(json.dumps({"values": dict(row.values), "windows": windows}))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def draw(space: Space, base: Configuration, count: int, seed: int) -> list[Configuration]:
    """Different configurations, drawn at random as a sampler without any history would."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    found: dict[str, Configuration] = {base.digest: base}
    for _ in range(100 * count):
        if len(found) > count:
            break
        configuration = suggest(study.ask(), space, (), base)
        found.setdefault(configuration.digest, configuration)
    return list(found.values())[1:]


def record(workload: str, count: int, seed: int) -> Table:
    """Measure a table on this machine."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    found = preflight(load_study(BASE_STUDY, {"workload": workload}))
    with tempfile.TemporaryDirectory(prefix="tuner-table-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # the workers' account reads the site
        store = create_store(found, folder / "record")
        progress = TerminalProgress(quiet=True)
        with open_bench(found, folder / "lab", progress, store) as (bench, spec):
            drawn = draw(found.space, found.baseline, count, seed)
            hand = found.space.baseline("hand")
            drawn = [*([hand] if hand.digest != found.baseline.digest else []), *drawn][:count]
            for configuration in drawn:
                store.add_configuration(describe(found, configuration))
            saturated = replace(bench, gates=SATURATION_GATES)
            capacity = measure_capacity(saturated, found.baseline, spec.server_cores)
            rate_per_s, source = load_point(capacity, None)
            click.echo(f"{len(drawn)} configurations at {rate_per_s:,.0f}/s ({source})")
            # What is recorded is not judged: a configuration that misses the rate is in the table
            # with the p99 that it had.
            gates = Gates(samples_needed=100, rate_error=1.0, error_share=1.0)
            open_loop = replace(bench, gates=gates)
            windows = _measure(open_loop, drawn, rate_per_s, seed)
    everyone = [found.baseline, *drawn]
    rows = tuple(Row(c.values, tuple(windows[c.digest])) for c in everyone)
    return Table(setting(), workload, rate_per_s, rows)


def _measure(
    bench: Bench, drawn: Sequence[Configuration], rate_per_s: float, seed: int
) -> dict[str, list[Window]]:
    windows: dict[str, list[Window]] = {c.digest: [] for c in (bench.baseline, *drawn)}
    random = np.random.default_rng(seed)
    groups = math.ceil(len(drawn) / AT_ONCE)
    orders = [random.permutation(len(drawn)) for _ in range(DEPLOYMENTS)]
    started = time.monotonic()
    for number in range(DEPLOYMENTS * groups):
        chosen = [drawn[place] for place in orders[number // groups][number % groups :: groups]]
        arms = [Arm(f"c{place}", configuration) for place, configuration in enumerate(chosen)]
        spec = BlockSpec(
            phase="search",
            index=number,
            arms=(Arm(BASELINE, bench.baseline), *arms),
            plan=WINDOW,
            mode="open",
            rate_per_s=rate_per_s,
            needs_all=False,
        )
        try:
            _add(windows, repeat_until_complete(bench, spec), number)
        except HostError as error:
            click.echo(f"deployment {number} left out: {error}")
        left_s = (time.monotonic() - started) / (number + 1) * (DEPLOYMENTS * groups - number - 1)
        click.echo(f"deployment {number + 1} of {DEPLOYMENTS * groups}, {left_s / 60:.0f} min left")
    return windows


def _add(windows: dict[str, list[Window]], block: Block, deployment: int) -> None:
    digests = {instance.instance: instance.digest for instance in block.instances}
    for window in block.windows:
        if window.stall_free.count and window.valid:
            value = math.log(window.stall_free.p99_us)
            windows[digests[window.instance]].append(Window(deployment, window.round, value))


@click.command()
@click.option("--workload", default="proxy", help="Whose space is sampled.")
@click.option("--configurations", "count", type=click.IntRange(min=1), default=400)
@click.option("--seed", type=int, default=1)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), required=True)
def main(workload: str, count: int, seed: int, output: Path) -> None:
    """Record a table on this machine, which should do nothing else meanwhile."""
    table = record(workload, count, seed)
    save(table, output)
    click.echo(
        f"{len(table.rows)} configurations, {sum(len(r.windows) for r in table.rows)} windows"
    )


if __name__ == "__main__":
    main()
