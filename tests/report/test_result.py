"""Tests of a report's statements: each follows from the record, and gaps are named."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import combinations_with_replacement
from statistics import median

import pytest

from tuner.generators.wrk2 import WRK2
from tuner.judge.results import StudyResult, evaluate
from tuner.record.model import Block, Original, Record
from tuner.report.facts import limits, method_facts, scope
from tuner.report.html import render_html
from tuner.stats.verdict import VerdictKind
from tuner.testing.sample_record import STAGES, sample_record

Studies = Callable[..., StudyResult]
Records = Callable[..., Record]


@pytest.mark.parametrize("outcome", ["better", "worse", "equivalent", "inconclusive"])
def test_the_verdict_is_what_the_study_was_made_to_find(study: Studies, outcome: str) -> None:
    """Each outcome of a synthetic study gives its verdict."""
    result = study(outcome)
    assert result.status == "confirmed"
    assert result.verdict is not None
    assert result.verdict.kind == outcome


def test_a_block_difference_is_that_of_its_rounds(study: Studies) -> None:
    """The d of a block is the pseudomedian over its rounds of the windows' log ratios."""
    result = study()
    block = result.used[0]
    ratios = [
        math.log(own.stall_free.p99_us / other.stall_free.p99_us)
        for own, other in zip(block.candidate, block.baseline, strict=True)
    ]
    means = [(one + two) / 2 for one, two in combinations_with_replacement(ratios, 2)]
    assert block.difference(result.objective.difference_ln) == pytest.approx(median(means))


def test_an_invalid_block_is_listed_and_not_used(study: Studies) -> None:
    """The repeated block stays visible with its reason; the verdict rests on the planned n."""
    result = study()
    unused = [block for block in result.confirm if not block.used]
    assert [block.index for block in unused] == [3]
    assert "the host stalled" in unused[0].reason
    assert result.verdict is not None
    assert result.record.protocol is not None
    assert result.verdict.estimate.n == result.record.protocol.blocks == len(result.used)


def test_of_two_complete_blocks_with_one_index_the_later_counts(record: Records) -> None:
    """A block that was measured again replaces the one it repeats."""
    original = record()
    first = next(block for block in original.blocks if block.phase == "confirm")
    again = replace(first, number=len(original.blocks))
    result = evaluate(replace(original, blocks=(*original.blocks, again)))
    assert result.confirm[0].reason == "measured again"
    assert len(result.used) == 12
    assert again.number in {block.number for block in result.used}


def test_too_many_invalid_windows_make_the_study_inconclusive(record: Records) -> None:
    """More than a tenth of invalid windows makes a study inconclusive, despite the rest."""
    result = evaluate(spoiling(record()))
    assert result.verdict is not None
    assert result.verdict.kind is VerdictKind.INCONCLUSIVE
    assert result.sentence.startswith("Inconclusive: invalid windows")
    assert "The remaining blocks alone would say: better" in result.sentence


def spoiling(original: Record) -> Record:
    """Return the record with too many invalid windows for a claim."""
    spoilt = next(block for block in original.blocks if block.state == "invalid")
    windows = tuple(replace(window, invalid=("the host stalled",)) for window in spoilt.windows * 4)
    extra = replace(spoilt, number=len(original.blocks), windows=windows)
    return replace(original, blocks=(*original.blocks, extra))


def wanting(original: Record, **wanted: object) -> Record:
    """Return the record of a study that wants more of the same blocks."""
    assert original.protocol is not None
    protocol = replace(original.protocol, second="p50", second_margin=0.03)
    return replace(original, protocol=protocol, definition={**original.definition, **wanted})


