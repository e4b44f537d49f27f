"""The rates of false claims and of missed effects in real studies.

The benchmark runs many confirmations with a real Nginx, a real generator and the phases of a study.
There are two kinds: a handicapped candidate against the baseline, where any verdict other than
*worse* is a miss, and the baseline against itself (A/A), where every claim is false. The handicap
is a number of rewrite rules that never match, chosen by measurement so that a request costs about
5 % more CPU time. Calibration (capacity, load point, noise, number of blocks) is done once for each
kind; each confirmation has its own seed, frozen protocol, freshly started instances, and verdict.

What 5 % more work does to p99 depends on the load point: the ratios say how much it was.

    python -m benchmarks.claims --studies 20
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import click

from benchmarks import finding
from benchmarks.blocks import temporary_bench
from benchmarks.finding import Finding, at_least, at_most
from benchmarks.lab import setting
from tuner.app.preflight import Preflight, preflight
from tuner.app.session import create_store, describe
from tuner.definition.study import BASE_STUDY, load_study
from tuner.goals.metric import cpu_us_per_request, difference_ln
from tuner.judge.plan import CLOSED
from tuner.judge.results import evaluate
from tuner.judge.scoring import BASELINE, counted_windows
from tuner.phases.bench import Bench
from tuner.phases.block import Arm, BlockSpec
from tuner.phases.confirm import freeze, run_confirmation
from tuner.phases.repeat import repeat_until_complete
from tuner.phases.study import Calibrated, calibrate
from tuner.space.configuration import Configuration
from tuner.stats.verdict import Verdict, VerdictKind

SPACE = Path(__file__).with_name("handicap") / "handicap.yaml"
HANDICAP = 0.05
"""Additional CPU time per request, as a share."""
PROBE_RULES = 60
_PROBES = 3
"""Blocks for measuring the cost of the rules."""
STUDIES = 20
MOST_FALSE = 1
LEAST_FOUND = 16
_AFTER = 1_000
"""Seeds of A/A confirmations begin after this."""

Kind = Literal["handicap", "A/A"]
KINDS: tuple[Kind, ...] = ("handicap", "A/A")


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The end of one confirmation."""

    verdict: Verdict
    slots: tuple[int, ...]
    """Position of the candidate in each block: 0 is started first."""
    took_s: float


def run(kinds: Sequence[Kind], studies: int, options: Mapping[str, object]) -> list[Finding]:
    """Return the findings of each kind, which has its own calibration."""
    found: list[Finding] = []
    for kind in kinds:
        ended = _confirmed(kind, studies, options)
        verdicts = [one.verdict for one in ended]
        found += _false_claims(verdicts) if kind == "A/A" else _found(verdicts)
        first = [slot == 0 for one in ended for slot in one.slots]
        found += [
            Finding(f"{kind}: blocks in which the candidate started first", statistics.mean(first)),
            Finding(f"{kind}: longest confirmation", max(one.took_s for one in ended), "s"),
        ]
    return found


def _confirmed(kind: Kind, studies: int, options: Mapping[str, object]) -> list[Confirmed]:
    """Calibrate, choose the handicap, and run the confirmations."""
    definition = load_study(BASE_STUDY, {"space": str(SPACE), **options})
    found = preflight(definition)
    with temporary_bench(found) as (bench, spec, folder):
        rules = 0 if kind == "A/A" else _rules_for(bench, found, HANDICAP)
        candidate = found.space.complete({"rules": rules}, found.baseline)
        ready = calibrate(bench, replace(spec, search=False))
        click.echo(f"{kind}: {_calibrated(ready, rules)}")
        ended: list[Confirmed] = []
        started = time.monotonic()
        for number in range(studies):
            seed = _AFTER * (kind == "A/A") + number + 1
            ended.append(_confirm(ready, found, candidate, seed, folder / str(number)))
            left_s = (time.monotonic() - started) / (number + 1) * (studies - number - 1)
            words = _words(ended[-1])
            click.echo(f"{kind:9} {number + 1:3} {words}, {left_s / 60:.0f} min left")
    return ended


