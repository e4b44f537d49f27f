"""Further starts of both arms, before a gain is claimed on few blocks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.phases.rig import HAND, Rig, all_the_same, blocks, rig, watched
from tuner.errors import Interrupted
from tuner.judge.confirmation import short_of_starts, tally_of
from tuner.judge.plan import blocks_of_copies
from tuner.judge.results import evaluate
from tuner.judge.scoring import BASELINE
from tuner.judge.support import LEAST_STARTS
from tuner.phases.study import calibrate, confirm
from tuner.record.model import Record
from tuner.stats.verdict import VerdictKind
from tuner.testing.lab import Faults


def confirmed(made: Rig) -> Record:
    """Return the record of a confirmation of HAND."""
    confirm(calibrate(made.bench(), made.spec), HAND)
    return made.record()


def test_a_gain_on_few_blocks_gets_more_starts() -> None:
    """With those of its blocks each arm has 17, and the verdict counts them."""
    made = rig()
    record = confirmed(made)
    own, further = blocks(record, "confirm"), blocks(record, "starts")
    labels = [i.instance for block in further for i in block.instances]
    copies = sum(label.startswith(BASELINE) for label in labels)
    assert len(own) + copies >= LEAST_STARTS
    assert 2 * copies == len(labels)
    study = evaluate(record)
    assert study.verdict is not None
    assert study.verdict.kind is VerdictKind.BETTER
    assert study.whole is not None
    assert study.whole.starts == len(own) + copies
    assert study.verdict.estimate.n == len(own), "they are no blocks of the verdict"
    assert f"further starts: {len(further)} blocks" in made.progress.phases


def test_no_gain_needs_no_more_starts() -> None:
    """A study of equal arms takes no time for them."""
    assert not blocks(confirmed(rig(truth=all_the_same)), "starts")


def test_one_instance_at_a_time_starts_often_enough() -> None:
    """Each window has a start of its own there."""
    made = rig()
    confirm(calibrate(replace(made.bench(), exclusive=True), made.spec), HAND)
    assert not blocks(made.record(), "starts")
    protocol = made.record().protocol
    assert protocol is not None
    assert protocol.evidence == "whole"


def test_a_study_that_stops_before_them_resumes_with_them() -> None:
    """Without them a gain is not claimed."""
    whole = confirmed(rig())
    first = next(block for block in whole.blocks if block.phase == "starts")
    before = sum(len(block.windows) for block in whole.blocks if block.number < first.number)
    made = rig(faults=Faults(interrupted={before}))
    with pytest.raises((Interrupted, KeyboardInterrupt)):
        confirmed(made)
    few = evaluate(made.record()).verdict
    assert few is not None
    assert few.kind is VerdictKind.INCONCLUSIVE
    assert "starts of each arm are too few" in few.sentence
    record = confirmed(made)
    assert len(blocks(record, "confirm")) == len(blocks(whole, "confirm"))
    complete = [len(blocks(each, "starts", "complete")) for each in (record, whole)]
    assert complete[0] == complete[1] > 0
    again = evaluate(record).verdict
    assert again is not None
    assert again.kind is VerdictKind.BETTER


def test_a_host_that_fails_costs_the_claim_and_not_the_study() -> None:
    """The study ends, and says why there is no claim."""
    whole = confirmed(rig())
    first = next(block for block in whole.blocks if block.phase == "starts")
    made = rig(faults=Faults(host_gone=range(first.number, 1_000)))
    record = confirmed(made)
    assert any(note.startswith("further starts left out") for note in made.progress.notes)
    assert record.ended_unix_s is not None
    verdict = evaluate(record).verdict
    assert verdict is not None
    assert verdict.kind is VerdictKind.INCONCLUSIVE


def test_a_sequential_confirmation_ends_before_them() -> None:
    """The blocks decide when it ends; further starts follow."""
    made = watched()
    record = confirmed(made)
    protocol = record.protocol
    assert protocol is not None
    assert len(blocks(record, "confirm")) < protocol.blocks
    assert any("the claim is safe" in note and "better" in note for note in made.progress.notes)
    assert blocks(record, "starts")
    found = tally_of(record, made.goals.first)
    assert found.verdict is not None
    assert found.verdict.kind is VerdictKind.BETTER
    assert short_of_starts(record, made.goals.first)


@pytest.mark.parametrize(
    ("starts", "arms", "expected"),
    [(11, 2, (3, 4)), (5, 2, (2, 3)), (1, 2, (1, 1)), (0, 2, (0, 0)), (11, 4, (6, 2))],
)
def test_a_block_has_as_many_instances_as_one_of_the_search(
    starts: int, arms: int, expected: tuple[int, int]
) -> None:
    """Four starts of each of two arms at once, two of each of four."""
    assert blocks_of_copies(starts, arms) == expected
