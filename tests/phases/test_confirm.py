"""The confirmation: fresh blocks under a protocol that was frozen before the first of them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.phases.rig import HAND, SPACE, STOCK, GetsNoisy, Rig, blocks, rig
from tuner.errors import HostError, StoreError
from tuner.judge.results import evaluate
from tuner.judge.rounds import allowed_invalid
from tuner.judge.scoring import BASELINE
from tuner.phases.confirm import freeze, run_confirmation
from tuner.phases.study import Calibrated, calibrate, confirm
from tuner.record.model import Protocol, Record
from tuner.space.configuration import Value
from tuner.stats.margin import DEFAULT_BAND
from tuner.stats.verdict import VerdictKind
from tuner.testing.lab import Faults


def calibrated(made: Rig) -> Calibrated:
    """Return the rig after calibration, with as many blocks as a short confirmation has."""
    return calibrate(made.bench(), made.spec)


def frozen(ready: Calibrated) -> Protocol:
    """Return a protocol for HAND against STOCK."""
    return freeze(ready.bench, [HAND], ready.calibration, ready.plan, blocks=ready.confirm_blocks)


def confirmed(made: Rig) -> Record:
    """Return the record of a confirmation of HAND."""
    confirm(calibrated(made), HAND)
    return made.record()


def broken(windows: Container[int]) -> Rig:
    """A rig whose generator starves in these windows, counted from the first confirmation block."""
    before = rig()
    calibrated(before)
    begun = before.host.windows
    shifted = frozenset(n for n in range(begun, begun + 5_000) if n - begun in windows)
    return rig(faults=Faults(starved=shifted))


def test_the_protocol_is_in_the_record_before_the_first_block() -> None:
    """Frozen first, by the clock of the blocks themselves."""
    record = confirmed(rig())
    assert record.protocol is not None
    first = blocks(record, "confirm")[0]
    assert record.protocol.frozen_unix_s <= first.started_unix_s
    last = max(b.ended_unix_s for b in record.blocks if b.phase in ("aa", "search", "capacity"))
    assert last <= record.protocol.frozen_unix_s


def test_the_protocol_holds_all_that_the_verdict_depends_on() -> None:
    """Both arms, objective, rate, blocks, windows, margin, stall rule and gates."""
    made = rig()
    ready = calibrated(made)
    protocol = frozen(ready)
    assert (protocol.baseline, protocol.candidate) == (STOCK.digest, HAND.digest)
    assert (protocol.objective, protocol.rate_per_s) == ("p99", ready.calibration.rate_per_s)
    assert protocol.blocks == ready.confirm_blocks >= 6
    assert protocol.rounds == ready.plan.confirm.rounds
    assert protocol.window_s == ready.plan.confirm.window_s
    assert protocol.alpha == 0.05
    assert protocol.band == ready.bench.goals.margin == DEFAULT_BAND
    assert protocol.stall_rule == ready.bench.rule
    enough = ready.plan.samples_enough
    assert enough < ready.bench.gates.samples_needed, "the plan is fixed, the host gets worse"
    assert protocol.gates == replace(ready.bench.gates, samples_needed=enough)
    assert made.record().protocol == protocol


def test_the_gates_of_the_protocol_hold_wherever_its_blocks_are_measured() -> None:
    """A host whose own plan has longer windows does not ask for more than these can hold."""
    ready = calibrated(rig())
    protocol = frozen(ready)
    asking = replace(ready.bench, gates=replace(protocol.gates, samples_needed=10**9))
    run_confirmation(asking, [HAND], protocol, ready.plan)
    states = [block.state for block in blocks(ready.bench.store.record(), "confirm")]
    assert states == ["complete"] * protocol.blocks


def test_the_protocols_hash_is_of_its_content() -> None:
    """SHA-256 over the canonical JSON of all but the hash and the time: anyone can check it."""
    protocol = frozen(calibrated(rig()))
    content = msgspec.to_builtins(protocol)
    del content["digest"], content["frozen_unix_s"]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert protocol.digest == hashlib.sha256(text.encode()).hexdigest()[:12]


@pytest.mark.parametrize("changed", [{"margin": 0.01}, {"blocks": 60}, {"seed": 2}])
def test_a_frozen_protocol_is_never_replaced(changed: dict[str, Any]) -> None:
    """Not by another margin, nor by more blocks, nor by another seed."""
    made = rig()
    ready = calibrated(made)
    protocol = frozen(ready)
    with pytest.raises(StoreError, match="frozen already"):
        ready.bench.store.set_protocol(replace(protocol, digest="other", **changed))
    assert made.record().protocol == protocol


def test_every_block_holds_both_arms_freshly_started() -> None:
    """Every block deploys both arms afresh."""
    made = rig()
    ready = calibrated(made)
    before = made.host.deployments
    run_confirmation(ready.bench, [HAND], frozen(ready), ready.plan)
    found, starts = blocks(made.record(), "confirm"), blocks(made.record(), "starts")
    assert len(found) == ready.confirm_blocks
    assert made.host.deployments - before == len(found) + len(starts)
    for block in found:
        arms = {i.instance: i.digest for i in block.instances}
        assert arms == {BASELINE: STOCK.digest, "candidate": HAND.digest}
        assert len(block.windows) == 2 * ready.plan.confirm.rounds
    assert [b.index for b in found] == list(range(len(found)))


def test_search_figures_never_enter_the_verdict() -> None:
    """The estimate rests on the confirmation's blocks alone, n as frozen."""
    made = rig()
    record = made.run()
    study = evaluate(record)
    assert record.protocol is not None
    assert study.verdict is not None
    assert study.verdict.estimate.n == record.protocol.blocks
    search = {b.number for b in blocks(record, "search")}
    assert not search & {b.number for b in study.used}