def _rules_for(bench: Bench, found: Preflight, share: float) -> int:
    """Return the number of rules that add this share of CPU time per request.

    Both configurations alternate in rounds of closed loops, as in a study: with medians over all
    windows, a host that changes its speed gave a third more or fewer rules.
    """
    heavy = found.space.complete({"rules": PROBE_RULES}, found.baseline)
    bench.store.add_configuration(describe(found, heavy))
    found_ln = []
    for index in range(_PROBES):
        spec = BlockSpec(
            phase="capacity",
            index=index,
            arms=(Arm(BASELINE, found.baseline), Arm("heavy", heavy)),
            plan=CLOSED,
            mode="closed",
            rate_per_s=0.0,
            needs_all=True,
        )
        block = repeat_until_complete(bench, spec)
        light, slow = (counted_windows(block, arm) for arm in (BASELINE, "heavy"))
        found_ln.append(difference_ln(slow, light, cpu_us_per_request))
    if not all(map(math.isfinite, found_ln)):
        raise click.ClickException("the server's CPU time cannot be read here")
    per_rule = math.expm1(statistics.median(found_ln)) / PROBE_RULES
    return max(1, round(share / per_rule))


def _confirm(
    ready: Calibrated, found: Preflight, candidate: Configuration, seed: int, folder: Path
) -> Confirmed:
    """Run one confirmation, with its own record and seed."""
    started = time.monotonic()
    store = create_store(found, folder)
    for configuration in (found.baseline, candidate):
        store.add_configuration(describe(found, configuration))
    store.set_calibration(ready.calibration)
    bench = replace(ready.bench, store=store, seed=seed)
    arms = [candidate]
    blocks = ready.confirm_blocks
    protocol = freeze(
        bench, arms, ready.calibration, ready.plan, blocks=blocks, design=ready.design
    )
    run_confirmation(bench, arms, protocol, ready.plan)
    store.set_ended()
    record = store.record()
    study = evaluate(record)
    if study.verdict is None:
        raise click.ClickException(f"with seed {seed}: {study.sentence}")
    slots = tuple(
        instance.slot
        for block in record.blocks
        for instance in block.instances
        if instance.instance != BASELINE and instance.slot is not None
    )
    return Confirmed(study.verdict, slots, time.monotonic() - started)


def _calibrated(ready: Calibrated, rules: int) -> str:
    found = ready.calibration
    return (
        f"{rules} rewrite rules; load {found.rate_per_s:,.0f}/s of {found.capacity_per_s:,.0f}/s;"
        f" noise of a block {found.sigma_d:.1%}, {ready.confirm_blocks} blocks,"
        f" minimum detectable effect {found.minimum_detectable_effect:.1%}"
    )


def _words(ended: Confirmed) -> str:
    kind, found = ended.verdict.kind, ended.verdict.estimate
    return (
        f"{kind:13} {found.ratio:.3f} ({found.low:.3f} to {found.high:.3f}),"
        f" {found.n} blocks in {ended.took_s:.0f} s"
    )


def _false_claims(verdicts: Sequence[Verdict]) -> list[Finding]:
    claims = _count(verdicts, VerdictKind.BETTER, VerdictKind.WORSE)
    detected = sum(verdict.estimate.excludes_no_change for verdict in verdicts)
    aim = at_most(MOST_FALSE) if len(verdicts) == STUDIES else None
    return [
        Finding(f"false claims in {len(verdicts)} A/A studies", claims, "", aim),
        Finding("A/A intervals that exclude no change (5 % expected)", detected),
    ]


def _found(verdicts: Sequence[Verdict]) -> list[Finding]:
    worse = _count(verdicts, VerdictKind.WORSE)
    aim = at_least(LEAST_FOUND) if len(verdicts) == STUDIES else None
    detected = sum(verdict.estimate.excludes_no_change for verdict in verdicts)
    ratio = math.exp(statistics.median(math.log(v.estimate.ratio) for v in verdicts))
    return [
        Finding(f"handicaps found in {len(verdicts)} studies (worse)", worse, "", aim),
        Finding("handicap studies whose interval excludes no change", detected),
        Finding("median ratio with the handicap", ratio),
    ]


def _count(verdicts: Sequence[Verdict], *kinds: VerdictKind) -> int:
    return sum(verdict.kind in kinds for verdict in verdicts)


@click.command()
@click.option("--studies", type=click.IntRange(min=1), default=STUDIES, help="Of each kind.")
@click.option("--time", default="150s", help="Time of each, as in a study.", show_default=True)
@click.option("--objective", default="p99", help="What is compared.", show_default=True)
@click.option("--rate", help="Requests per second.  [default: the load point of a study]")
@click.option("--only", type=click.Choice(KINDS), help="One kind.")
def main(studies: int, time: str, objective: str, rate: str | None, only: Kind | None) -> None:
    """Count false claims and found handicaps, on this machine."""
    click.echo(setting())
    options: dict[str, object] = {"time": time, "objective": (objective,)}
    if rate is not None:
        options["rate"] = rate
    finding.show(run([kind for kind in KINDS if only in (None, kind)], studies, options))


if __name__ == "__main__":
    main()
