"""Tests of the confirmation's designs: stopping early, and several finalists."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.phases.rig import HAND, STOCK, Rig, all_the_same, blocks, rig
from tuner.errors import Interrupted
from tuner.goals.objective import Objective
from tuner.judge.confirmation import confirmation, tally
from tuner.judge.plan import Design
from tuner.judge.results import evaluate
from tuner.phases.study import calibrate, confirm
from tuner.record.model import Record
from tuner.report.markdown import render_markdown
from tuner.stats.verdict import VerdictKind
from tuner.testing.lab import Faults
from tuner.testing.simulate import Noise

SEQUENTIAL = Design(sequential=True)
NOISY = Noise(ar_sd=0.02, restart_sd=0.04)


def confirmed(made: Rig) -> Record:
    """Return the record of a confirmation of HAND."""
    confirm(calibrate(made.bench(), made.spec), HAND)
    return made.record()


def test_a_large_gain_stops_the_always_valid_confirmation_early() -> None:
    """A safe claim ends the confirmation at its first block, and the report finds the same one."""
    made = rig(objective="p50", design=SEQUENTIAL, noise=NOISY, effect=0.03, time_s=600.0)
    record = confirmed(made)
    protocol = record.protocol
    assert protocol is not None
    assert protocol.sequential_rho is not None
    done = len(blocks(record, "confirm", "complete"))
    assert 6 <= done < protocol.blocks
    study = evaluate(record)
    assert study.status == "confirmed"
    assert study.verdict is not None
    assert study.verdict.kind is VerdictKind.BETTER
    assert study.verdict.estimate.always_valid
    assert study.verdict.estimate.n == done == len(study.looks)
    assert study.looks[-1].high == study.verdict.estimate.high < protocol.band.low
    assert study.figures[0].change == study.verdict.estimate, "one interval, wherever it is shown"
    assert study.looks[-2].high >= protocol.band.low, "one block earlier it was not safe"
    assert any("the claim is safe after" in note for note in made.progress.notes)


def test_the_report_says_that_the_protocol_was_sequential() -> None:
    """With the most blocks, the e-values on the way, and a p that is not called exact."""
    study = evaluate(confirmed(rig(objective="p50", design=SEQUENTIAL)))
    text = render_markdown(study)
    assert "sequential: at most" in text
    assert "always-valid 95 % interval" in text
    assert "always-valid p" in study.sentence


def test_where_nothing_is_shown_it_runs_to_its_most_blocks() -> None:
    """Inconclusive at the end, not before."""
    made = rig(objective="p50", truth=all_the_same, design=SEQUENTIAL, noise=Noise(restart_sd=0.2))
    record = confirmed(made)
    assert record.protocol is not None
    study = evaluate(record)
    assert len(blocks(record, "confirm", "complete")) == record.protocol.blocks
    assert study.verdict is not None
    assert study.verdict.kind is VerdictKind.INCONCLUSIVE


def test_an_interrupted_sequential_study_ends_where_it_would_have() -> None:
    """Looking again after a resumption changes nothing: the stop is a function of the record."""
    whole = confirmed(rig(objective="p50", design=SEQUENTIAL))
    before = rig(objective="p50", design=SEQUENTIAL)
    calibrate(before.bench(), before.spec)
    faults = Faults(interrupted={before.host.windows + 30})
    made = rig(objective="p50", design=SEQUENTIAL, faults=faults)
    with pytest.raises(Interrupted):
        confirmed(made)
    assert evaluate(made.record()).status == "incomplete"
    assert "of at most" in evaluate(made.record()).sentence
    record = confirmed(made)
    study = evaluate(record)
    assert study.verdict is not None
    assert abs(study.verdict.estimate.n - evaluate(whole).verdict.estimate.n) <= 2  # type: ignore[union-attr]


def test_blocks_beyond_the_stop_are_not_looked_at() -> None:
    """Blocks after a safe claim cannot take it back."""
    record = confirmed(rig(objective="p50", design=SEQUENTIAL))
    comparison = confirmation(record, Objective("p50"))
    found = comparison.counted(record.blocks)
    against = replace(found[-1], differences=(5.0,))
    first = tally(found, comparison)
    later = tally([*found, against, against], comparison)
    assert first.decided
    assert later == first


def test_finalists_share_their_blocks_with_the_baseline() -> None:
    """Every block holds the baseline and all finalists, the search's winner first."""
    made = rig(objective="p50", design=Design(finalists=3), time_s=400.0)
    record = made.run()
    protocol = record.protocol
    assert protocol is not None
    assert len(set(protocol.candidates)) == 3
    for block in blocks(record, "confirm", "complete"):
        digests = [instance.digest for instance in block.instances]
        assert digests == [STOCK.digest, *protocol.candidates]
    study = evaluate(record)
    assert [entry.claim.arm for entry in study.finalists] == list(protocol.candidates)
    named = [entry for entry in study.finalists if entry.claim.arm == study.candidate]
    assert len(named) == 1
    assert named[0].verdict.kind is VerdictKind.BETTER
    assert named[0].verdict == study.verdict
    ratios = [e.verdict.estimate.ratio for e in study.finalists]
    assert named[0].verdict.estimate.ratio == min(ratios)
    assert all(e.adjusted_p >= e.verdict.estimate.p_value for e in study.finalists)
    assert "simultaneous 95 % interval of 3 finalists" in study.sentence
    assert "p, Holm" in render_markdown(study)
    for block in blocks(record, "load-points"):
        assert block.instances[1].digest == study.candidate


def test_finalists_and_always_valid_together() -> None:
    """Each finalist is watched at a third of the level; a resumed study knows them all."""
    made = rig(objective="p50", design=Design(finalists=3, sequential=True), time_s=400.0)
    record = made.run()
    study = evaluate(record)
    assert study.verdict is not None
    assert study.verdict.kind is VerdictKind.BETTER
    assert study.verdict.estimate.confidence == pytest.approx(1 - 0.05 / 3)
    assert evaluate(made.run()).sentence == study.sentence


def test_more_finalists_than_trials_are_as_many_as_there_are() -> None:
    """Two configurations in all, two finalists."""
    made = rig(objective="p50", design=Design(finalists=5), trials=2)
    record = made.run()
    assert record.protocol is not None
    assert len(record.protocol.candidates) == 2


def test_the_design_says_what_it_costs() -> None:
    """A design states its blocks, level, and worth in blocks of the fixed design."""
    assert (Design().arms, Design().level, Design().least_blocks) == (2, 0.05, 6)
    three = Design(finalists=3)
    assert (three.arms, three.level, three.least_blocks) == (4, 0.05 / 3, 7)
    assert SEQUENTIAL.blocks_for(10) == 18
    assert SEQUENTIAL.worth(18) == 10
    assert SEQUENTIAL.least_blocks == 8
    assert SEQUENTIAL.worth(6) == 6
    assert replace(three, sequential=True).worth(6) == 7
