"""The noise of identical instances, in slices against windows that follow one another.

Blocks of two identical Nginx alternate between the ways to measure, in the same minutes and with
the same measured time, so that all meet the same host: slices with the same arrivals for both arms,
slices with arrivals of their own, and windows. The figure is the standard deviation of a block's
log ratio, which says how many blocks a claim needs. The stall rule is that of busy cycles for all;
`--spans` measures windows with spans around stalls, as earlier versions of tuner did.

    python -m benchmarks.slices --blocks 10
    python -m benchmarks.slices --workload proxy
"""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from benchmarks import finding
from benchmarks.finding import Finding, at_most
from benchmarks.lab import setting
from tuner.app.preflight import preflight
from tuner.app.progress import TerminalProgress
from tuner.app.session import create_store, open_bench
from tuner.definition.study import BASE_STUDY, load_study
from tuner.errors import HostError
from tuner.goals.metric import Metric, difference_ln
from tuner.judge.load_point import load_point
from tuner.judge.plan import BlockPlan
from tuner.judge.scoring import BASELINE, counted_windows
from tuner.measurement.gates import Gates
from tuner.measurement.stalls import StallRule
from tuner.phases.bench import Bench
from tuner.phases.block import Arm, BlockSpec, run_block
from tuner.phases.calibrate import measure_capacity
from tuner.phases.study import SATURATION_GATES, probe_load
from tuner.record.model import Block

TWIN = "twin"
METRICS = tuple(map(Metric, ("p50", "p90", "p99", "cpu")))
SLICES = "slices"
OWN_ARRIVALS = "slices with own arrivals"
WINDOWS = "windows"
AIM = 1 / 3
"""Largest noise of slices, as a share of that of windows."""
_ROUNDS = 4
_WINDOW_S = 1.0


def run(workload: str, server: str, blocks: int, *, spans: bool) -> list[Finding]:
    """Measure blocks of both kinds in turn."""
    options = {"server": server, "workload": workload}
    found = preflight(load_study(BASE_STUDY, options))
    progress = TerminalProgress(quiet=True)
    differences: dict[str, dict[Metric, list[float]]] = {}
    with tempfile.TemporaryDirectory(prefix="tuner-slices-") as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)  # the workers' account reads the site
        store = create_store(found, folder / "record")
        with open_bench(found, folder / "lab", progress, store) as (bench, _):
            saturated = replace(bench, gates=SATURATION_GATES)
            capacity = measure_capacity(saturated, bench.baseline)
            sampling, load = probe_load(bench, load_point(capacity, None), capacity)
            rate = f"{load.rate_per_s:,.0f}/s"
            click.echo(
                f"{server} {workload}: {rate}, slices of {sampling.slice_ms:g} ms,"
                f" level {sampling.level}, {sampling.effective_share:.0%} of the requests count"
            )
            cycles = bench.rule and replace(bench.rule, level=sampling.level)
            utilisation = load.rate_per_s / capacity.per_s
            before = StallRule(recovery=1.5 * utilisation / (1 - utilisation)) if spans else cycles
            kinds = {
                SLICES: (sampling.slice_ms, cycles, True),
                OWN_ARRIVALS: (sampling.slice_ms, cycles, False),
                WINDOWS: (0.0, before, False),
            }
            for index in range(blocks):
                for name, (slice_ms, rule, same) in kinds.items():
                    gates = Gates(samples_needed=1)
                    ready = replace(bench, rule=rule, gates=gates, same_arrivals=same)
                    block = _block(ready, index, load.rate_per_s, slice_ms)
                    if block is not None:
                        _keep(differences.setdefault(name, {}), block)
    return _findings(differences)


def _block(bench: Bench, index: int, rate_per_s: float, slice_ms: float) -> Block | None:
    plan = BlockPlan(_ROUNDS, _WINDOW_S, 0.3, 0.05, slice_ms=slice_ms)
    arms = tuple(Arm(label, bench.baseline) for label in (BASELINE, TWIN))
    spec = BlockSpec("aa", index, arms, plan, "open", rate_per_s, needs_all=False)
    try:
        return run_block(bench, spec)
    except HostError as error:
        click.echo(f"(left out: {error})")
        return None


def _keep(found: dict[Metric, list[float]], block: Block) -> None:
    own, other = (counted_windows(block, label) for label in (TWIN, BASELINE))
    for metric in METRICS:
        value = difference_ln(own, other, metric.value)
        if math.isfinite(value):
            found.setdefault(metric, []).append(value)


def _findings(differences: Mapping[str, Mapping[Metric, Sequence[float]]]) -> list[Finding]:
    found = []
    for metric in METRICS:
        sd = {}
        for name, values in differences.items():
            seen = values.get(metric, ())
            if len(seen) >= 3:
                sd[name] = _about_zero(seen)
                title = f"{metric.name}: sd of a block's ln ratio, {name} ({len(seen)} blocks)"
                found.append(Finding(title, sd[name]))
                mean = statistics.fmean(seen)
                found.append(Finding(f"{metric.name}: mean ln ratio, {name}", mean))
        for name, aim in ((WINDOWS, at_most(AIM)), (OWN_ARRIVALS, None)):
            if SLICES in sd and name in sd:
                title = f"{metric.name}: sd, slices / {name}"
                found.append(Finding(title, sd[SLICES] / sd[name], aim=aim))
    return found


def _about_zero(values: Sequence[float]) -> float:
    """Return the standard deviation about 0, the true difference of identical instances."""
    return math.sqrt(statistics.fmean(value**2 for value in values))


@click.command()
@click.option("--blocks", type=click.IntRange(min=3), default=10, show_default=True)
@click.option("--workload", default="static", show_default=True)
@click.option("--server", default="nginx", show_default=True)
@click.option("--spans", is_flag=True, help="Windows with spans around stalls, as in 0.1.")
def main(blocks: int, workload: str, server: str, *, spans: bool) -> None:
    """Compare the noise of slices and of windows on this machine."""
    click.echo(setting())
    finding.show(run(workload, server, blocks, spans=spans))


if __name__ == "__main__":
    main()
