"""A table of real measurements, for replaying searches: many configurations of one space.

Every configuration is measured once, and then the best third again and again, at different times
and among different neighbours, as in blocks of a search. So the effects of the configuration, the
fresh start, the minute and the window can be separated where a search has to decide. The table is a
small file on which searches can be compared at any time without a server
(benchmarks/efficiency.py).

    python -m benchmarks.table --configurations 128 --output benchmarks/data/proxy-slices.json

A table that exists is continued, with its configurations and at its rate.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import click
import numpy as np
import optuna

from benchmarks.blocks import temporary_bench
from benchmarks.lab import setting
from tuner.app.preflight import preflight
from tuner.app.session import describe
from tuner.definition.study import BASE_STUDY, load_study
from tuner.errors import HostError
from tuner.goals.metric import Metric
from tuner.judge.load_point import Capacity, load_point
from tuner.judge.plan import BlockPlan
from tuner.judge.scoring import BASELINE
from tuner.measurement.gates import Gates
from tuner.phases.bench import Bench
from tuner.phases.block import Arm, BlockSpec
from tuner.phases.calibrate import measure_capacity
from tuner.phases.repeat import repeat_until_complete
from tuner.phases.study import SATURATION_GATES, probe_load
from tuner.record.model import Block
from tuner.search.dimensions import suggest
from tuner.space.configuration import Configuration, Value
from tuner.space.space import Space

AT_ONCE = 8
"""Configurations per deployment, without the baseline."""
BEST = 1 / 3
"""Share of the configurations that is measured several times."""
WINDOW = BlockPlan(rounds=4, window_s=0.5, first_warmup_s=0.25, warmup_s=0.03)
OUTPUTS = tuple(map(Metric, ("p99", "p50", "p90", "cpu")))
"""Figures of a window, in this order in the file."""


@dataclass(frozen=True, slots=True)
class Window:
    """One measured window of a configuration."""

    deployment: int
    round: int
    ln_p99_us: float
    """Stall-free, like the other quantiles."""
    ln_p50_us: float = math.nan
    """NaN in older tables, as the following ones."""
    ln_p90_us: float = math.nan
    ln_cpu_us: float = math.nan
    """CPU time of the server by request."""

    @property
    def outputs(self) -> tuple[float, ...]:
        """Figures in the order of ``OUTPUTS``."""
        return self.ln_p99_us, self.ln_p50_us, self.ln_p90_us, self.ln_cpu_us


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

    @property
    def deployments(self) -> int:
        """Number of deployments, up to the last one with a window."""
        return 1 + max((w.deployment for row in self.rows for w in row.windows), default=-1)


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
        "windows": "[deployment, round, ln of the stall-free p99, p50, p90 in µs, of CPU in µs]",
    }
    lines = [json.dumps(head)]
    for row in table.rows:
        windows = [_numbers(window) for window in row.windows]
        lines.append(json.dumps({"values": dict(row.values), "windows": windows}))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _numbers(window: Window) -> list[float]:
    """Return a window as it is written, without the outputs that it lacks."""
    deployment, round_, *outputs = astuple(window)
    return [deployment, round_, *(round(value, 4) for value in outputs if math.isfinite(value))]


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


def record(workload: str, count: int, seed: int, time_s: float, before: Table | None) -> Table:
    """Measure a table on this machine, or continue one."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    ends = time.monotonic() + time_s
    found = preflight(load_study(BASE_STUDY, {"workload": workload}))
    with temporary_bench(found) as (bench, _, _):
        if before is None:
            saturated = replace(bench, gates=SATURATION_GATES)
            capacity = measure_capacity(saturated, found.baseline)
            _, load = probe_load(bench, load_point(capacity, None), capacity)
            drawn = draw(found.space, found.baseline, count, seed)
            hand = found.space.baseline("hand")
            drawn = [*([hand] if hand.digest != found.baseline.digest else []), *drawn][:count]
            rows = tuple(Row(c.values, ()) for c in (found.baseline, *drawn))
            before = Table(setting(), workload, load.rate_per_s, rows)
        drawn = [Configuration.of(found.space.name, row.values) for row in before.rows[1:]]
        for configuration in drawn:
            bench.store.add_configuration(describe(found, configuration))
        # The rate is given, so its share of a capacity does not matter.
        whole = Capacity(before.rate_per_s, generator_bound=False)
        sampling, _ = probe_load(bench, load_point(whole, before.rate_per_s), whole)
        click.echo(
            f"{len(drawn)} configurations at {before.rate_per_s:,.0f}/s, slices of"
            f" {sampling.slice_ms:g} ms, {sampling.effective_share:.0%} of the requests count"
        )
        # What is recorded is not judged: a configuration that misses the rate is in the table
        # with the p99 that it had.
        gates = Gates(samples_needed=100, rate_error=1.0, error_share=1.0)
        rule = bench.rule and replace(bench.rule, level=sampling.level)
        open_loop = replace(bench, gates=gates, rule=rule)
        plan = replace(WINDOW, slice_ms=sampling.slice_ms)
        windows = _measure(open_loop, drawn, before, plan, seed=seed, ends=ends)
    rows = tuple(
        replace(row, windows=(*row.windows, *windows[c.digest]))
        for c, row in zip((found.baseline, *drawn), before.rows, strict=True)
    )
    return replace(before, rows=rows)


