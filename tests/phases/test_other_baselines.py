"""Tests of further baselines: measured in the confirmation's blocks, with their own claims."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from tests.phases.rig import HAND, SPACE, STOCK, Rig, blocks, fast_is_better, rig
from tuner.judge.comparison import Judged
from tuner.judge.confirmation import Missing
from tuner.judge.plan import Design
from tuner.judge.results import StudyResult, evaluate
from tuner.judge.scoring import BASELINE
from tuner.paths import data_dir
from tuner.phases.study import calibrate, confirm
from tuner.record.model import Record
from tuner.report.data import as_data
from tuner.report.html import render_html
from tuner.report.markdown import render_markdown
from tuner.report.text import result_lines
from tuner.space.configuration import Configuration, Value
from tuner.stats.verdict import VerdictKind
from tuner.testing.lab import Effect, Faults

BEST = SPACE.complete({"fast": True, "boost": 1000}, STOCK)
"""13 % below HAND, which is 39 % below STOCK."""
SMALL = SPACE.complete({"size": 1024}, STOCK)
"""As fast as STOCK."""


def with_others(*others: Configuration, names: tuple[str, ...] = ("hand",), **changes: Any) -> Rig:
    """Return a rig with STOCK as baseline and these as further ones."""
    design = Design(others=len(others))
    return rig(others=others, names=("stock", *names), design=design, **changes)


def confirmed(made: Rig, *candidates: Configuration) -> Record:
    """Return the record of a confirmation of these candidates."""
    confirm(calibrate(made.bench(), made.spec), *candidates)
    return made.record()


@pytest.fixture(scope="module")
def two() -> StudyResult:
    """Return the result of BEST against STOCK, with HAND and SMALL as further baselines."""
    return evaluate(confirmed(with_others(HAND, SMALL, names=("hand", "small.yaml")), BEST))


def test_every_baseline_is_an_arm_of_every_block(two: StudyResult) -> None:
    """In the same rounds, and named by the protocol beforehand."""
    protocol = two.record.protocol
    assert protocol is not None
    assert protocol.beside == (HAND.digest, SMALL.digest)
    for block in blocks(two.record, "confirm"):
        arms = {i.instance: i.digest for i in block.instances}
        assert arms == {
            BASELINE: STOCK.digest,
            "candidate": BEST.digest,
            "beside1": HAND.digest,
            "beside2": SMALL.digest,
        }
        assert len(block.windows) == 4 * protocol.rounds


def test_the_verdict_is_against_the_first_and_the_others_are_shown_next_to_it(
    two: StudyResult,
) -> None:
    """Each with the truth in an interval that is wider than that of a single claim."""
    assert two.verdict is not None
    assert two.verdict.kind is VerdictKind.BETTER
    hand, small = (entry for entry in two.others if isinstance(entry, Judged))
    truth = -0.02 * math.log(1000)
    for entry, ratio in ((hand, math.exp(truth)), (small, math.exp(truth - 0.5))):
        found = entry.verdict.estimate
        assert found.low <= ratio <= found.high
        assert found.confidence == pytest.approx(1 - 0.05 / 2)
        assert entry.adjusted_p >= found.p_value
    assert two.verdict.estimate.confidence == pytest.approx(0.95)
    assert [entry.claim.against for entry in (hand, small)] == [HAND.digest, SMALL.digest]


def test_every_report_shows_them(two: StudyResult) -> None:
    """By the names that the user gave."""
    data = as_data(two, data_dir("studies"))
    assert [entry["baseline"] for entry in data["beside"]] == [HAND.digest, SMALL.digest]
    assert data["beside"][1]["verdict"] == "better"
    text = "\n".join(result_lines(two))
    for shown in (text, render_markdown(two), render_html(two)):
        assert "small.yaml" in shown
        assert "uned against" in shown
    assert "baseline (stock)" in render_markdown(two)


def test_a_winner_that_is_one_of_the_baselines_says_so() -> None:
    """A baseline that is also the winner is not compared; the report says why."""
    study = evaluate(confirmed(with_others(HAND), HAND))
    (entry,) = study.others
    assert isinstance(entry, Missing)
    assert entry.reason == "it is the tuned configuration itself"
    assert len(blocks(study.record, "confirm")[0].instances) == 2
    assert study.verdict is not None


def test_a_further_baseline_that_fails_the_load_does_not_spoil_the_claim() -> None:
    """A failing further baseline leaves each block; the verdict stands and the report names it."""

    def truth(values: Mapping[str, Value]) -> Effect:
        failing = values["size"] == 1024
        return (
            Effect(error_share=0.2, capacity_per_s=4_000.0) if failing else fast_is_better(values)
        )

    study = evaluate(confirmed(with_others(SMALL, names=("small.yaml",), truth=truth), HAND))
    assert study.verdict is not None
    assert study.verdict.kind is VerdictKind.BETTER
    assert study.record.protocol is not None
    assert study.verdict.estimate.n == study.record.protocol.blocks
    (entry,) = study.others
    assert isinstance(entry, Missing)
    assert entry.failed == study.verdict.estimate.n
    assert "failed the load in" in entry.reason
    assert "requests failed" in entry.reason
    for block in blocks(study.record, "confirm"):
        left = {i.instance: i.state for i in block.instances}
        assert left == {BASELINE: "live", "candidate": "live", "beside1": "dropped"}


def test_a_further_baseline_that_the_server_refuses_does_not_spoil_the_claim() -> None:
    """A refused further baseline does not affect the verdict; the report quotes the server."""
    refuses = Faults(refuse=lambda values: "size too small" if values["size"] == 1024 else "")
    study = evaluate(confirmed(with_others(SMALL, names=("small.yaml",), faults=refuses), HAND))
    assert study.verdict is not None
    assert study.verdict.kind is VerdictKind.BETTER
    (entry,) = study.others
    assert isinstance(entry, Missing)
    assert "size too small" in entry.reason


def test_with_several_finalists_all_contrasts_are_one_family() -> None:
    """The named one is picked afterwards, so its intervals are those of 1 - 0.05 / 4."""
    made = with_others(HAND, SMALL, names=("hand", "small.yaml"))
    study = evaluate(confirmed(made, SPACE.complete({"mode": "b"}, STOCK), BEST))
    assert study.candidate == BEST.digest
    for entry in study.others:
        assert isinstance(entry, Judged)
        assert entry.verdict.estimate.confidence == pytest.approx(1 - 0.05 / 4)


def test_the_plan_has_room_for_every_arm() -> None:
    """And blocks enough that the intervals of all contrasts are finite."""
    assert Design(others=2).arms == 4
    assert Design(others=1).least_blocks == Design().least_blocks == 6
    assert Design(others=2).least_blocks == 7
