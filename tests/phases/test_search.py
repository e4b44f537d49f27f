"""Tests of the search: blocks of proposals and the baseline, until its time or trials end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.measurement.windows import window
from tests.phases.rig import (
    HAND,
    QUIET,
    STOCK,
    Notes,
    Rig,
    all_the_same,
    blocks,
    fast_is_better,
    rig,
)
from tuner.goals.objective import Objective
from tuner.judge.scoring import BASELINE, mean_loss, trial_losses
from tuner.phases.repeat import InvalidBlockError
from tuner.phases.search import SearchSpec, hopeless, run_search
from tuner.phases.study import calibrate
from tuner.record.model import Record, Trial
from tuner.search.schedule import RUNGS
from tuner.space.configuration import Value
from tuner.store.store import Store
from tuner.testing.lab import Effect, Faults


def searched(made: Rig, time_s: float = 120.0, trials: int | None = None) -> Record:
    """Return the record after calibration and a search of this virtual time."""
    ready = calibrate(made.bench(), made.spec)
    spec = SearchSpec(made.spec.space, made.spec.allow, STOCK, (HAND,), time_s, trials)
    run_search(ready.bench, spec, ready.calibration, ready.plan)
    return made.record()


def proposals(record: Record) -> list[Trial]:
    """Return all trials but the baseline's."""
    return [trial for trial in record.trials if trial.origin != "baseline"]


@pytest.fixture(scope="module")
def usual() -> Record:
    """The search of a ten-minute study on a quiet host, some ten blocks."""
    return searched(rig(objective="p50", time_s=600.0), time_s=330.0)


def test_the_baseline_comes_first_then_the_hand_tuning_then_proposals(usual: Record) -> None:
    """The baseline is a trial with nothing to win or lose against itself."""
    assert [t.origin for t in usual.trials[:3]] == ["baseline", "hand", "proposed"]
    assert usual.trials[0].digest == STOCK.digest
    assert usual.trials[0].state == "complete"
    assert usual.trials[1].digest == HAND.digest
    assert {t.origin for t in usual.trials[2:]} == {"proposed"}


def test_the_baseline_is_in_every_block(usual: Record) -> None:
    """Every block of the search measures the baseline in each of its four rounds."""
    for block in blocks(usual, "search"):
        assert block.instances[0].instance == BASELINE
        assert block.instances[0].digest == STOCK.digest
        rounds = [w.round for w in block.windows if w.instance == BASELINE]
        assert rounds == list(range(4))


def test_no_configuration_is_two_trials(usual: Record) -> None:
    """A configuration that is measured again keeps the number of its trial."""
    digests = [trial.digest for trial in usual.trials]
    assert len(set(digests)) == len(digests) > 10


