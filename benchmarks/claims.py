"""The rates of false claims and of missed effects in real studies.

The benchmark runs many confirmations with a real Nginx, a real generator and the phases of `tuner
compare`. There are two kinds: a handicapped baseline against the same without its handicap, where
any other verdict is a miss, and a configuration against itself (A/A), where every claim is false.
The handicap is a number of rewrite rules that never match, chosen by measurement so that a request
costs about a tenth more CPU time. Calibration (capacity, load point, noise, number of blocks) is
done once for each kind; each confirmation has its own seed, frozen protocol, freshly started
instances, and verdict.

The handicap is looked for in throughput, where a tenth more work is about a tenth less; what it
does to p99 depends on the load point, and below saturation it is far less than the work. A/A
confirmations are of p99, which a host disturbs most, at a rate well below saturation: where blocks
differ by half, nothing can be claimed, and that nothing was proves nothing.

    python -m benchmarks.claims --studies 20
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import click

from benchmarks import finding
from benchmarks.finding import Finding, at_least, at_most
from benchmarks.lab import setting
from tuner.app.preflight import Preflight, preflight
from tuner.app.progress import TerminalProgress
from tuner.app.session import create_store, describe, open_bench
from tuner.definition.study import DEFAULT_STUDY, load_study
from tuner.goals.metric import cpu_us_per_request, difference_ln
from tuner.judge.plan import CLOSED
from tuner.judge.results import evaluate
from tuner.judge.scoring import BASELINE, counted_windows
from tuner.phases.bench import Bench
from tuner.phases.block import Arm, BlockSpec, repeat_until_complete
from tuner.phases.confirm import freeze, run_confirmation
from tuner.phases.study import Calibrated, calibrate
from tuner.space.configuration import Configuration
from tuner.stats.verdict import Verdict, VerdictKind

SPACE = Path(__file__).with_name("handicap") / "handicap.yaml"
HANDICAP = 0.10
"""Additional CPU time per request, as a share."""
PROBE_RULES = 60
_PROBES = 3
"""Blocks for measuring the cost of the rules."""
STUDIES = 20
MOST_FALSE = 2
LEAST_FOUND = 16

A_A_RATE_PER_S = 10_000


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of confirmation."""

    name: Literal["A/A", "handicap"]
    objective: str
    rate_per_s: int | None
    """Offered rate; None: a share of the capacity, or a closed loop."""


KINDS = (Kind("handicap", "throughput", None), Kind("A/A", "p99", A_A_RATE_PER_S))


def run(kinds: Sequence[Kind], studies: int, time_s: float) -> list[Finding]:
    """Return the findings of each kind, which has its own calibration."""
    found: list[Finding] = []
    for kind in kinds:
        verdicts = _confirmed(kind, studies, time_s)
        found += _false_claims(verdicts) if kind.name == "A/A" else _found(verdicts)
    return found