def _measure(
    bench: Bench,
    drawn: Sequence[Configuration],
    before: Table,
    plan: BlockPlan,
    *,
    seed: int,
    ends: float,
) -> dict[str, list[Window]]:
    """Measure deployments until the monotonic clock would pass ``ends``."""
    windows: dict[str, list[Window]] = {c.digest: [] for c in (bench.baseline, *drawn)}
    earlier = {c.digest: row.windows for c, row in zip(drawn, before.rows[1:], strict=True)}
    cost_s = plan.cost_s(AT_ONCE + 1)
    for number in itertools.count(before.deployments):
        if time.monotonic() + cost_s > ends:
            return windows
        known = [(*earlier[c.digest], *windows[c.digest]) for c in drawn]
        random = np.random.default_rng([seed, number])
        all_once = number * AT_ONCE >= len(drawn)
        chosen = [drawn[place] for place in place_next(known, random, all_once=all_once)]
        arms = [Arm(f"c{place}", configuration) for place, configuration in enumerate(chosen)]
        spec = BlockSpec(
            phase="search",
            index=number,
            arms=(Arm(BASELINE, bench.baseline), *arms),
            plan=plan,
            mode="open",
            rate_per_s=before.rate_per_s,
            needs_all=False,
        )
        started = time.monotonic()
        try:
            _add(windows, repeat_until_complete(bench, spec), number)
        except HostError as error:
            click.echo(f"deployment {number} left out: {error}")
        cost_s = time.monotonic() - started
        click.echo(f"deployment {number + 1}, {cost_s:.0f} s")
    raise AssertionError("the loop ends by the clock")


def place_next(
    known: Sequence[Sequence[Window]], random: np.random.Generator, *, all_once: bool
) -> list[int]:
    """Return the places of the configurations to measure next: those with the fewest windows.

    Args:
        known: windows of each configuration so far.
        random: decides among equals.
        all_once: whether all had their turn, so that only the best are measured again.
    """
    places = random.permutation(len(known)).tolist()
    if all_once:
        p99 = {
            place: float(np.median([w.ln_p99_us for w in known[place]]))
            for place in places
            if known[place]
        }
        places = sorted(p99, key=p99.__getitem__)[: max(AT_ONCE, round(BEST * len(p99)))]
    return sorted(places, key=lambda place: len(known[place]))[:AT_ONCE]


def _add(windows: dict[str, list[Window]], block: Block, deployment: int) -> None:
    digests = {instance.instance: instance.digest for instance in block.instances}
    for window in block.windows:
        if window.stall_free.count and window.valid:
            values = [_ln(metric.value(window)) for metric in OUTPUTS]
            windows[digests[window.instance]].append(Window(deployment, window.round, *values))


def _ln(value: float) -> float:
    return math.log(value) if value > 0 else math.nan


@click.command()
@click.option("--workload", default="proxy", help="Whose space is sampled.")
@click.option("--configurations", "count", type=click.IntRange(min=1), default=128)
@click.option("--seed", type=int, default=1)
@click.option("--minutes", type=click.FloatRange(min=1), default=60.0, show_default=True)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), required=True)
def main(workload: str, count: int, seed: int, minutes: float, output: Path) -> None:
    """Record a table on this machine, which should do nothing else meanwhile."""
    before = load(output) if output.exists() else None
    if before is not None:
        workload = before.workload
    table = record(workload, count, seed, 60 * minutes, before)
    save(table, output)
    click.echo(
        f"{len(table.rows)} configurations, {sum(len(r.windows) for r in table.rows)} windows"
    )


if __name__ == "__main__":
    main()
