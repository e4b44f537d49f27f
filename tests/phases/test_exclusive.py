"""Configurations of the whole host: one instance at a time, each started anew for its window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.phases.rig import HAND, SPACE, STOCK, Rig, blocks, fast_is_better, rig
from tests.space.test_kernel import SEEN, load
from tuner.errors import HostError
from tuner.export import export_files
from tuner.goals.goals import parse_goals
from tuner.judge.overhead import overhead
from tuner.judge.plan import USUAL, BlockPlan, plan_blocks
from tuner.judge.results import evaluate
from tuner.judge.scoring import BASELINE
from tuner.measurement.window import Measurement
from tuner.phases.block import Arm, BlockSpec, run_block
from tuner.phases.calibrate import measure_capacity
from tuner.record.model import ConfigurationRecord
from tuner.space.configuration import Configuration, Value
from tuner.space.kernel import BUILT_IN, SYSCTL_FILE, joined, settings_of
from tuner.stats.verdict import VerdictKind
from tuner.testing.lab import Effect, Faults

CORKING = "net.ipv4.tcp_autocorking"
WHOLE = joined(SPACE, load(BUILT_IN), SEEN)
PLAN = BlockPlan(4, 1.0, 0.2, 0.1, exclusive=True)


def corking_hurts(values: Mapping[str, Value]) -> Effect:
    """Return a setting of the kernel takes 35 % away; the server's own matter as ever, and less."""
    own = fast_is_better(values)
    gain = 0.43 if values[CORKING] is False else 0.0
    return Effect(ln_latency=0.2 * own.ln_latency - gain, capacity_per_s=4_000.0)


def spec(*arms: Arm, **changes: Any) -> BlockSpec:
    """Return a block of the confirmation at a moderate rate."""
    made = BlockSpec("confirm", 0, arms, PLAN, "open", 2_000.0, needs_all=True)
    return replace(made, **changes)


PAIR = (Arm(BASELINE, STOCK), Arm("candidate", HAND))


def exclusive(**changes: Any) -> Rig:
    """Return a rig on which only one instance can live."""
    return rig(exclusive=True, **changes)


def test_every_window_has_a_start_of_its_own_in_random_order() -> None:
    """One deployment each; the rounds are complete, and not always in the same order."""
    made = exclusive()
    before = made.host.deployments
    block = run_block(made.bench(), spec(*PAIR))
    assert block.state == "complete"
    assert made.host.deployments - before == len(block.windows) == 2 * PLAN.rounds
    rounds = [[w.instance for w in block.windows if w.round == r] for r in range(PLAN.rounds)]
    assert all(sorted(order) == [BASELINE, "candidate"] for order in rounds)
    assert len({tuple(order) for order in rounds}) == 2
    assert len(made.host.running) == 1


def test_a_refused_configuration_leaves_and_the_others_go_on() -> None:
    """Refused at its first window, never tried again."""
    faults = Faults(refuse=lambda values: "the kernel refuses it" if values["fast"] else "")
    made = exclusive(faults=faults)
    other = Arm("c2", SPACE.complete({"size": 1024}, STOCK))
    block = run_block(made.bench(), spec(*PAIR, other, needs_all=False))
    states = {i.instance: (i.state, i.message) for i in block.instances}
    assert states["candidate"] == ("refused", "the kernel refuses it")
    assert states["c2"][0] == states[BASELINE][0] == "live"
    assert {w.instance for w in block.windows} == {BASELINE, "c2"}
    assert len(block.windows) == 2 * PLAN.rounds


def test_a_refused_baseline_is_the_hosts_fault() -> None:
    """There is nothing to compare with."""
    made = exclusive(faults=Faults(refuse=lambda _: "no"))
    with pytest.raises(HostError, match="refuses the baseline itself"):
        run_block(made.bench(), spec(*PAIR))


def test_a_start_that_fails_breaks_the_block() -> None:
    """An instance that does not start fails the block, as in blocks of parallel instances."""
    made = exclusive(faults=Faults(fails_to_start={(1, BASELINE), (1, "candidate")}))
    with pytest.raises(HostError, match="did not start"):
        run_block(made.bench(), spec(*PAIR))
    assert blocks(made.record(), "confirm")[0].state == "failed"


def test_one_that_leaves_in_anothers_window_is_measured_no_more() -> None:
    """An instance that is dropped in another's window is measured no more."""
    other = Arm("c2", SPACE.complete({"size": 1024}, STOCK))
    made = exclusive()

    def c2_leaves(windows: Sequence[Measurement]) -> Mapping[str, str]:
        """Return as soon as all have a window, and another's was the last."""
        there = {window.instance for window in windows}
        return {"c2": "behind"} if len(there) == 3 and windows[-1].instance != "c2" else {}

    block = run_block(made.bench(), spec(*PAIR, other, needs_all=False), c2_leaves)
    assert block.state == "complete"
    assert {i.instance: i.state for i in block.instances}["c2"] == "dropped"
    measured = Counter(window.instance for window in block.windows)
    assert measured["c2"] < measured[BASELINE] == measured["candidate"] == PLAN.rounds


def test_the_plan_counts_every_start() -> None:
    """Longer windows and fewer of them, because each costs a start."""
    goals = parse_goals(("p99",))
    apart = plan_blocks(goals, 50_000.0, 3_600.0)
    alone = plan_blocks(goals, 50_000.0, 3_600.0, exclusive=True)
    assert alone.confirm.window_s == 2 * apart.confirm.window_s
    assert alone.confirm.rounds < apart.confirm.rounds
    assert alone.confirm.cost_s(2) > 2 * alone.confirm.rounds * alone.confirm.window_s


def test_a_study_finds_the_effect_of_a_setting_of_the_kernel() -> None:
    """A study finds a better kernel setting and exports it as a file for sysctl.d."""
    made = exclusive(truth=corking_hurts, time_s=1_800.0, objective="p50", space=WHOLE)
    stock = WHOLE.baseline("stock")
    made.baseline = stock
    made.spec = replace(made.spec, known_good=())
    described = made.host.describe

    def describe(configuration: Configuration) -> ConfigurationRecord:
        return replace(described(configuration), kernel=settings_of(configuration, SEEN))

    made.host.describe = describe  # type: ignore[method-assign]
    study = evaluate(made.run())
    assert study.verdict is not None
    assert study.verdict.kind is VerdictKind.BETTER
    assert study.verdict.estimate.high < 0.75
    changes = {change.name: (change.baseline, change.tuned) for change in study.changes}
    assert changes[CORKING] == (True, False)
    exported = export_files(study)[SYSCTL_FILE]
    assert f"{CORKING} = 0" in exported.splitlines()
    assert "From tuner" in exported


def test_the_plan_follows_what_a_switch_costs_here() -> None:
    """The cost of a switch comes from the first block's gaps; before it, a usual figure holds."""
    made = exclusive()
    bench = made.bench()
    assert overhead(bench.store.record(), exclusive=True) == USUAL
    measure_capacity(bench, STOCK)
    found = overhead(bench.store.record(), exclusive=True)
    assert found.switch_s == pytest.approx(1.3, abs=0.1), "what a deployment of the lab costs"
    dear = replace(PLAN, overhead=replace(found, switch_s=10.0))
    assert dear.cost_s(2) - replace(PLAN, overhead=found).cost_s(2) == pytest.approx(
        2 * PLAN.rounds * (10.0 - found.switch_s)
    )