def test_invalid_windows_leave_no_claim_to_a_constraint_either(record: Records) -> None:
    """Blocks that bear no verdict on the objective bear none on a limit; its figures are shown."""
    sound = wanting(record(), constraint=["p50 <= 0.1x baseline"])
    result = evaluate(sound)
    assert result.verdict is not None
    assert (result.verdict.kind, result.constraints[0].state) == (VerdictKind.VIOLATED, "violated")
    result = evaluate(spoiling(sound))
    assert result.verdict is not None
    assert result.verdict.kind is VerdictKind.INCONCLUSIVE
    assert result.constraints[0].state == "undecided"
    assert result.constraints[0].found.low > 0.1


def test_invalid_windows_leave_no_claim_to_a_second_objective_either(record: Records) -> None:
    """Nor where the choice gives the first one away."""
    wanted = {"objective": ["p99", "p50"], "choose": "p99 <= 1.1x baseline"}
    sound = wanting(record(), **wanted)
    result = evaluate(sound)
    assert result.verdict is not None
    assert result.verdict.kind is VerdictKind.BETTER
    result = evaluate(spoiling(sound))
    assert result.verdict is not None
    assert result.verdict.kind is VerdictKind.INCONCLUSIVE
    assert result.objectives == ()


def test_of_two_objectives_the_gained_one_is_what_is_taken_apart_and_repeated(
    record: Records,
) -> None:
    """Not the one that the choice gives away; and nothing is repeated by blocks without a claim."""
    first = Original("first", "0" * 12, "other", 0.0, "p50", "better", 0.2, 0.19, 0.21, 12)
    repeats = replace(wanting(record(), objective=["p99", "p50"]), original=first)
    assert evaluate(repeats).gained.name == "p99"
    given = wanting(repeats, objective=["p99", "p50"], choose="p99 <= 1.1x baseline")
    result = evaluate(given)
    assert result.gained.name == "p50"
    assert result.replication is not None
    assert "the ratio of p50 is" in result.replication.sentence
    assert evaluate(spoiling(given)).replication is None


def test_a_constraint_is_not_decided_before_the_last_block(record: Records) -> None:
    """A constraint stays undecided until the last block, like the objective."""
    result = evaluate(wanting(record(stage="confirming"), constraint=["p50 <= 10x baseline"]))
    assert result.verdict is None
    assert result.constraints[0].state == "undecided"


def test_a_difference_finer_than_the_tool_is_no_verdict(record: Records) -> None:
    """The same blocks measured with wrk2 are inconclusive, and the report says why."""
    assert evaluate(record()).verdict is not None
    result = evaluate(replace(record(), instrument=WRK2))
    assert result.verdict is not None
    assert result.verdict.kind is VerdictKind.INCONCLUSIVE
    assert "wrk2 resolves 1000 µs" in result.sentence
    assert "The remaining blocks alone would say: better" in result.sentence


def test_a_difference_that_the_tool_resolves_keeps_its_verdict(record: Records) -> None:
    """A finer tick is fine enough for the same blocks."""
    tool = replace(WRK2, resolution_us=0.1)
    result = evaluate(replace(record(), instrument=tool))
    assert result.verdict is not None
    assert result.verdict.kind is VerdictKind.BETTER


def test_a_report_says_where_idle_cpus_polled(record: Records) -> None:
    """With the ratio of the block in which they halted; without one, the limit alone."""
    original = record()

    def idle(block: Block, *, polled: bool) -> Block:
        windows = tuple(replace(window, polled=polled) for window in block.windows)
        return replace(block, windows=windows)

    def result(*, last_halts: bool) -> StudyResult:
        *others, last = (idle(block, polled=True) for block in original.blocks)
        return evaluate(replace(original, blocks=(*others, idle(last, polled=not last_halts))))

    assert original.blocks[-1].phase == "load-points"
    assert "Idle CPUs" not in dict(method_facts(evaluate(original)))
    seen, alone = result(last_halts=True), result(last_halts=False)
    words = "polled, so the hypervisor did not delay their wake-ups"
    assert dict(method_facts(seen))["Idle CPUs"] == words
    (limit,) = (limit for limit in limits(seen) if limit.startswith("Idle CPUs polled."))
    assert f"had a ratio of {seen.halting:.3f} (seen, not claimed)" in limit
    assert len(seen.load_points) == len(alone.load_points) - 2
    assert math.isnan(alone.halting)
    (limit,) = (limit for limit in limits(alone) if limit.startswith("Idle CPUs polled."))
    assert "halted" not in limit