def test_what_looks_good_is_measured_again_in_later_blocks(usual: Record) -> None:
    """One look for most, many for the best."""
    looks = [len(trial.losses) for trial in proposals(usual)]
    assert 5 <= max(looks) <= RUNGS[-1]
    assert sorted(looks)[len(looks) // 2] <= 2
    by_looks = sorted(proposals(usual), key=lambda t: -len(t.losses))
    assert mean_loss(by_looks[0].losses) < mean_loss(by_looks[-1].losses)


def test_there_are_new_proposals_in_every_block_but_the_last(usual: Record) -> None:
    """Looking again takes at most four of eight places before the final part."""
    seen: set[int] = set()
    for block in blocks(usual, "search")[:5]:
        trials = {i.trial for i in block.instances if i.trial is not None}
        assert len(trials - seen) >= 4
        seen |= trials


def test_losses_are_those_that_the_windows_say(usual: Record) -> None:
    """The record's figures are recomputable from its windows."""
    losses = trial_losses(usual.blocks, Objective("p50"))
    assert {t.number: t.losses for t in proposals(usual)} == losses


def test_every_trial_has_come_to_an_end(usual: Record) -> None:
    """Nobody races on after the search."""
    assert {trial.state for trial in usual.trials} <= {"complete", "dropped", "infeasible"}


@dataclass
class Steps(Notes):
    """Progress that keeps its steps."""

    steps: list[tuple[str, float]] = field(default_factory=list)

    def step(self, text: str, left_s: float) -> None:
        """Implement ``Progress.step``."""
        self.steps.append((text, left_s))


def test_the_end_shows_progress_where_a_storage_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of trials take minutes to close: a line every two seconds with the time left."""
    made = rig(objective="p50", progress=Steps())
    close_trial = Store.close_trial

    def slow(store: Store, number: int, *args: Any, **kwargs: Any) -> None:
        made.host.now_s += 1.0
        close_trial(store, number, *args, **kwargs)

    monkeypatch.setattr(Store, "close_trial", slow)
    racing = [t for t in proposals(searched(made)) if t.state == "complete"]
    assert isinstance(made.progress, Steps)
    closing = [step for step in made.progress.steps if step[0].endswith("trials closed")]
    count = len(racing)
    assert count > 4
    assert closing == [
        (f"{done} of {count} trials closed", float(count - done)) for done in range(2, count, 2)
    ]


def test_importance_is_of_parameters_and_names_what_matters(usual: Record) -> None:
    """PED-ANOVA on the losses: shares by parameter, not by Optuna's dimension, that make one."""
    assert usual.importance.keys() == {"fast", "boost", "mode", "size"}
    assert usual.importance["fast"] + usual.importance["boost"] > 0.5
    assert sum(usual.importance.values()) == pytest.approx(1)


def test_the_search_keeps_to_its_time() -> None:
    """The search ends when another block would not fit."""
    made = rig(objective="p50")
    record = searched(made, time_s=200.0)
    spent_s = sum(b.ended_unix_s - b.started_unix_s for b in blocks(record, "search"))
    assert 150 < spent_s <= 200


def test_the_search_keeps_to_its_number_of_trials() -> None:
    """Four proposals, then only further looks at them."""
    record = searched(rig(objective="p50"), time_s=600.0, trials=4)
    assert len(proposals(record)) == 4
    assert len(blocks(record, "search")) > 1


def test_a_bad_search_ends_with_a_candidate_all_the_same() -> None:
    """A search that finds nothing better still returns a candidate."""
    made = rig(objective="p50", truth=all_the_same)
    ready = calibrate(made.bench(), made.spec)
    spec = SearchSpec(made.spec.space, (), STOCK, (HAND,), 30.0, None)
    assert run_search(ready.bench, spec, ready.calibration, ready.plan) is not None


# --- infeasible and hopeless -------------------------------------------------------------------


def refuse_fast(values: Mapping[str, Value]) -> str:
    """Return a server that does not know ``fast``."""
    return 'unknown directive "fast"' if values["fast"] else ""


def test_what_the_server_refuses_is_infeasible_with_its_words() -> None:
    """A refused trial is infeasible and never repeated; the rest of its block is measured."""
    record = searched(rig(objective="p50", faults=Faults(refuse=refuse_fast)), time_s=200.0)
    refused = [t for t in proposals(record) if record.configurations[t.digest].values["fast"]]
    assert refused
    for trial in refused:
        assert (trial.state, trial.message) == ("infeasible", 'unknown directive "fast"')
        assert trial.losses == {}
    numbers = [i.trial for b in blocks(record, "search") for i in b.instances]
    assert all(numbers.count(trial.number) == 1 for trial in refused)
    assert any(t.losses for t in proposals(record))


def test_a_server_that_refuses_everything_does_not_keep_the_search_going() -> None:
    """A search whose proposals are all refused ends within its time and returns no candidate."""
    refuse = Faults(refuse=lambda values: "" if values == STOCK.values else "no")
    made = rig(objective="p50", faults=refuse)
    ready = calibrate(made.bench(), made.spec)
    spec = SearchSpec(made.spec.space, (), STOCK, (HAND,), 30.0, None)
    assert run_search(ready.bench, spec, ready.calibration, ready.plan) is None
    record = made.record()
    assert {t.state for t in proposals(record)} == {"infeasible"}
    refused = blocks(record, "search")
    assert len(refused) > 3
    assert sum(b.ended_unix_s - b.started_unix_s for b in refused) <= spec.time_s


def fails_when_fast(values: Mapping[str, Value]) -> Effect:
    """Errors are the fastest answers of all."""
    if values["fast"]:
        return Effect(ln_latency=-2.0, error_share=0.05, capacity_per_s=4_000.0)
    return Effect(capacity_per_s=4_000.0)


def test_a_configuration_that_answers_with_errors_is_infeasible_however_fast() -> None:
    """A configuration that answers with errors leaves its block; the record has the reason."""
    record = searched(rig(objective="p50", truth=fails_when_fast), time_s=200.0)
    bad = [t for t in proposals(record) if record.configurations[t.digest].values["fast"]]
    assert bad
    for trial in bad:
        assert trial.state == "infeasible"
        assert "requests failed (status" in trial.message
    for block in blocks(record, "search"):
        for instance in block.instances:
            if instance.trial in {trial.number for trial in bad}:
                assert sum(w.instance == instance.instance for w in block.windows) == 1


def slow_when_large(values: Mapping[str, Value]) -> Effect:
    """Return a large size doubles every latency."""
    large = int(values["size"]) > 512
    return Effect(ln_latency=0.7 * large, capacity_per_s=4_000.0)


def test_a_hopeless_candidate_leaves_its_block_after_four_rounds() -> None:
    """Four lost rounds are enough; its loss is kept, and it is not measured again."""
    record = searched(rig(objective="p50", truth=slow_when_large), time_s=200.0)
    large = [t for t in proposals(record) if record.configurations[t.digest].values["size"] > 512]  # type: ignore[operator]
    assert large
    for trial in large:
        assert trial.state == "dropped"
        assert mean_loss(trial.losses) == pytest.approx(0.7, abs=0.1)
        assert len(trial.losses) == 1
        assert trial.message == "worse than the baseline in each of 4 rounds"
    for block in blocks(record, "search"):
        for instance in block.instances:
            if instance.trial in {trial.number for trial in large}:
                rounds = sum(w.instance == instance.instance for w in block.windows)
                assert rounds in (4, 5), "the last round may be under way when the look comes"


def test_equal_candidates_are_rarely_dropped() -> None:
    """The look allows for what starts of one configuration differ by: at most 10 % of them."""
    record = searched(rig(objective="p50", truth=all_the_same, seed=3), time_s=330.0)
    instances = [i for b in blocks(record, "search") for i in b.instances if i.trial is not None]
    assert len(instances) > 40
    assert sum(i.state == "dropped" for i in instances) <= 0.2 * len(instances)


def test_four_rounds_are_needed_and_all_must_be_lost() -> None:
    """A single round that is not lost keeps the candidate."""
    objective = Objective("p50")

    def race(*losses: float) -> dict[str, str]:
        windows = []
        for round_, loss in enumerate(losses):
            windows.append(window("c1", round_, 100 * math.exp(loss)))
            windows.append(window(BASELINE, round_, 100))
        return hopeless(windows, objective, 0.1)

    assert race(0.5, 0.5, 0.5) == {}
    assert race(0.5, 0.5, 0.5, 0.05) == {}
    assert race(0.5, 0.5, 0.5, 0.5).keys() == {"c1"}
    assert race(-0.5, 0.5, 0.5, 0.5, 0.5) == {}


def test_of_two_objectives_and_of_a_capacity_nobody_loses_early() -> None:
    """A point of the front may lose in one, and a capacity has no figure by round."""
    windows = [window(arm, r, us) for r in range(4) for arm, us in (("c1", 200), (BASELINE, 100))]
    assert hopeless(windows, Objective("p50"), 0.1).keys() == {"c1"}
    assert hopeless(windows, None, 0.1) == {}
    made = rig(objective=("p50", "memory"), truth=slow_when_large)
    record = searched(made, time_s=120.0)
    assert not [i for b in blocks(record, "search") for i in b.instances if i.state == "dropped"]


def test_who_had_a_look_in_an_earlier_block_is_not_dropped() -> None:
    """One look in a configuration's life; a second one would add its error to the first one's."""
    windows = []
    for round_ in range(4):
        windows += [window("c1", round_, 200), window("c2", round_, 200)]
        windows.append(window(BASELINE, round_, 100))
    assert hopeless(windows, Objective("p50"), 0.1, kept={"c2"}).keys() == {"c1"}


def test_a_candidate_that_fails_the_load_leaves_once_the_baseline_held_it() -> None:
    """There is nothing to compare."""
    failing = window("c1", 0, 100, errors={"reset": 3})
    good = window(BASELINE, 0, 100)
    words = "3 of 20 requests failed (reset 3)"
    assert hopeless([failing], Objective("p50"), 0.1) == {}
    assert hopeless([failing, good], Objective("p50"), 0.1) == {"c1": words}


def test_a_failure_that_the_baseline_shares_is_held_against_nobody() -> None:
    """The host was busy, or the servers were not ready; the next round decides."""
    shared = [window(arm, 0, 100, errors={"reset": 3}) for arm in ("c1", "c2", BASELINE)]
    assert hopeless(shared, Objective("p50"), 0.1) == {}
    later = [window("c1", 1, 100), window("c2", 1, 100, timeouts=2), window(BASELINE, 1, 100)]
    assert hopeless([*shared, *later], Objective("p50"), 0.1).keys() == {"c2"}


# --- the host's and the instrument's failures --------------------------------------------------


def test_a_failure_of_the_host_is_held_against_nobody() -> None:
    """A failed block is repeated with the same candidates, and no trial is infeasible."""
    made = rig(objective="p50", faults=Faults(host_gone={5}, generator_dies={120}))
    record = searched(made, time_s=200.0)
    failed = [b for b in record.blocks if b.state == "failed"]
    assert len(failed) == 2
    for block in failed:
        repeated = record.blocks[block.number + 1]
        assert [i.digest for i in repeated.instances] == [i.digest for i in block.instances]
        assert [i.trial for i in repeated.instances] == [i.trial for i in block.instances]
    assert not [t for t in proposals(record) if t.state == "infeasible"]


def searched_with_faults(windows: int) -> tuple[Rig, Record]:
    """Return a search in which this number of windows fail at first."""
    made = rig(objective="p50")
    ready = calibrate(made.bench(), made.spec)
    begun = made.host.windows
    made.host.faults = Faults(failing=range(begun, begun + windows))
    spec = SearchSpec(made.spec.space, made.spec.allow, STOCK, (HAND,), 200.0, None)
    run_search(ready.bench, spec, ready.calibration, ready.plan)
    return made, made.record()


ARMS = 9
"""The baseline and eight candidates."""
ATTEMPTS = 3 * 4 * ARMS
"""Windows of all attempts at a block of four rounds."""


def test_a_round_that_fails_for_all_makes_no_candidate_infeasible() -> None:
    """Its other rounds decide."""
    _, record = searched_with_faults(ARMS)
    first = blocks(record, "search")[0]
    assert first.state == "complete"
    assert all(window.bad for window in first.windows if window.round == 0)
    assert not [t for t in proposals(record) if t.state == "infeasible"]
    trials = {i.trial for i in first.instances if i.trial is not None}
    assert all(t.losses for t in record.trials if t.number in trials)


def test_a_block_without_a_valid_attempt_is_left_out() -> None:
    """Its candidates may have disturbed the baseline, so the search continues with others."""
    made, record = searched_with_faults(ATTEMPTS)
    left, following = blocks(record, "search")[2:4]
    assert (left.state, following.state) == ("invalid", "complete")
    numbers = {i.trial for i in left.instances if i.trial is not None}
    unmeasured = [t for t in record.trials if t.number in numbers]
    assert len(unmeasured) == ARMS - 1
    for trial in unmeasured:
        assert (trial.state, trial.losses) == ("dropped", {})
        assert trial.message.startswith("not measured: search block 1 was not valid in 3 attempts")
    assert not numbers & {i.trial for i in following.instances}
    assert "the search continues with other candidates" in " ".join(made.progress.notes)


def test_two_blocks_in_a_row_without_a_valid_attempt_end_the_search() -> None:
    """Then it is not the candidates."""
    with pytest.raises(InvalidBlockError, match="search block 1 was not valid in 3 attempts"):
        searched_with_faults(2 * ATTEMPTS)


def test_the_same_seed_searches_the_same() -> None:
    """Proposals and orders are functions of the record and the seed."""
    one, same = (searched(rig(objective="p50"), time_s=120.0) for _ in range(2))
    assert [t.digest for t in one.trials] == [t.digest for t in same.trials]
    assert [t.losses for t in one.trials] == [t.losses for t in same.trials]
    other = searched(rig(objective="p50", seed=2, noise=QUIET), time_s=120.0)
    assert [t.digest for t in other.trials] != [t.digest for t in one.trials]


def test_what_is_allowed_by_name_is_searched_and_nothing_else() -> None:
    """Trades stay as in the baseline unless the user says otherwise."""
    plain = searched(rig(objective="p50", truth=fast_is_better), time_s=120.0)
    assert not any(c.values["cache"] for c in plain.configurations.values())
    allowed = searched(rig(objective="p50", allow=("cache",)), time_s=200.0)
    assert any(c.values["cache"] for c in allowed.configurations.values())