def _confirmed(kind: Kind, studies: int, time_s: float) -> list[Verdict]:
    """Calibrate, choose the handicap, and run the confirmations."""
    options = {"space": str(SPACE), "time": f"{time_s:.0f}s", "effect": str(HANDICAP)}
    if kind.rate_per_s is not None:
        options["rate"] = str(kind.rate_per_s)
    definition = load_study(DEFAULT_STUDY, options | {"objective": (kind.objective,)})
    found = preflight(definition)
    progress = TerminalProgress(quiet=True)
    with tempfile.TemporaryDirectory(prefix="tuner-claims-") as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)  # the workers' account reads the site
        store = create_store(found, folder / "calibration")
        with open_bench(found, folder / "lab", progress, store) as (bench, spec):
            rules = _rules_for(bench, found, HANDICAP)
            slow = found.space.complete({"rules": rules}, found.baseline)
            bench.store.add_configuration(describe(found, slow))
            ready = calibrate(replace(bench, baseline=slow), spec)
            click.echo(f"{kind.name}, {kind.objective}: {_calibrated(ready, rules)}")
            candidate = slow if kind.name == "A/A" else found.baseline
            verdicts: list[Verdict] = []
            started = time.monotonic()
            for number in range(studies):
                seed = 1_000 * (kind.name == "A/A") + number + 1
                verdicts.append(_confirm(ready, found, candidate, seed, folder / str(number)))
                left_s = (time.monotonic() - started) / (number + 1) * (studies - number - 1)
                words = _words(verdicts[-1])
                click.echo(f"{kind.name:9} {number + 1:3} {words}, {left_s / 60:.0f} min left")
    return verdicts


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
) -> Verdict:
    """Return the verdict of one confirmation, with its own record and seed."""
    store = create_store(replace(found, baseline=ready.bench.baseline), folder)
    for configuration in (ready.bench.baseline, candidate):
        store.add_configuration(describe(found, configuration))
    store.set_calibration(ready.calibration)
    bench = replace(ready.bench, store=store, seed=seed)
    arms = [candidate]
    blocks = ready.confirm_blocks
    protocol = freeze(bench, arms, ready.calibration, ready.plan, blocks=blocks)
    run_confirmation(bench, arms, protocol, ready.plan)
    store.set_ended()
    study = evaluate(store.record())
    if study.verdict is None:
        raise click.ClickException(f"with seed {seed}: {study.sentence}")
    return study.verdict


def _calibrated(ready: Calibrated, rules: int) -> str:
    found = ready.calibration
    return (
        f"{rules} rewrite rules; load {found.rate_per_s:,.0f}/s of {found.capacity_per_s:,.0f}/s;"
        f" noise of a block {found.sigma_d:.1%}, {ready.confirm_blocks} blocks,"
        f" minimum detectable effect {found.minimum_detectable_effect:.1%}"
    )


def _words(verdict: Verdict) -> str:
    found = verdict.estimate
    return f"{verdict.kind:13} {found.ratio:.3f} ({found.low:.3f} to {found.high:.3f})"


def _false_claims(verdicts: Sequence[Verdict]) -> list[Finding]:
    claims = _count(verdicts, VerdictKind.BETTER, VerdictKind.WORSE)
    detected = sum(verdict.estimate.excludes_no_change for verdict in verdicts)
    aim = at_most(MOST_FALSE) if len(verdicts) == STUDIES else None
    return [
        Finding(f"false claims in {len(verdicts)} A/A studies", claims, "", aim),
        Finding("A/A intervals that exclude no change (5 % expected)", detected),
    ]


def _found(verdicts: Sequence[Verdict]) -> list[Finding]:
    better = _count(verdicts, VerdictKind.BETTER)
    aim = at_least(LEAST_FOUND) if len(verdicts) == STUDIES else None
    detected = sum(verdict.estimate.excludes_no_change for verdict in verdicts)
    ratio = math.exp(statistics.median(math.log(v.estimate.ratio) for v in verdicts))
    return [
        Finding(f"handicaps found in {len(verdicts)} studies (better)", better, "", aim),
        Finding("handicap studies whose interval excludes no change", detected),
        Finding("median ratio without the handicap", ratio),
    ]


def _count(verdicts: Sequence[Verdict], *kinds: VerdictKind) -> int:
    return sum(verdict.kind in kinds for verdict in verdicts)


@click.command()
@click.option("--studies", type=click.IntRange(min=1), default=STUDIES, help="Of each kind.")
@click.option("--time", "time_s", type=float, default=150.0, help="Planned for each, in seconds.")
@click.option("--only", type=click.Choice([kind.name for kind in KINDS]), help="One kind.")
def main(studies: int, time_s: float, only: str | None) -> None:
    """Count false claims and found handicaps, on this machine."""
    click.echo(setting())
    finding.show(run([kind for kind in KINDS if only in (None, kind.name)], studies, time_s))


if __name__ == "__main__":
    main()
