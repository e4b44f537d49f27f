"""Whole studies on a host whose truth is known: what is there is found, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean

import pytest

from tests.phases.rig import HAND, SPACE, STOCK, all_the_same, blocks, fast_is_better, rig
from tuner.judge.results import evaluate
from tuner.judge.scoring import mean_loss
from tuner.phases.measure import measure_one
from tuner.phases.study import calibrate, confirm
from tuner.space.configuration import Value
from tuner.stats.verdict import VerdictKind
from tuner.testing.lab import Effect, Faults
from tuner.testing.simulate import Noise, SimulatedStalls

NOISY = Noise(ar_sd=0.05, restart_sd=0.03, burst_probability=0.05, burst_scale=0.1)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_better_configuration_is_found_and_confirmed(seed: int) -> None:
    """On a noisy host with stalls and a heavy tail: better, and the ratio is the truth."""
    made = rig(seed=seed, noise=NOISY, stalls=SimulatedStalls(), tail_share=0.02)
    record = made.run()
    study = evaluate(record)
    assert study.verdict is not None
    assert study.verdict.kind is VerdictKind.BETTER
    assert study.candidate is not None
    values = record.configurations[study.candidate].values
    assert values["fast"] is True
    truth = math.exp(fast_is_better(values).ln_latency)
    assert study.verdict.estimate.low * 0.93 <= truth <= study.verdict.estimate.high * 1.07


def test_where_nothing_matters_nothing_is_claimed() -> None:
    """Six studies of identical effects: the winner of each search is not called better.

    A verdict of better or worse needs the whole interval beyond a margin of at least 3 %, so even
    one in six would be out of the ordinary.
    """
    kinds = []
    for seed in range(6):
        study = evaluate(
            rig(seed=seed, truth=all_the_same, noise=NOISY, stalls=SimulatedStalls()).run()
        )
        assert study.verdict is not None
        kinds.append(study.verdict.kind)
    assert kinds.count(VerdictKind.BETTER) + kinds.count(VerdictKind.WORSE) <= 1


def worse_when_fast(values: Mapping[str, Value]) -> Effect:
    """Return an effect that makes ``fast`` slower."""
    return Effect(ln_latency=0.2 * bool(values["fast"]), capacity_per_s=4_000.0)


def test_a_worse_configuration_is_called_worse() -> None:
    """Compared with the baseline, it is found out."""
    made = rig(truth=worse_when_fast)
    confirm(calibrate(made.bench(), made.spec), HAND)
    study = evaluate(made.record())
    assert study.verdict is not None
    assert study.verdict.kind is VerdictKind.WORSE
    assert study.verdict.estimate.ratio == pytest.approx(math.exp(0.2), rel=0.05)


def test_the_tuned_configuration_as_its_own_baseline_is_not_better_again() -> None:
    """With the best as baseline, nothing survives the search, or nothing is claimed of it."""
    best = SPACE.complete({"fast": True, "boost": 1_000}, STOCK)
    for seed in (1, 2, 3):
        study = evaluate(rig(baseline=best, seed=seed).run())
        if study.verdict is None:
            assert study.status == "nothing-better"
        else:
            assert study.verdict.kind is not VerdictKind.BETTER


def capacity_when_fast(values: Mapping[str, Value]) -> Effect:
    """Twice the capacity, the same latency."""
    return Effect(capacity_per_s=8_000.0 if values["fast"] else 4_000.0)


def test_throughput_is_maximised() -> None:
    """The ratio is above one, and that is better."""
    study = evaluate(rig(objective="throughput", truth=capacity_when_fast).run())
    assert study.verdict is not None
    assert study.verdict.kind is VerdictKind.BETTER
    assert study.verdict.estimate.ratio == pytest.approx(2.0, rel=0.1)


def test_the_winner_is_shown_with_what_it_promised() -> None:
    """The report shows the search's figure next to the confirmed one: the winner's curse.

    The winner's own looks promise a gain where there is none; what all arms of the search say
    together is nearer to what fresh blocks confirm.
    """
    looks, searched, confirmed = [], [], []
    for seed in (1, 2, 3, 4):
        record = rig(truth=all_the_same, noise=NOISY, seed=seed, time_s=240.0).run()
        shown = evaluate(record).shrinkage
        assert shown is not None
        winner = next(t for t in record.trials if t.number == shown.trial)
        looks.append(mean_loss(winner.losses))
        searched.append(math.log(shown.searched))
        confirmed.append(math.log(shown.confirmed))
    assert fmean(looks) < fmean(searched) < 0
    assert abs(fmean(confirmed)) < abs(fmean(looks))


def test_nothing_to_confirm_is_an_outcome_too() -> None:
    """A study whose server refuses all but the baseline ends without a verdict and says why."""
    refuse = Faults(refuse=lambda values: "" if values == STOCK.values else "no")
    made = rig(faults=refuse)
    record = made.run()
    study = evaluate(record)
    assert record.ended_unix_s is not None
    assert record.protocol is None
    assert study.verdict is None
    assert "there is nothing to confirm" in made.progress.notes[-1]


def test_the_phases_come_in_order() -> None:
    """Capacity, noise, search, confirmation, further starts, other load points; each announced."""
    made = rig(objective="p50", time_s=300.0)
    record = made.run()
    order = [block.phase for block in record.blocks]
    expected = ["capacity", "aa", "search", "confirm", "starts", "load-points"]
    assert list(dict.fromkeys(order)) == expected
    assert order == sorted(order, key=list(dict.fromkeys(order)).index)
    assert len(made.progress.phases) == 7, "and the length of the slices"


def test_a_study_keeps_to_its_time() -> None:
    """At a rate at which windows are short; give or take a block."""
    time_s = 900.0
    made = rig(objective="p50", time_s=time_s)
    begun = made.host.now_s
    record = made.run()
    spent_s = made.host.now_s - begun
    assert len(blocks(record, "search")) > 5
    assert 0.75 * time_s < spent_s < 1.05 * time_s


def test_most_of_the_time_is_spent_measuring() -> None:
    """Seven tenths of the search, whose looks are short, and more of the confirmation."""
    study = evaluate(rig(objective="p50", time_s=900.0).run())
    shares = {time.phase: time.measured_s / time.elapsed_s for time in study.times}
    assert shares["search"] >= 0.75
    assert shares["confirm"] >= 0.80


def test_one_configuration_can_be_measured_by_itself() -> None:
    """Figures at its load point, without what stalls touched, as in a study."""
    made = rig(noise=NOISY, stalls=SimulatedStalls())
    measured = measure_one(made.bench(), made.spec)
    assert measured.rate_per_s == pytest.approx(0.7 * measured.capacity.per_s, rel=0.05)
    assert len(measured.windows) >= 3
    for window in measured.windows:
        assert window.effective == pytest.approx(window.stall_free.count, rel=0.3)
        assert 0 < window.excluded_share < 0.5