def test_a_report_with_a_foreign_tool_says_that_all_latencies_are_raw(record: Records) -> None:
    """With the tool's label, what it checked, and why the stall rule is off."""
    original = record()
    assert original.protocol is not None
    study = evaluate(
        replace(original, instrument=WRK2, protocol=replace(original.protocol, stall_rule=None))
    )
    facts = dict(method_facts(study))
    assert facts["Load"] == "wrk2: ±1 ms, includes the tool's own oversleep"
    assert facts["Answers"] == "checked for statuses over 399 only"
    assert facts["Stall rule"].startswith("off: wrk2 reports no single requests")
    assert any(limit.startswith("Every latency is raw") for limit in limits(study))
    assert "all latencies are raw" in render_html(study)


def test_a_confirmation_that_gave_up_is_inconclusive(record: Records) -> None:
    """Stopped for too many invalid blocks, it has a verdict on what is there: inconclusive."""
    original = record()
    spoilt = next(block for block in original.blocks if block.state == "invalid")
    kept = [block for block in original.blocks if block.phase != "confirm" or block.index < 3]
    repeats = [replace(spoilt, number=100 + repeat) for repeat in range(3)]
    result = evaluate(replace(original, blocks=(*kept, *repeats)))
    assert result.verdict is not None
    assert result.verdict.kind is VerdictKind.INCONCLUSIVE
    assert result.sentence.startswith("Inconclusive: 3 blocks of 6 were invalid, more than the")
    assert "stopped after 3 of 12 blocks" in result.sentence


def test_a_search_that_measured_nothing_says_so(record: Records) -> None:
    """Configurations that were all refused are counted, and nothing is claimed."""
    original = record(stage="searched")
    trials = tuple(replace(trial, state="infeasible", losses={}) for trial in original.trials)
    result = evaluate(replace(original, trials=trials))
    assert result.sentence == "Nothing to confirm: none of 31 configurations could be measured."


def test_a_block_without_a_figure_is_not_used(record: Records) -> None:
    """A window with NaN quantiles takes its block out, and the study is then not confirmed."""
    original = record()

    def emptied(block: Block) -> Block:
        if block.phase != "confirm" or block.index != 0:
            return block
        nothing = replace(block.windows[0].stall_free, count=0, p99_us=math.nan)
        first = replace(block.windows[0], stall_free=nothing)
        return replace(block, windows=(first, *block.windows[1:]))

    result = evaluate(replace(original, blocks=tuple(map(emptied, original.blocks))))
    assert result.confirm[0].reason == "an arm has no figure"
    assert result.verdict is None
    assert result.sentence == "Not confirmed: ended after 11 of 12 blocks."


@pytest.mark.parametrize(
    ("stage", "status", "words"),
    [
        ("started", "not-searched", "Not calibrated: "),
        ("calibrated", "not-searched", "Not searched: "),
        ("searching", "unconfirmed", "a search figure, not a claim"),
        ("searched", "nothing-better", "Nothing better found: none of 30 configurations"),
        ("confirming", "incomplete", "Not confirmed: interrupted after 5 of 12 blocks."),
        ("confirmed", "confirmed", "Better: p99 is "),
    ],
)
def test_a_study_that_ended_early_says_so(
    study: Studies, stage: str, status: str, words: str
) -> None:
    """Each stage at which a study can end has its own status and sentence, and no false verdict."""
    result = study(stage=stage)
    assert result.status == status
    assert words in result.sentence
    assert (result.verdict is not None) == (stage == "confirmed")