def test_an_invalid_block_is_repeated_whole_and_logged() -> None:
    """The windows of the broken attempt stay in the record and count for nothing."""
    made = broken(range(4))
    record = confirmed(made)
    found = blocks(record, "confirm")
    assert record.protocol is not None
    assert found[0].state == "invalid"
    assert "could not keep up" in found[0].reason
    assert found[0].windows
    assert [b.index for b in found] == [0, 0, *range(1, record.protocol.blocks)]
    assert any("repeated" in note for note in made.progress.notes)
    study = evaluate(record)
    assert study.verdict is not None
    assert study.verdict.estimate.n == record.protocol.blocks
    assert found[0].number not in {b.number for b in study.used}


def test_more_invalid_blocks_than_the_rule_allows_end_the_confirmation() -> None:
    """A confirmation with too many invalid blocks stops and claims nothing."""
    made = broken(range(5_000))
    record = confirmed(made)
    assert record.protocol is not None
    states = [b.state for b in blocks(record, "confirm")]
    assert states == ["invalid"] * (allowed_invalid(record.protocol.blocks) + 1)
    assert record.ended_unix_s is not None
    study = evaluate(record)
    assert study.verdict is None
    assert study.sentence.startswith("Inconclusive: 3 blocks of 3 were invalid")
    assert "could not keep up" in study.sentence


def test_a_confirmation_that_broke_off_is_inconclusive_whatever_its_blocks_say() -> None:
    """Two clear blocks do not make a verdict out of a confirmation that was not carried through."""
    made = rig()
    ready = calibrated(made)
    good = 2 * 2 * ready.plan.confirm.rounds
    study = evaluate(confirmed(broken(range(good, 5_000))))
    assert len(study.used) == 2
    assert study.verdict is not None
    assert study.verdict.kind is VerdictKind.INCONCLUSIVE
    assert study.sentence.startswith("Inconclusive")


@pytest.mark.parametrize(("blocks_", "allowed"), [(6, 2), (12, 2), (20, 2), (30, 3), (69, 7)])
def test_a_tenth_of_the_blocks_may_be_invalid(blocks_: int, allowed: int) -> None:
    """And two of a small number."""
    assert allowed_invalid(blocks_) == allowed


def test_invalid_blocks_with_a_valid_round_may_be_more() -> None:
    """Three blocks fail after their first round, one more than may without one."""
    failing = {6 * block + window for block in range(3) for window in (2, 4)}
    record = confirmed(broken(failing))
    assert record.protocol is not None
    assert record.protocol.rounds == 4, "two bad rounds are more than a quarter"
    states = [b.state for b in blocks(record, "confirm")]
    assert states == ["invalid"] * 3 + ["complete"] * record.protocol.blocks
    assert allowed_invalid(record.protocol.blocks) == 2


