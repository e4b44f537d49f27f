"""The ablation: which changes matter, and the smallest difference that keeps the gain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.phases.rig import SPACE, STOCK, Rig, blocks, rig
from tests.spaces import load_space
from tuner.errors import DefinitionError, HostError
from tuner.goals.objective import Objective
from tuner.judge.ablation import Ablation, Part, blocks_at_least, contrasts
from tuner.judge.results import evaluate
from tuner.judge.scoring import BASELINE
from tuner.judge.taken_apart import (
    ablation_data,
    ablation_note,
    ablation_rows,
    ablation_sentence,
    minimal_changes,
)
from tuner.phases.ablate import run_ablation
from tuner.phases.study import calibrate, confirm
from tuner.record.model import Record
from tuner.space.configuration import Configuration, Value
from tuner.testing.lab import Effect, Faults
from tuner.testing.simulate import Noise

TUNED = SPACE.complete({"fast": True, "mode": "b", "size": 1000}, STOCK)


def effect(gain: float) -> Effect:
    """Return an effect that lowers the logarithm of every latency by this much."""
    return Effect(ln_latency=-gain, capacity_per_s=4_000.0)


def one_matters(values: Mapping[str, Value]) -> Effect:
    """``fast`` alone makes the gain."""
    return effect(0.5 * bool(values["fast"]))


def either_will_do(values: Mapping[str, Value]) -> Effect:
    """``fast`` and ``mode b`` can stand in for each other."""
    return effect(0.5 * bool(values["fast"] or values["mode"] == "b"))


def both_are_needed(values: Mapping[str, Value]) -> Effect:
    """Neither does anything without the other."""
    return effect(0.5 * bool(values["fast"] and values["mode"] == "b"))


def five_minutes(**changes: Any) -> Rig:
    """Return a rig with a study of five minutes: shorter windows are too noisy for a check."""
    return rig(time_s=300.0, **changes)


def ablated(
    made: Rig,
    tuned: Configuration = TUNED,
    *,
    time_s: float = 300.0,
    objective: Objective | None = None,
) -> Ablation:
    """Confirm a configuration on the rig and take it apart."""
    ready = calibrate(made.bench(), made.spec)
    bench = ready.bench
    bench.store.add_configuration(bench.describe(tuned))
    confirm(ready, tuned)
    whole = calibrate(made.bench(), replace(made.spec, economise=False))
    return run_ablation(whole, SPACE, time_s, objective)


def by_name(found: Ablation) -> dict[str, Part]:
    """Return the parts by their (only) setting."""
    return {part.contrast.names[0]: part for part in found.parts}


def kept(record: Record, found: Ablation) -> set[str]:
    """Return the changes of the smallest difference, except ``boost``, which ``fast`` activates."""
    assert found.minimal is not None
    minimal = record.configurations[found.minimal].configuration
    return set(minimal.differences(STOCK)) - {"boost"}


def test_only_what_matters_is_kept() -> None:
    """One of three changes makes the gain: found, proved on fresh blocks, and exported alone."""
    made = five_minutes(truth=one_matters)
    found = ablated(made)
    parts = by_name(found)
    assert {name for name, part in parts.items() if part.matters} == {"fast"}
    assert parts["fast"].reverted is not None
    assert parts["fast"].reverted.ratio == pytest.approx(math.exp(0.5), rel=0.05)
    assert parts["fast"].added is not None
    assert parts["fast"].added.ratio == pytest.approx(math.exp(-0.5), rel=0.05)
    assert kept(made.record(), found) == {"fast"}
    (check,) = found.checks
    assert check.keeps
    assert check.to_tuned is not None
    assert check.to_tuned.high < 1 + found.protocol.margin


def test_changes_that_stand_in_for_each_other_are_not_both_thrown_away() -> None:
    """Reverting either loses nothing, so neither "matters"; one of them is kept all the same."""
    made = five_minutes(truth=either_will_do)
    found = ablated(made)
    assert not any(part.matters for part in found.parts)
    assert kept(made.record(), found) in ({"fast"}, {"mode"})


def test_changes_that_need_each_other_are_both_kept() -> None:
    """Each matters among the others, though neither does anything alone."""
    made = five_minutes(truth=both_are_needed, seed=0)
    found = ablated(made)
    parts = by_name(found)
    assert {name for name, part in parts.items() if part.matters} == {"fast", "mode"}
    assert parts["mode"].added is not None
    assert parts["mode"].added.low < 1 < parts["mode"].added.high
    assert kept(made.record(), found) == {"fast", "mode"}


def test_a_setting_that_only_becomes_active_is_not_said_to_be_kept() -> None:
    """``fast`` makes ``boost`` active, at its compiled-in value: the tuned one is left out."""
    made = five_minutes(truth=one_matters, seed=2)
    found = ablated(made, SPACE.complete({"fast": True, "boost": 100, "mode": "b"}, STOCK))
    study = evaluate(made.record())
    assert found.minimal == SPACE.complete({"fast": True}, STOCK).digest
    assert [change.name for change in minimal_changes(study)] == ["fast"]
    findings = {row.names: row.finding for row in ablation_rows(study)}
    assert findings == dict.fromkeys(("boost", "mode"), "not shown to matter") | {"fast": "matters"}
    assert "1 setting keeps the gain: fast." in ablation_sentence(study)


def test_a_single_change_needs_no_check() -> None:
    """A tuned configuration with one change is its own smallest difference, without a check."""
    made = five_minutes(truth=one_matters)
    tuned = SPACE.complete({"fast": True}, STOCK)
    found = ablated(made, tuned)
    assert found.minimal == tuned.digest
    assert blocks(made.record(), "minimal") == []


def test_a_change_without_which_the_load_fails_matters() -> None:
    """A change whose reversal fails the load is kept, and the other changes are still judged."""

    def fails(values: Mapping[str, Value]) -> Effect:
        # Only where something else was tuned, or the baseline itself would be the one to fail.
        needs = values["size"] == TUNED.values["size"] and values["mode"] == "b"
        lost = needs and not values["fast"]
        return Effect(-0.5 * bool(values["fast"]), 4_000.0, error_share=0.05 if lost else 0.0)

    made = five_minutes(truth=fails)
    found = ablated(made)
    assert by_name(found)["fast"].fails_without
    assert found.parts[0].contrast.names == ("fast",)
    assert by_name(found)["mode"].reverted is not None
    assert kept(made.record(), found) == {"fast"}


def test_all_contrasts_share_their_blocks_with_both_arms() -> None:
    """Baseline, tuned, and two arms for each change: side by side, in every block."""
    made = five_minutes(truth=one_matters)
    found = ablated(made)
    measured = blocks(made.record(), "ablate")
    assert len(measured) == found.protocol.blocks
    labels = {i.instance for i in measured[0].instances}
    arms = {f"{kind}{number}" for kind in ("with", "without") for number in (1, 2, 3)}
    assert labels == {BASELINE, "tuned", *arms}


def test_the_protocol_is_frozen_before_the_first_block_and_stays() -> None:
    """With the fewest blocks at which the most significant change can pass Holm, or more."""
    made = five_minutes(truth=one_matters)
    found = ablated(made)
    record = made.record()
    assert record.ablation == found.protocol
    assert record.protocol is not None
    assert found.protocol.confirmation == record.protocol.digest
    assert found.protocol.frozen_unix_s <= blocks(record, "ablate")[0].started_unix_s
    assert found.protocol.blocks >= blocks_at_least(len(found.protocol.contrasts), 0.05) == 7


def test_an_interrupted_ablation_goes_on() -> None:
    """No finished block is measured again, and the outcome is that of one that never stopped."""
    whole = five_minutes(truth=one_matters)
    ablated(whole)
    first = next(b.number for b in blocks(whole.record(), "ablate"))
    made = five_minutes(truth=one_matters, faults=Faults(host_gone=range(first + 3, first + 6)))
    with pytest.raises(HostError, match="does not answer"):
        ablated(made)
    before = [b.number for b in blocks(made.record(), "ablate", "complete")]
    assert len(before) == 3
    found = run_ablation(calibrate(made.bench(), made.spec), SPACE, 300.0)
    after = blocks(made.record(), "ablate", "complete")
    assert [b.number for b in after][:3] == before
    assert len(after) == found.protocol.blocks
    assert kept(made.record(), found) == {"fast"}


@pytest.mark.parametrize("seed", range(3))
def test_where_nothing_is_gained_nothing_is_kept(seed: int) -> None:
    """A winner that is none (it cannot be confirmed): no check can pass."""
    made = five_minutes(truth=lambda _: effect(0.0), seed=seed)
    found = ablated(made)
    assert found.is_over
    assert found.minimal is None
    assert len(found.checks) <= 3


def saves_memory(values: Mapping[str, Value]) -> Effect:
    """``mode b`` makes the gain and costs memory, which a ``size`` of 1000 gives back."""
    ln_memory = 0.4 * (values["mode"] == "b") - 0.4 * (values["size"] == 1000)
    latency = -0.5 * (values["mode"] == "b")
    return Effect(latency, 4_000.0, memory_mib=8.0 * math.exp(ln_memory))


@pytest.mark.parametrize(
    "wanted",
    [
        {"wanted": {"constraint": ["memory <= 1.1x baseline"]}},
        {"wanted": {"constraint": ["memory <= 9M"]}},
        {"objective": ("p99", "memory")},
        {"objective": ("p99", "memory"), "wanted": {"choose": "memory <= 1.1x baseline"}},
    ],
    ids=str,
)
def test_a_smaller_difference_keeps_to_all_that_the_study_wants(wanted: dict[str, Any]) -> None:
    """A limit, or a second objective, that only a change without a gain of its own keeps."""
    made = five_minutes(truth=saves_memory, **wanted)
    found = ablated(made, SPACE.complete({"mode": "b", "size": 1000}, STOCK))
    assert not by_name(found)["size"].matters
    (check,) = found.checks
    assert check.to_tuned is not None
    assert check.to_tuned.high < 1 + found.protocol.margin, "the gain itself is kept"
    assert not check.keeps
    assert found.minimal is None
    assert found.is_over


def test_of_two_objectives_the_one_that_was_gained_decides_the_worth_of_a_change() -> None:
    """A winner that only saves memory: by latency none of its changes would matter."""

    def saves(values: Mapping[str, Value]) -> Effect:
        return Effect(0.0, 4_000.0, memory_mib=6.0 if values["mode"] == "b" else 8.0)

    made = five_minutes(truth=saves, objective=("p99", "memory"), seed=2)
    found = ablated(made, objective=Objective("memory"))
    parts = by_name(found)
    assert [name for name in parts if parts[name].matters] == ["mode"]
    assert parts["mode"].reverted is not None
    assert parts["mode"].reverted.ratio == pytest.approx(8 / 6, rel=0.01)
    assert kept(made.record(), found) == {"mode"}
    assert made.record().ablation == found.protocol
    study = evaluate(made.record())
    assert "memory of the tuned configuration" in ablation_note(study)
    assert ablation_data(study)["objective"] == "memory"


def test_a_smaller_difference_within_the_limits_is_taken() -> None:
    """Shown to hold on the blocks of the check."""
    made = five_minutes(truth=one_matters, wanted={"constraint": ["memory <= 1.1x baseline"]})
    found = ablated(made)
    assert kept(made.record(), found) == {"fast"}


def test_every_check_is_about_more_than_the_one_before() -> None:
    """A setting is worth nothing without the one it needs, which is therefore added first."""

    def truth(values: Mapping[str, Value]) -> Effect:
        # In this host's noise neither differs from zero alone, but both together do.
        small = 0.025 * (values.get("boost") == 100) - 0.01 * bool(values["fast"])
        return effect(0.5 * (values["mode"] == "b") + small)

    made = five_minutes(
        truth=truth, seed=3, noise=Noise(ar_sd=0.04, restart_sd=0.04, burst_probability=0.0)
    )
    found = ablated(made, SPACE.complete({"fast": True, "boost": 100, "mode": "b"}, STOCK))
    assert [part.contrast.names[0] for part in found.parts] == ["mode", "boost", "fast"]
    assert [part.matters for part in found.parts] == [True, False, False]
    first, second = found.checks
    configurations = made.record().configurations
    assert configurations[first.digest].configuration == SPACE.complete({"mode": "b"}, STOCK)
    fast = SPACE.complete({"fast": True, "mode": "b"}, STOCK)
    assert configurations[second.digest].configuration == fast
    assert found.is_over


def test_contrasts_are_valid_configurations() -> None:
    """A dependent setting is reverted alone, and has no effect when added without what it needs."""
    tuned = SPACE.complete({"fast": True, "boost": 100}, STOCK)
    found = {contrast.names: contrast for contrast in contrasts(SPACE, STOCK, tuned)}
    assert found.keys() == {("boost",), ("fast",)}
    assert found["boost",].reverted == SPACE.complete({"fast": True}, STOCK).digest
    assert found["boost",].added is None
    assert found["fast",].reverted == STOCK.digest


def test_changes_that_a_relation_ties_together_are_one_contrast(tmp_path: Path) -> None:
    """A limit that must stay above another cannot be reverted without it."""
    file = tmp_path / "tied.yaml"
    integer = "type: integer, range: [1, 100]"
    file.write_text(
        "space: nginx/tied\nserver: nginx\nsummary: Two limits\nparameters:\n"
        f"  lower: {{{integer}, default: 10, about: below the other}}\n"
        f"  upper: {{{integer}, default: 20, about: above the other}}\n"
        "  other: {type: boolean, default: off, about: by itself}\n"
        "order: [lower < upper]\n"
    )
    space = load_space(str(file))
    stock = space.baseline("stock")
    near = space.complete({"lower": 15, "upper": 40, "other": True}, stock)
    far = space.complete({"lower": 30, "upper": 40, "other": True}, stock)
    assert {c.names for c in contrasts(space, stock, near)} == {("lower",), ("upper",), ("other",)}
    assert {c.names for c in contrasts(space, stock, far)} == {("lower", "upper"), ("other",)}


def test_nothing_to_take_apart_is_said() -> None:
    """A winner that is the baseline has no changes."""
    made = five_minutes(truth=one_matters)
    with pytest.raises(DefinitionError, match="nothing to take apart"):
        ablated(made, STOCK)


def test_more_changes_need_more_blocks() -> None:
    """The first step of Holm divides the level by their number."""
    assert blocks_at_least(9, 0.05) == 9
    assert blocks_at_least(1, 0.05) == 6
