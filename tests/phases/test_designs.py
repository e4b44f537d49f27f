"""Tests of the confirmation's designs: stopping early, and several finalists."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.phases.rig import HAND, NOISY, STOCK, Rig, all_the_same, blocks, rig, watched
from tuner.errors import Interrupted
from tuner.goals.objective import Objective
from tuner.judge.confirmation import confirmation, tally
from tuner.judge.plan import Design
from tuner.judge.results import evaluate
from tuner.phases.study import calibrate, confirm
from tuner.record.model import Record
from tuner.report.markdown import render_markdown
from tuner.stats.sequential import LEAST_WATCHED, Look
from tuner.stats.verdict import VerdictKind
from tuner.testing.lab import Faults
from tuner.testing.simulate import Noise

SEQUENTIAL = Design(sequential=True)


def confirmed(made: Rig) -> Record:
    """Return the record of a confirmation of HAND."""
    confirm(calibrate(made.bench(), made.spec), HAND)
    return made.record()


def test_a_large_gain_stops_a_sequential_confirmation_early() -> None:
    """A safe and precise claim ends it at its first block, and the report finds the same one."""
    made = watched()
    record = confirmed(made)
    protocol = record.protocol
    assert protocol is not None
    assert protocol.looks_level == pytest.approx(0.01)
    assert protocol.precision == 0.05
    done = len(blocks(record, "confirm", "complete"))
    assert 9 <= done < protocol.blocks
    study = evaluate(record)
    assert study.status == "confirmed"
    assert study.verdict is not None
    assert study.verdict.kind is VerdictKind.BETTER
    assert study.verdict.estimate.p_kind == "always-valid"
    assert study.verdict.estimate.n == done == len(study.looks)
    assert study.looks[-1].high == study.verdict.estimate.high < protocol.band.low
    assert study.figures[0].change == study.verdict.estimate, "one interval, wherever it is shown"
    assert width(study.looks[-1]) <= 1.05**2
    assert study.looks[-2].high < protocol.band.low, "one block earlier it was safe"
    assert width(study.looks[-2]) > 1.05**2, "but not precise"
    assert any("the claim is safe and precise after" in note for note in made.progress.notes)


def width(look: Look) -> float:
    """Return the ratio of the ends of a look's interval."""
    return look.high / look.low


def test_the_report_says_that_the_protocol_was_sequential() -> None:
    """With the most blocks, the e-values on the way, and a p that is not called exact."""
    study = evaluate(confirmed(watched()))
    text = render_markdown(study)
    assert "sequential: at most" in text
    assert "an always-valid look after each at 1% until a claim is safe" in text
    assert "an e-value of 100 rejects “no difference”, whenever it is reached)" in text
    assert "always-valid p" in study.sentence


def test_the_last_block_of_a_sequential_confirmation_has_the_exact_test() -> None:
    """Where no look is safe and precise, it decides, and the report says so."""
    study = evaluate(confirmed(watched(noise=replace(NOISY, restart_sd=0.05))))
    protocol = study.record.protocol
    assert protocol is not None
    assert study.verdict is not None
    assert study.verdict.kind is VerdictKind.BETTER
    assert study.verdict.estimate.n == protocol.blocks
    assert "look-adjusted p" in study.sentence
    assert width(study.looks[-1]) < width(study.looks[-2])
    assert "; the last interval is that of the exact test" in render_markdown(study)


def test_a_short_confirmation_is_not_watched() -> None:
    """Looks could not end it much earlier: its blocks are fixed, and its test is exact."""
    made = rig(objective="p50", design=SEQUENTIAL)
    ready = calibrate(made.bench(), made.spec)
    assert ready.confirm_blocks < LEAST_WATCHED
    confirm(ready, HAND)
    study = evaluate(made.record())
    assert study.record.protocol is not None
    assert study.record.protocol.stakes is None
    assert study.verdict is not None
    assert study.verdict.estimate.n == ready.confirm_blocks
    assert "exact p" in study.sentence
    assert study.looks == ()


def test_where_nothing_is_shown_it_runs_to_its_most_blocks() -> None:
    """Inconclusive at the end, not before."""
    made = watched(truth=all_the_same, noise=Noise(restart_sd=0.2))
    record = confirmed(made)
    assert record.protocol is not None
    study = evaluate(record)
    assert len(blocks(record, "confirm", "complete")) == record.protocol.blocks
    assert study.verdict is not None
    assert study.verdict.kind is VerdictKind.INCONCLUSIVE


def test_an_interrupted_sequential_study_ends_where_it_would_have() -> None:
    """Looking again after a resumption changes nothing: the stop is a function of the record."""
    whole = confirmed(watched())
    before = watched()
    calibrate(before.bench(), before.spec)
    faults = Faults(interrupted={before.host.windows + 30})
    made = watched(faults=faults)
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
    record = confirmed(watched())
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


def test_finalists_and_looks_together() -> None:
    """Each finalist is watched at a third of the level; a resumed study knows them all."""
    made = watched(design=Design(finalists=3, sequential=True))
    record = made.run()
    assert record.protocol is not None
    assert record.protocol.stakes is not None
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
    """A design states its arms, its fewest blocks, and the level of its test after the last."""
    assert (Design().arms, Design().level, Design().least_blocks) == (2, 0.05, 6)
    three = Design(finalists=3)
    assert (three.arms, three.level, three.least_blocks) == (4, 0.05 / 3, 7)
    assert SEQUENTIAL.least_blocks == 6
    assert [Design().end_level(blocks) for blocks in (11, 12)] == [0.05, 0.05]
    assert [SEQUENTIAL.end_level(blocks) for blocks in (11, 12)] == pytest.approx([0.05, 0.04])
