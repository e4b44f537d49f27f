"""Ladders on the simulated lab, whose arms have known capacities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

from tests.phases.rig import HAND, STOCK, rig
from tuner.goals.constraint import Constraint
from tuner.judge.climbs import Climb, climbs, rungs
from tuner.judge.plan import BlockPlan
from tuner.phases.block import Arm
from tuner.phases.climb import run_ladder
from tuner.record.model import Record
from tuner.space.configuration import Value
from tuner.testing.lab import Effect, Faults

WEAK, STRONG = 2_000.0, 4_000.0
ARMS = (Arm("weak", STOCK), Arm("strong", HAND))
LIMIT = Constraint.parse("p99 <= 2ms")
PLAN = BlockPlan(rounds=1, window_s=0.5, first_warmup_s=0.1, warmup_s=0.1)
RATES = rungs(WEAK, STRONG, 10)
PASSES = 3


def hand_is_stronger(values: Mapping[str, Value]) -> Effect:
    """``hand`` can do twice what ``stock`` can."""
    return Effect(capacity_per_s=STRONG if values == HAND.values else WEAK)


def climb_of(record: Record) -> dict[str, Climb]:
    """Return the result of a record's ladder by arm."""
    found = climbs(record.blocks, ("weak", "strong"), LIMIT, within_s=0.1)
    return {climb.arm: climb for climb in found}


@cache
def climbed() -> Record:
    """Return one ladder that other tests look at."""
    made = rig(truth=hand_is_stronger)
    run_ladder(made.bench(), ARMS, RATES, PASSES, PLAN)
    return made.record()


def test_every_rate_is_offered_in_every_pass_in_random_order() -> None:
    """A block holds one rate and all arms; the order of a pass is not that of the rates."""
    blocks = [block for block in climbed().blocks if block.phase == "ladder"]
    offered = [{window.rate_per_s for window in block.windows} for block in blocks]
    assert all(len(rates) == 1 for rates in offered)
    order = [rates.pop() for rates in offered]
    assert len(order) == PASSES * len(RATES)
    for pass_ in range(PASSES):
        of_pass = order[pass_ * len(RATES) : (pass_ + 1) * len(RATES)]
        assert sorted(of_pass) == sorted(RATES)
        assert of_pass != sorted(of_pass)
    assert all({w.instance for w in block.windows} == {"weak", "strong"} for block in blocks)


def test_the_knee_is_where_the_simulated_server_bends() -> None:
    """1 + rho^30 / (1 - rho) is 2 at 92 % of the capacity: the interval holds it, or nearly."""
    for arm, capacity in (("weak", WEAK), ("strong", STRONG)):
        knee = climb_of(climbed())[arm].knee
        assert knee is not None
        assert knee.side == "found"
        assert 0.8 < knee.per_s / (0.92 * capacity) < 1.15
        assert knee.low <= knee.per_s <= knee.high


def test_the_highest_rate_within_the_limit_is_below_the_capacity_and_separates_arms() -> None:
    """Twice the capacity, twice the rate; both were found between rates that were offered."""
    found = climb_of(climbed())
    weak, strong = found["weak"].holds, found["strong"].holds
    assert weak is not None
    assert strong is not None
    assert 0.8 * WEAK < weak.per_s < 1.1 * WEAK
    assert math.isclose(strong.per_s / weak.per_s, 2.0, rel_tol=0.15)
    assert weak.high < strong.low


def test_what_is_answered_too_late_was_not_available() -> None:
    """All is answered in time on an idle server; beyond the capacity a part is not."""
    weak = climb_of(climbed())["weak"]
    assert weak.rungs[0].availability == 1.0
    assert weak.rungs[-1].availability < 0.6
    assert [rung.rate_per_s for rung in weak.rungs] == sorted(RATES)


def test_few_blocks_give_no_interval() -> None:
    """One pass has a knee, and says nothing of how sure it is."""
    made = rig(truth=hand_is_stronger)
    run_ladder(made.bench(), ARMS, RATES, 1, PLAN)
    knee = climb_of(made.record())["strong"].knee
    assert knee is not None
    assert math.isnan(knee.low)


def test_the_generators_own_limit_is_named() -> None:
    """A window in which the generator was starved is not a finding about the server."""
    made = rig(truth=hand_is_stronger, faults=Faults(starved={0, 1}))
    run_ladder(made.bench(), ARMS, RATES, 1, PLAN)
    starved = [c for c in climb_of(made.record()).values() if c.generator_limit_per_s is not None]
    assert len(starved) == 2
    for climb in starved:
        rung = next(r for r in climb.rungs if r.rate_per_s == climb.generator_limit_per_s)
        assert (rung.windows, rung.starved) == (0, 1)


def test_a_limit_that_was_never_reached_lies_beyond_the_ladder() -> None:
    """A limit beyond the ladder has only a bound, with its side."""
    made = rig(truth=hand_is_stronger)
    run_ladder(made.bench(), ARMS, RATES[:4], 3, PLAN)
    strong = climb_of(made.record())["strong"].holds
    assert strong is not None
    assert strong.side == "beyond"
    assert strong.per_s == max(RATES[:4])


def test_a_rate_that_fails_is_left_out_and_said() -> None:
    """The other rates are measured all the same."""
    made = rig(truth=hand_is_stronger, faults=Faults(host_gone={2}))
    run_ladder(made.bench(), ARMS, RATES, 1, PLAN)
    assert any("left out of pass 1" in note for note in made.progress.notes)
    done = [b for b in made.record().blocks if b.phase == "ladder" and b.state == "complete"]
    assert len(done) == len(RATES) - 1


def test_rungs_reach_from_idle_to_beyond_the_strongest() -> None:
    """Two far below the weakest arm, the last beyond the strongest, rising, none twice."""
    assert RATES[0] < RATES[1] < 0.5 * WEAK
    assert RATES[-1] > STRONG
    assert list(RATES) == sorted(set(RATES))