def test_an_unfinished_confirmation_gives_no_verdict_but_its_figures(study: Studies) -> None:
    """Five of twelve blocks give a provisional estimate without a finite interval."""
    result = study(stage="confirming")
    assert result.provisional is not None
    assert result.provisional.n == 5
    assert not result.provisional.is_finite
    assert result.figures


def test_the_search_figure_stands_next_to_the_confirmed_one(study: Studies) -> None:
    """Shrinkage holds the mean of the trial's losses and the confirmed ratio."""
    result = study("inconclusive")
    shrinkage = result.shrinkage
    assert shrinkage is not None
    assert result.verdict is not None
    trial = next(t for t in result.record.trials if t.number == shrinkage.trial)
    mean = sum(trial.losses.values()) / len(trial.losses)
    assert shrinkage.searched == pytest.approx(math.exp(mean))
    assert shrinkage.confirmed == result.verdict.estimate.ratio
    assert shrinkage.searched < shrinkage.confirmed


def test_losses_of_a_throughput_study_are_turned_back_into_ratios(study: Studies) -> None:
    """A throughput study's best ratio only rises and ends above 1."""
    result = study(objective="throughput")
    assert result.sentence.startswith("Better: throughput is ")
    best = [trial.best_so_far for trial in result.trials if not math.isnan(trial.best_so_far)]
    assert best == sorted(best)
    assert best[-1] > 1
    assert not result.load_points


def test_time_shares_are_measured_over_elapsed(study: Studies) -> None:
    """The share of a phase is the sum of its windows over first start to last end."""
    result = study()
    confirm = next(time for time in result.times if time.phase == "confirm")
    blocks = [block for block in result.record.blocks if block.phase == "confirm"]
    measured = sum(window.duration_s for block in blocks for window in block.windows)
    elapsed = blocks[-1].ended_unix_s - blocks[0].started_unix_s
    assert confirm.share == pytest.approx(measured / elapsed)
    assert confirm.repeated == 1


def test_load_points_hold_both_arms_at_each_rate(study: Studies) -> None:
    """50, 70 and 85 % of the capacity, each with baseline and tuned."""
    points = study().load_points
    shares = [round(point.share_of_capacity, 2) for point in points]
    assert shares == [0.5, 0.5, 0.7, 0.7, 0.85, 0.85]
    assert [point.arm for point in points] == ["baseline", "tuned"] * 3


def test_switching_the_arms_inverts_every_ratio(record: Records) -> None:
    """With baseline and candidate relabelled, each ratio becomes its reciprocal."""
    original = record()
    assert original.protocol is not None

    def swapped(block: Block) -> Block:
        names = {"baseline": "candidate", "candidate": "baseline"}
        instances = tuple(
            replace(instance, instance=names[instance.instance]) for instance in block.instances
        )
        windows = tuple(
            replace(window, instance=names[window.instance]) for window in block.windows
        )
        return replace(block, instances=instances, windows=windows)

    confirm = tuple(swapped(block) for block in original.blocks if block.phase == "confirm")
    turned = replace(
        original,
        baseline=original.protocol.candidate,
        protocol=replace(
            original.protocol,
            baseline=original.protocol.candidate,
            candidate=original.protocol.baseline,
        ),
        blocks=confirm,
    )
    there, back = evaluate(original), evaluate(turned)
    for first, second in zip(there.figures, back.figures, strict=True):
        if first.change and second.change:
            assert first.change.ratio * second.change.ratio == pytest.approx(1)


def test_the_same_seed_gives_the_same_record() -> None:
    """The sample is a function of its arguments."""
    first, second = (sample_record(stage="searching", trials=6) for _ in range(2))
    assert first == second
    assert sample_record(stage="searching", trials=6, seed=8) != first


def test_the_stages_are_nested(record: Records) -> None:
    """A study of a later stage has at least the blocks of the stage before it."""
    lengths = [len(record(stage=stage).blocks) for stage in STAGES if stage != "searched"]
    assert lengths == sorted(lengths)
    assert lengths[0] == 0


