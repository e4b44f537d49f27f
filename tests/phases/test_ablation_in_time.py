"""The ablation in a study's own time: when it runs, what it leaves alone, what it recommends."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.phases.rig import SPACE, STOCK, Rig, blocks, rig
from tuner.errors import Interrupted
from tuner.judge.results import StudyResult, evaluate
from tuner.judge.taken_apart import ablation_offer, left_out, left_out_sentence
from tuner.phases.ablate import run_study_and_ablation
from tuner.space.configuration import Value
from tuner.testing.lab import Effect, Faults

TUNED = SPACE.complete({"fast": True, "mode": "b", "size": 1000}, STOCK)


def only_fast_matters(values: Mapping[str, Value]) -> Effect:
    """``fast`` alone makes the gain."""
    return Effect(ln_latency=-0.5 * bool(values["fast"]), capacity_per_s=4_000.0)


def made(*, time_s: float = 900.0, ablate: bool = True, **changes: Any) -> Rig:
    """Return a study whose search ends at once, so that much of its time is left."""
    changes = {"truth": only_fast_matters, "objective": "p50", **changes}
    return rig(time_s=time_s, trials=1, known_good=(TUNED,), ablate=ablate, **changes)


def run(study: Rig) -> StudyResult:
    """Run a study as `tuner optimize` does."""
    run_study_and_ablation(study.bench(), study.spec)
    return evaluate(study.record())


@functools.cache
def without() -> StudyResult:
    """Return the same study without an ablation."""
    return run(made(ablate=False))


def test_what_is_left_of_the_time_goes_into_the_ablation() -> None:
    """The study keeps its time and its verdict, and recommends what was measured to suffice."""
    study = made()
    begun_s = study.host.now_s
    found = run(study)
    assert study.host.now_s - begun_s <= study.spec.time_s
    assert found.verdict == without().verdict
    assert found.ablation is not None
    assert found.ablation.is_over
    assert found.recommended == SPACE.complete({"fast": True}, STOCK).digest
    assert left_out(found) == ("mode", "size")
    assert "tuner export simulated --candidate" in left_out_sentence(found)
    assert ablation_offer(found) == ""


def test_a_switched_off_ablation_is_offered() -> None:
    """The offer names the command and its time; the whole winner is recommended."""
    found = without()
    assert found.ablation is None
    assert found.recommended == TUNED.digest
    assert left_out(found) == ()
    assert "tuner ablate simulated finds them in about 10 min" in ablation_offer(found)


def test_an_ablation_that_does_not_fit_is_not_begun() -> None:
    """Its least time is printed with what is left."""
    study = made(time_s=240.0)
    found = run(study)
    assert blocks(study.record(), "ablate") == []
    assert any(
        note.startswith("an ablation of the 3 changes takes ") for note in study.progress.notes
    )
    assert ablation_offer(found)


def test_an_interruption_keeps_the_verdict_and_the_measured() -> None:
    """Resuming continues with the next block, up to the same time limit."""
    before = sum(len(block.windows) for block in without().record.blocks)
    study = made(faults=Faults(interrupted={before + 150}))
    with pytest.raises(Interrupted):
        run(study)
    interrupted = evaluate(study.record())
    assert interrupted.verdict == without().verdict
    assert interrupted.recommended == TUNED.digest
    kept = [b.number for b in blocks(study.record(), "ablate", "complete")]
    assert kept
    again = run(study)
    assert [b.number for b in blocks(study.record(), "ablate", "complete")][: len(kept)] == kept
    assert again.recommended == SPACE.complete({"fast": True}, STOCK).digest


def test_a_host_that_fails_during_the_ablation_does_not_fail_the_study() -> None:
    """The reason is printed; `tuner ablate` continues."""
    first = len(without().record.blocks)
    study = made(faults=Faults(host_gone=range(first + 1, first + 9)))
    found = run(study)
    assert found.verdict == without().verdict
    assert found.recommended == TUNED.digest
    assert any(note.startswith("the ablation stopped: ") for note in study.progress.notes)


def test_without_a_gain_nothing_is_ablated() -> None:
    """A study without the verdict *better* has no ablation and no offer."""
    study = made(truth=lambda _: Effect(capacity_per_s=4_000.0))
    found = run(study)
    assert blocks(study.record(), "ablate") == []
    assert ablation_offer(found) == ""
    assert found.recommended == STOCK.digest


def test_a_single_change_needs_no_ablation() -> None:
    """The verdict itself is about that change."""
    study = made(
        truth=lambda values: Effect(-0.5 * (values["mode"] == "b"), capacity_per_s=4_000.0)
    )
    single = SPACE.complete({"mode": "b"}, STOCK)
    study.spec = replace(study.spec, known_good=(single,))
    found = run(study)
    assert blocks(study.record(), "ablate") == []
    assert ablation_offer(found) == ""


def test_a_smaller_difference_that_was_not_confirmed_is_not_recommended() -> None:
    """If no check passes, the measured winner stays the recommendation."""

    def all_for_memory(values: Mapping[str, Value]) -> Effect:
        memory = 8.0 + 4.0 * bool(values["fast"]) - 4.0 * (values["size"] == 1000)
        return Effect(-0.5 * bool(values["fast"]), 4_000.0, memory_mib=memory)

    study = made(
        truth=all_for_memory, wanted={"constraint": ["memory <= 1.1x baseline"]}, time_s=1200.0
    )
    found = run(study)
    assert found.ablation is not None
    assert found.ablation.checks
    digests = {check.digest for check in found.ablation.checks if not check.keeps}
    assert SPACE.complete({"fast": True}, STOCK).digest in digests
    assert found.recommended not in digests
