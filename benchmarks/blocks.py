"""Blocks of some arms at the load point of a study, for benchmarks of the noise."""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import click

from benchmarks.finding import Aim, Finding
from tuner.app.preflight import Preflight, preflight
from tuner.app.progress import TerminalProgress
from tuner.app.session import create_store, open_bench
from tuner.definition.study import BASE_STUDY, load_study
from tuner.errors import HostError
from tuner.goals.metric import Metric, difference_ln
from tuner.judge.load_point import load_point
from tuner.judge.plan import BlockPlan, Sampling
from tuner.judge.scoring import BASELINE, counted_windows
from tuner.measurement.gates import Gates
from tuner.measurement.stalls import StallRule
from tuner.phases.bench import Bench
from tuner.phases.block import Arm, BlockSpec, run_block
from tuner.phases.calibrate import measure_capacity
from tuner.phases.study import SATURATION_GATES, StudySpec, probe_load
from tuner.record.model import Block

TWIN = "twin"
METRICS = tuple(map(Metric, ("p50", "p90", "p99", "cpu")))
_ROUNDS = 4
_WINDOW_S = 1.0


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """A bench at the load point of a study of the stock configuration."""

    found: Preflight
    bench: Bench
    rate_per_s: float
    utilisation: float
    """Rate as a share of the capacity."""
    sampling: Sampling
    cycles: StallRule | None
    """The rule of busy cycles, with the level that the probe chose; None without a rule."""

    def block(
        self,
        index: int,
        arms: Sequence[Arm],
        *,
        slice_ms: float,
        rule: StallRule | None,
        same_arrivals: bool = False,
        halts: bool = False,
    ) -> Block | None:
        """Measure a block; return None, and say why, if the host does not allow it."""
        gates = Gates(samples_needed=1)
        bench = replace(self.bench, rule=rule, gates=gates, same_arrivals=same_arrivals)
        plan = BlockPlan(_ROUNDS, _WINDOW_S, 0.3, 0.05, slice_ms=slice_ms)
        spec = BlockSpec(
            "aa", index, tuple(arms), plan, "open", self.rate_per_s, needs_all=False, halts=halts
        )
        try:
            return run_block(bench, spec)
        except HostError as error:
            click.echo(f"(left out: {error})")
            return None

    def twins(self) -> tuple[Arm, Arm]:
        """Return two arms with the stock configuration."""
        return Arm(BASELINE, self.bench.baseline), Arm(TWIN, self.bench.baseline)


@contextmanager
def temporary_bench(found: Preflight) -> Iterator[tuple[Bench, StudySpec, Path]]:
    """Yield the bench of a study on this machine, and its folder, which is removed afterwards."""
    progress = TerminalProgress(quiet=True)
    with tempfile.TemporaryDirectory(prefix="tuner-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # the workers' account reads the site
        store = create_store(found, folder / "record")
        with open_bench(found, folder / "lab", progress, store) as (bench, spec):
            yield bench, spec, folder


@contextmanager
def at_load_point(server: str, workload: str) -> Iterator[LoadPoint]:
    """Yield a bench at its load point on this machine, and print it.

    Raises:
        HostError, InstrumentError: this machine cannot measure it.
    """
    found = preflight(load_study(BASE_STUDY, {"server": server, "workload": workload}))
    with temporary_bench(found) as (bench, _, _):
        saturated = replace(bench, gates=SATURATION_GATES)
        capacity = measure_capacity(saturated, bench.baseline)
        sampling, load = probe_load(bench, load_point(capacity, None), capacity)
        click.echo(
            f"{server} {workload}: {load.rate_per_s:,.0f}/s, slices of {sampling.slice_ms:g} ms,"
            f" level {sampling.level}, {sampling.effective_share:.0%} of the requests count"
        )
        cycles = bench.rule and replace(bench.rule, level=sampling.level)
        share = load.rate_per_s / capacity.per_s
        yield LoadPoint(found, bench, load.rate_per_s, share, sampling, cycles)


def differences(blocks: Iterable[Block], metric: Metric, arm: str = TWIN) -> list[float]:
    """Return the log ratio of an arm to the baseline, for each block that has one."""
    values = [
        difference_ln(counted_windows(block, arm), counted_windows(block, BASELINE), metric.value)
        for block in blocks
    ]
    return [value for value in values if math.isfinite(value)]


def noise(
    seen: Mapping[str, Sequence[Block]], way: str, others: Mapping[str, Aim | None]
) -> list[Finding]:
    """Return the noise of identical instances in each metric, for all ways to measure.

    Args:
        seen: blocks by way.
        way: the way to compare with others.
        others: ways, with the aim for the noise of ``way`` as a share of theirs.
    """
    found = []
    for metric in METRICS:
        sd = {}
        for name, blocks in seen.items():
            values = differences(blocks, metric)
            if len(values) >= 3:
                sd[name] = _about_zero(values)
                title = f"{metric.name}: sd of a block's ln ratio, {name} ({len(values)} blocks)"
                found.append(Finding(title, sd[name]))
                mean = statistics.fmean(values)
                found.append(Finding(f"{metric.name}: mean ln ratio, {name}", mean))
        for name, aim in others.items():
            if way in sd and name in sd:
                title = f"{metric.name}: sd, {way} / {name}"
                found.append(Finding(title, sd[way] / sd[name], aim=aim))
    return found


def _about_zero(values: Sequence[float]) -> float:
    """Return the standard deviation about 0, the true difference of identical instances."""
    return math.sqrt(statistics.fmean(value**2 for value in values))