def test_the_frozen_protocol_hash_covers_every_field(record: Records) -> None:
    """The sample's hash is the one that the record's documentation defines."""
    protocol = record().protocol
    assert protocol is not None
    fields = asdict(protocol)
    for name in ("frozen_unix_s", "digest"):
        del fields[name]
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    assert protocol.digest == hashlib.sha256(text.encode()).hexdigest()[:12]


def test_a_gain_of_server_and_kernel_is_of_both_together(record: Records) -> None:
    """A warning says that the gain is of server and kernel; the kernel's changes are last."""
    found = record()
    candidate = evaluate(found).candidate or ""
    tuned = found.configurations[candidate]
    more = {"net.core.somaxconn": 65535, **tuned.values}
    kernel = replace(
        found, configurations={**found.configurations, candidate: replace(tuned, values=more)}
    )
    reported = evaluate(kernel)
    assert reported.changes[-1].name == "net.core.somaxconn"
    own = len(reported.changes) - 1
    said = f"{own} changes of {found.server.name} and 1 of the host's kernel: the gain is of all"
    assert any(said in warning for warning in reported.warnings)
    assert not any("host's kernel" in warning for warning in evaluate(found).warnings)


def sliced(original: Record) -> Record:
    """Return a record whose arms share all windows in slices."""
    blocks = tuple(
        replace(block, windows=tuple(replace(w, slice_ms=20.0, frozen=True) for w in block.windows))
        for block in original.blocks
    )
    return replace(original, blocks=blocks)


def test_a_report_says_how_the_arms_took_turns(record: Records) -> None:
    """In slices of shared windows there is no order of windows to speak of."""
    original = record()
    page = render_html(evaluate(original))
    assert "are measured in random order. What disturbs" in page
    study = evaluate(sliced(original))
    page = render_html(study)
    assert "share windows in slices of 20 ms, in an order drawn for each set. What" in page
    assert "measured in random order" not in page
    assert dict(method_facts(study))["Slices"] == (
        "the arms took turns in shared windows, in slices of 20 ms, in an order drawn for each"
        " set; servers not at turn were stopped"
    )


def test_arms_that_share_windows_have_no_order_within_a_round(record: Records) -> None:
    """The diagnostic of that order is for windows that follow one another."""
    original = record()
    codes = [{found.code for found in evaluate(r).findings} for r in (original, sliced(original))]
    assert codes[0] - codes[1] == {"order-effect"}


def test_the_scope_states_how_busy_the_cores_were_in_these_blocks(record: Records) -> None:
    """Calibration saw them minutes before, maybe on a faster host."""
    original = record()
    assert original.calibration is not None
    assert "with the baseline's cores" in scope(evaluate(original))
    source = "61% of the baseline's capacity; its 2 cores are 71% busy in slow seconds"
    known = replace(original.calibration, rate_source=source, busy_share=0.71)
    words = scope(evaluate(replace(original, calibration=known)))
    assert f"/s ({source}), with the baseline's cores 29.5 % busy, for " in words


def test_connections_that_carry_more_than_any_client_sends_are_named(record: Records) -> None:
    """Only those of the confirmation count, each arm's apart."""
    original = record()

    def reopened(phase: str) -> Record:
        blocks = tuple(
            replace(
                block,
                windows=tuple(
                    replace(w, reconnects=w.completed // 1_000 * (w.instance == "baseline"))
                    if block.phase == phase
                    else w
                    for w in block.windows
                ),
            )
            for block in original.blocks
        )
        return replace(original, blocks=blocks)

    found = [words for words in evaluate(reopened("confirm")).warnings if "reopened" in words]
    assert len(found) == 1
    assert re.search(r"\(baseline after about 1,0\d\d requests each\)", found[0])
    assert not any("reopened" in words for words in evaluate(reopened("search")).warnings)