def test_a_host_that_gets_bad_after_calibration_is_confirmed_all_the_same() -> None:
    """Its stalls leave a fifth of the requests: windows hold fewer, and blocks have more rounds."""
    made = rig(time_s=600.0)
    made.progress = GetsNoisy(host=made.host, at="confirmation")
    record = made.run()
    assert record.protocol is not None
    found = blocks(record, "confirm")
    assert [b.state for b in found] == ["complete"] * record.protocol.blocks
    assert all(len(b.windows) > 2 * record.protocol.rounds for b in found)
    assert min(w.effective or 0 for b in found for w in b.windows) < 2_500
    assert "typical block alone would say: better" in evaluate(record).sentence


def test_a_host_that_fails_now_and_then_is_no_reason_to_stop() -> None:
    """A failed block is repeated like an invalid one."""
    before = rig()
    calibrated(before)
    made = rig(faults=Faults(host_gone={before.host.deployments + 1}))
    record = confirmed(made)
    states = [b.state for b in blocks(record, "confirm")]
    assert states[:3] == ["complete", "failed", "complete"]
    assert evaluate(record).verdict is not None


def test_a_host_that_stays_away_stops_the_confirmation_with_what_there_is() -> None:
    """The error is raised, and the blocks so far are in the record."""
    before = rig()
    calibrated(before)
    made = rig(faults=Faults(host_gone=range(before.host.deployments + 2, 10_000)))
    with pytest.raises(HostError, match="does not answer"):
        confirmed(made)
    record = made.record()
    assert [b.state for b in blocks(record, "confirm", "complete")] == ["complete"] * 2
    study = evaluate(record)
    assert (study.status, study.verdict) == ("incomplete", None)


def test_the_other_load_points_are_looked_at_and_not_claimed() -> None:
    """One valid block each at 50 % and 85 % of the capacity, with both arms.

    At 50 % a window holds fewer requests than at the load point; the gate allows for that.
    """
    record = confirmed(rig(objective="p50", time_s=600.0, rate_per_s=3_500.0))
    assert record.calibration is not None
    capacity = record.calibration.capacity_per_s
    found = blocks(record, "load-points")
    assert [b.state for b in found] == ["complete", "complete"]
    rates = [b.windows[0].rate_per_s for b in found]
    assert rates == [pytest.approx(0.5 * capacity, abs=1), pytest.approx(0.85 * capacity, abs=1)]
    for block in found:
        assert all(w.valid for w in block.windows), block.windows[0].invalid


def test_a_load_point_that_fails_is_left_out_and_said() -> None:
    """The verdict stands without it."""
    before = rig(objective="p50", time_s=300.0)
    confirmed(before)
    made = rig(
        objective="p50", time_s=300.0, faults=Faults(host_gone={before.host.deployments - 2})
    )
    record = confirmed(made)
    assert [b.state for b in blocks(record, "load-points")] == ["failed", "complete"]
    assert any(re.match("load point [0-9,]+/s left out", note) for note in made.progress.notes)
    assert evaluate(record).verdict is not None


def test_throughput_has_no_load_points() -> None:
    """Saturation has one load."""
    assert blocks(confirmed(rig(objective="throughput")), "load-points") == []


def refuse_fast(values: Mapping[str, Value]) -> str:
    """Return a server that does not know what makes it faster."""
    return 'nginx: [emerg] unknown directive "fast"' if values["fast"] else ""


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_candidate_that_the_server_refuses_ends_in_the_servers_words(exclusive: bool) -> None:
    """A refused candidate ends the study without a verdict; the sentence quotes the server."""
    study = evaluate(confirmed(rig(faults=Faults(refuse=refuse_fast), exclusive=exclusive)))
    assert study.verdict is None
    assert "the server refuses candidate" in study.sentence
    assert 'unknown directive "fast"' in study.sentence


def test_a_finalist_that_the_server_refuses_is_no_block_without_figures() -> None:
    """A refused finalist makes its blocks invalid, and they are repeated only up to the limit."""
    made = rig(faults=Faults(refuse=refuse_fast))
    confirm(calibrated(made), SPACE.complete({"mode": "b"}, STOCK), HAND)
    record = made.record()
    states = [block.state for block in blocks(record, "confirm")]
    assert states == ["invalid"] * 3
    assert "the server refuses candidate2" in evaluate(record).sentence
