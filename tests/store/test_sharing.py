"""Tests of several workers on one study: nothing is lost, and nothing counts twice."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import optuna
import pytest

from tests.phases.rig import HAND, NAME, SPACE, Rig
from tests.store.database import Database, database
from tests.store.workers import begin, joined, simulated, whole, windows, work
from tuner.cli import worker
from tuner.errors import ClaimedError, LeaseLostError, StoreError
from tuner.judge.plan import BlockPlan
from tuner.judge.results import evaluate
from tuner.judge.scoring import BASELINE
from tuner.phases.block import Arm, BlockSpec, run_block
from tuner.phases.study import calibrate, run_study
from tuner.record.model import BlockInstance, Record
from tuner.report.data import as_data, schema
from tuner.report.html import render_html
from tuner.search.dimensions import dimensions_of
from tuner.search.propose import propose
from tuner.search.trials import MeasuredTrial
from tuner.space.configuration import Configuration
from tuner.stats.verdict import VerdictKind
from tuner.store import unbegun
from tuner.store.listing import list_names
from tuner.store.storage import Storage, open_storage
from tuner.store.store import Store
from tuner.testing.lab import Effect

PLAN = BlockPlan(rounds=2, window_s=3.0, first_warmup_s=0.1, warmup_s=0.1)


class Clock:
    """A watcher's clock, which a test sets."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def in_turn(made: Rig) -> None:
    """Let a window take a moment of real time, in which the other threads have theirs."""
    measure = made.host.measure

    def slowly(*args: Any) -> Any:
        time.sleep(0.005)
        return measure(*args)

    made.host.measure = slowly  # type: ignore[method-assign,assignment]


def gated(made: Rig, gates: dict[str, threading.Barrier]) -> None:
    """Let the first window of each of these phases wait at its gate."""
    ahead, measure = list(gates), made.host.measure

    def waiting(*args: Any) -> Any:
        if ahead and ahead[0] in made.progress.phases[-1]:
            gates[ahead.pop(0)].wait()
        return measure(*args)

    made.host.measure = waiting  # type: ignore[method-assign,assignment]


def together(storage: Storage, hosts: dict[str, Rig]) -> list[BaseException]:
    """Return a worker for every host, all at once; what went wrong."""
    wrong: list[BaseException] = []
    # Calibrated one after the other, so that they begin to search in the same instant.
    benches = {name: made.bench(joined(storage, name, made)) for name, made in hosts.items()}
    for name, bench in benches.items():
        calibrate(bench, hosts[name].spec)
        in_turn(hosts[name])

    def one(name: str) -> None:
        try:
            run_study(benches[name], hosts[name].spec)
        except BaseException as error:  # noqa: BLE001 - the test sees it
            wrong.append(error)

    threads = [threading.Thread(target=one, args=(name,)) for name in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def is_sound(record: Record) -> None:
    """Assert the invariants of every study of several hosts."""
    digests = Counter(trial.digest for trial in record.trials)
    assert max(digests.values()) == 1
    seen = Counter((b.number, w.window_id) for b in record.blocks for w in b.windows)
    assert max(seen.values()) == 1
    assert "running" not in {block.state for block in record.blocks}
    assert "racing" not in {trial.state for trial in record.trials}
    for host in record.hosts.values():
        assert host.protocol is not None
        indices = [
            b.index
            for b in record.blocks
            if (b.phase, b.state, b.host) == ("confirm", "complete", host.name)
        ]
        assert sorted(indices) == list(range(host.protocol.blocks))


@pytest.fixture(params=["memory", "postgresql"])
def storage(request: pytest.FixtureRequest) -> Storage:
    """Return the storage of the workers."""
    if request.param == "memory":
        return optuna.storages.InMemoryStorage()
    url: str = request.getfixturevalue("url")
    return url


def test_two_workers_share_a_search_and_confirm_on_both_hosts(storage: Storage) -> None:
    """Each trial is one worker's; the verdict is of both hosts."""
    begin(storage)
    assert together(storage, {"a": simulated(11), "b": simulated(12)}) == []
    record = whole(storage)
    is_sound(record)
    assert {block.host for block in record.blocks if block.phase == "confirm"} == {"a", "b"}
    study = evaluate(record)
    assert study.hosts is not None
    assert [host.name for host in study.hosts.hosts] == ["a", "b"]
    assert {h.verdict.kind for h in study.hosts.hosts if h.verdict} == {VerdictKind.BETTER}
    assert study.verdict is study.hosts.verdict
    assert any("2 hosts show little of others" in text for text in study.warnings)


def test_a_worker_waits_for_a_record_that_another_one_creates(tmp_path: Path) -> None:
    """Its start is incomplete for a moment, which must not end the second worker."""
    url = f"sqlite:///{tmp_path / 'record.db'}"
    made = simulated(1)
    header = made.host.header(NAME, made.baseline, made.objective)
    reached, go_on = threading.Event(), threading.Event()

    def slowly(_: Store) -> None:
        reached.set()
        go_on.wait(20)

    first = threading.Thread(target=lambda: Store.create(url, header, begin=slowly))
    first.start()
    assert reached.wait(20)
    threading.Timer(0.5, go_on.set).start()
    record = worker.existing(url, NAME)
    first.join()
    assert record is not None
    assert record.name == NAME


def test_a_start_that_was_interrupted_is_removed_after_a_while(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker says that it waits, and may then begin the study under its name."""
    monkeypatch.setattr(unbegun, "_PATIENCE_S", 0.0)
    made = simulated(1)
    header = made.host.header(NAME, made.baseline, made.objective)

    def dies(_: Store) -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        Store.create(storage, header, begin=dies)
    said: list[str] = []
    unbegun.wait_for_start(storage, NAME, said.append)
    assert len(said) == 1
    assert f"the start of '{NAME}' is incomplete; waiting" in said[0]
    assert Store.create(storage, header).record().name == NAME


def test_a_start_that_another_worker_took_for_interrupted_ends(storage: Storage) -> None:
    """A worker that was suspended for minutes does not write into the other one's study."""
    made = simulated(1)
    header = made.host.header(NAME, made.baseline, made.objective)

    def suspended(_: Store) -> None:
        unbegun.remove_unbegun(open_storage(storage), NAME)

    with pytest.raises(StoreError, match=r"has been removed from .* start the command again"):
        Store.create(storage, header, begin=suspended)
    assert list_names(storage, writing=True) == []


def test_several_hosts_stand_in_the_report_and_its_json(tmp_path: Path) -> None:
    """Each one's ratio, interval, weight and whether it is an outlier; and how they differ."""
    storage = optuna.storages.InMemoryStorage()
    begin(storage)
    for place, name in enumerate("abc"):
        work(storage, name, simulated(11 + place))
    study = evaluate(whole(storage))
    data = as_data(study, tmp_path)
    jsonschema.validate(data, schema())
    assert [row["host"] for row in data["hosts"]["each"]] == ["a", "b", "c"]
    assert sum(row["weight"] for row in data["hosts"]["each"]) == pytest.approx(1)
    assert data["hosts"]["across"]["ratio"] == data["ratio"]
    low, high = data["hosts"]["across"]["prediction"]
    assert low < data["ratio"] < high
    text = render_html(study)
    assert '<section id="hosts">' in text
    assert data["hosts"]["everywhere"] in text


def test_two_workers_measure_twice_as_much_in_the_same_time() -> None:
    """In the hosts' own time: blocks of the search per second of the longer one."""
    single, double = optuna.storages.InMemoryStorage(), optuna.storages.InMemoryStorage()
    begin(single)
    assert together(single, {"a": simulated(11, time_s=300.0)}) == []
    begin(double)
    hosts = {"a": simulated(11, time_s=300.0), "b": simulated(12, time_s=300.0)}
    assert together(double, hosts) == []

    def measured(record: Record) -> int:
        return sum(b.phase == "search" and b.state == "complete" for b in record.blocks)

    assert measured(whole(double)) >= 1.5 * measured(whole(single))


def test_what_is_worse_on_one_host_is_no_gain_of_all() -> None:
    """The host is named, and the verdict is not *better*."""
    storage = optuna.storages.InMemoryStorage()
    begin(storage, "a")

    def turned(values: Any) -> Effect:
        return Effect(ln_latency=0.4 if values["fast"] else 0.0, capacity_per_s=4_000.0)

    hosts = {name: simulated(20 + place) for place, name in enumerate("abcde")}
    for name in "abcde":
        work(storage, name, hosts[name])
    work(storage, "odd", simulated(30, truth=turned))
    study = evaluate(whole(storage))
    assert study.hosts is not None
    assert study.verdict is not None
    assert study.verdict.kind is VerdictKind.INCONCLUSIVE
    assert "worse on odd" in study.hosts.everywhere
    assert any("host odd is an outlier" in note for note in study.hosts.notes)


# --- leases and claims ------------------------------------------------------------------------


def pair(storage: Storage) -> tuple[Store, Store, Clock]:
    """Return two workers that have joined, with a clock of the test."""
    begin(storage)
    clock = Clock()
    one = joined(storage, "a", simulated(1), clock=clock)
    return one, joined(storage, "b", simulated(2), clock=clock), clock


def open_trial(store: Store, configuration: Configuration = HAND) -> int:
    """Return a trial of the hand tuning."""
    return store.open_trial(configuration, "hand", *dimensions_of(SPACE, (), configuration))


def instances(trial: int) -> tuple[BlockInstance, ...]:
    """Return a block of the baseline and one trial."""
    return (
        BlockInstance(BASELINE, "0123456789ab", None, "planned", ""),
        BlockInstance("c1", HAND.digest, trial, "planned", ""),
    )


def test_of_two_blocks_with_one_trial_the_first_stands(storage: Storage) -> None:
    """The second worker gets ClaimedError, and its attempt leaves no trace in the record."""
    one, other, _ = pair(storage)
    trial = open_trial(one)
    number = one.open_block("search", 0, 7, instances(trial))
    with pytest.raises(ClaimedError):
        other.open_block("search", 0, 7, instances(trial))
    assert [block.number for block in whole(storage).blocks] == [number]
    assert other.record().busy == {trial}


def test_a_configuration_proposed_twice_is_one_trial(storage: Storage) -> None:
    """Two workers' proposals of one configuration are one trial, and one worker opens its block."""
    one, other, _ = pair(storage)
    trial = open_trial(one)
    assert open_trial(other) == trial
    one.open_block("search", 0, 7, instances(trial))
    with pytest.raises(ClaimedError):
        other.open_block("search", 0, 7, instances(trial))
    assert [t.origin for t in whole(storage).trials] == ["baseline", "hand"]


def test_an_abandoned_block_is_ended_and_its_slow_worker_discards_the_rest(
    storage: Storage,
) -> None:
    """Windows until then are kept; the storage refuses what comes later."""
    slow, other, clock = pair(storage)
    made = simulated(1)
    spec = BlockSpec("aa", 0, (Arm(BASELINE, made.baseline),), PLAN, "open", 600.0, needs_all=True)
    measure, calls = made.host.measure, []

    def sleepy(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            for _ in range(5):
                clock.now += 100.0
                ended.extend(other.reap())
        return measure(*args)

    ended: list[str] = []
    made.host.measure = sleepy  # type: ignore[method-assign,assignment]
    with pytest.raises(LeaseLostError, match="discarded"):
        run_block(made.bench(slow), spec)
    assert ended == ["block 0 of a was interrupted; its 1 windows are kept"]
    (block,) = whole(storage).blocks
    assert (block.state, block.reason, len(block.windows)) == ("failed", "interrupted", 1)


def test_a_block_with_arriving_windows_is_left_alone(storage: Storage) -> None:
    """Every window renews the lease."""
    one, other, clock = pair(storage)
    made = simulated(1)
    spec = BlockSpec("aa", 0, (Arm(BASELINE, made.baseline),), PLAN, "open", 600.0, needs_all=True)
    measure = made.host.measure

    def watched(*args: Any) -> Any:
        clock.now += 60.0
        assert other.reap() == []
        return measure(*args)

    made.host.measure = watched  # type: ignore[method-assign,assignment]
    assert run_block(made.bench(one), spec).state == "complete"


def test_a_second_worker_for_a_host_shuts_the_first_one_out(storage: Storage) -> None:
    """Two on one host would disturb each other's windows."""
    one, _, _ = pair(storage)
    joined(storage, "a", simulated(1))
    with pytest.raises(StoreError, match="another worker for the host 'a' has begun"):
        one.open_block("aa", 0, 7, ())


def test_what_a_block_that_was_not_valid_began_is_left_to_its_worker_for_a_while(
    storage: Storage,
) -> None:
    """An invalid block's trials stay its worker's for a while; then any worker may take them."""
    one, other, clock = pair(storage)
    trial = open_trial(one)
    number = one.open_block("search", 0, 7, instances(trial))
    assert one.orphans(one.record()) == other.orphans(other.record()) == set()
    one.close_block(number, "invalid", "disturbed", instances(trial), 0.0)
    assert one.orphans(one.record()) == {trial}
    found = [other.orphans(other.record())]
    for _ in range(4):
        clock.now += 10.0
        found.append(other.orphans(other.record()))
    assert found == [set(), set(), set(), {trial}, {trial}]


def test_what_an_abandoned_block_began_is_free_at_once(storage: Storage) -> None:
    """Trials of an abandoned block are free as soon as it is reaped."""
    one, other, clock = pair(storage)
    trial = open_trial(one)
    one.open_block("search", 0, 7, instances(trial))
    ended = []
    for _ in range(4):
        assert other.orphans(other.record()) == set()
        clock.now += 100.0
        ended += other.reap()
    assert ended == ["block 0 of a was interrupted; its 0 windows are kept"]
    assert other.orphans(other.record()) == {trial}


def test_proposals_keep_away_from_what_others_measure() -> None:
    """No configuration that another worker measures is proposed again."""
    base = simulated(1).baseline
    seen = [MeasuredTrial(base, (0.0,))]
    first = propose(SPACE, (), base, seen, count=5, seed=3)
    again = propose(SPACE, (), base, seen, count=5, seed=3, pending=first)
    assert not {c.digest for c in first} & {c.digest for c in again}


# --- faults, with processes of their own ------------------------------------------------------


def process(url: str, host: str, seed: int, objective: str) -> subprocess.Popen[str]:
    """Return a worker in a process of its own, which hangs in the second window of its search."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.store.workers", host, str(seed), objective],
        env={**os.environ, "TUNER_STORAGE": url},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def until_searching(url: str, host: str, of: subprocess.Popen[str]) -> None:
    """Wait for a window of a search block of this host, as long as its process lives.

    However busy the machine is: the process hangs in its next window, and ends by itself some time.
    """
    while of.poll() is None:
        for block in whole(url).blocks:
            searching = (block.phase, block.host, block.state) == ("search", host, "running")
            if searching and block.windows:
                return
        time.sleep(0.2)
    pytest.fail(f"no search on {host}: {of.stdout.read() if of.stdout else ''}")


@pytest.mark.integration
def test_a_killed_workers_block_is_taken_over_by_the_other(url: str) -> None:
    """Killed with -9 in mid-block: its windows stay, and what it had begun the other measures."""
    # A median needs short windows, so the search has many blocks.
    begin(url, objective="p50")
    victim = process(url, "a", 11, "p50")
    made = simulated(12, time_s=1100.0, objective="p50")
    clock, killed = Clock(), threading.Event()
    measure, wrong = made.host.measure, []

    def after_the_kill(*args: Any) -> Any:
        if "search" in made.progress.phases:
            killed.wait()
            passes()
        return measure(*args)

    def passes() -> None:
        clock.now += 10.0

    def other() -> None:
        try:
            work(url, "b", made, clock=clock, pause=passes)
        except BaseException as error:  # noqa: BLE001 - the test sees it
            wrong.append(error)

    made.host.measure = after_the_kill  # type: ignore[method-assign,assignment]
    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    try:
        until_searching(url, "a", victim)
        victim.kill()
        victim.communicate()
        before = whole(url)
    finally:
        victim.kill()
        killed.set()
        thread.join()
    (cut,) = (b for b in before.blocks if (b.host, b.state) == ("a", "running"))
    assert wrong == []
    assert f"block {cut.number} of a was interrupted" in " ".join(made.progress.notes)
    record = whole(url)
    assert windows(before) <= windows(record)
    (left,) = (b for b in record.blocks if b.number == cut.number)
    assert (left.state, left.reason) == ("failed", "interrupted")
    assert left.windows == cut.windows
    taken = {
        i.digest
        for b in record.blocks
        if (b.host, b.phase, b.state) == ("b", "search", "complete")
        for i in b.instances
    }
    assert len(cut.windows) == 1
    assert {i.digest for i in cut.instances} <= taken
    # The same command again on its host resumes with the confirmation there.
    work(url, "a", simulated(13, objective="p50"))
    is_sound(whole(url))


@pytest.mark.integration
def test_a_database_that_crashes_under_running_workers_loses_nothing() -> None:
    """Every window that was stored, in search or confirmation, is in the record once."""
    kept: set[tuple[int, str]] = set()
    said: dict[str, list[str]] = {"a": [], "b": []}
    hosts = {"a": simulated(11), "b": simulated(12)}
    wrong: list[BaseException] = []
    crashed = threading.Event()
    with database() as server:
        url = server.url()
        begin(url)

        def crash() -> None:
            server.stop("immediate")
            crashed.set()

        # Both workers are in a block of the phase when the database goes, however the machine
        # shares its time between them.
        gates = {
            phase: threading.Barrier(len(hosts), crash, timeout=120)
            for phase in ("search", "confirmation")
        }

        def worker(host: str) -> None:
            made = hosts[host]
            gated(made, gates)
            store = joined(url, host, made, say=said[host].append)
            add = store.add_window

            def reported(block: int, window: Any) -> None:
                add(block, window)
                kept.add((block, window.window_id))

            store.add_window = reported  # type: ignore[method-assign]
            try:
                run_study(made.bench(store), made.spec)
            except BaseException as error:  # noqa: BLE001 - the test sees it
                wrong.append(error)

        def troubles() -> tuple[int, ...]:
            """Return how often each worker reported that the storage does not answer."""
            return tuple(sum("does not answer" in text for text in said[host]) for host in hosts)

        threads = [threading.Thread(target=worker, args=(host,), daemon=True) for host in hosts]
        for thread in threads:
            thread.start()
        for _ in gates:
            before = troubles()
            assert crashed.wait(120), wrong
            crashed.clear()
            while not all(now > then for now, then in zip(troubles(), before, strict=True)):
                time.sleep(0.02)
            server.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        record = whole(url)
    assert kept == windows(record)
    is_sound(record)
    for words in said.values():
        assert words[-1] == "the storage answers again"


def test_the_study_of_workers_is_open_to_optunas_tools(server: Database, url: str) -> None:
    """Two Optuna studies, as for one host, and one for each host's own."""
    assert server.port > 0
    begin(url)
    assert optuna.get_all_study_names(url) == [
        NAME,
        f"{NAME}/blocks",
        f"{NAME}/on/a",
    ]
