"""Several workers on one study: nothing is lost, nothing counts twice, whatever becomes of them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import Any

import optuna
import pytest

from tests.phases.rig import HAND, NAME, SPACE, Rig
from tests.scale.database import Database
from tests.scale.workers import begin, joined, simulated, whole, windows, work
from tuner.configuration import Configuration
from tuner.errors import ClaimedError, LeaseLostError, StoreError
from tuner.phases.block import Arm, BlockSpec, run_block
from tuner.phases.study import calibrate, run_study
from tuner.plan import BlockPlan
from tuner.record import BlockInstance, Record
from tuner.report.result import evaluate
from tuner.scoring import BASELINE
from tuner.search.dimensions import dimensions_of
from tuner.search.propose import Seen, propose
from tuner.stats.verdict import VerdictKind
from tuner.storage import Storage
from tuner.store import Store
from tuner.testing.lab import Effect

PLAN = BlockPlan(rounds=2, window_s=3.0, first_warmup_s=0.1, warmup_s=0.1)


class Clock:
    """A watcher's clock, which a test sets."""

    now = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now


def in_turn(made: Rig) -> None:
    """Let a window take a moment of real time, in which the other threads have theirs."""
    measure = made.host.measure

    def slowly(*args: Any) -> Any:
        time.sleep(0.005)
        return measure(*args)

    made.host.measure = slowly  # type: ignore[method-assign,assignment]


def together(storage: Storage, hosts: dict[str, Rig]) -> list[BaseException]:
    """A worker for every host, all at once; what went wrong."""
    wrong: list[BaseException] = []
    # Calibrated one after the other, so that they begin to search in the same instant.
    benches = {name: made.bench(joined(storage, name, made)) for name, made in hosts.items()}
    for name, bench in benches.items():
        calibrate(bench, hosts[name].spec)
        in_turn(hosts[name])

    def one(name: str) -> None:
        try:
            run_study(benches[name], hosts[name].spec)
        except BaseException as error:  # noqa: BLE001 - told to the test
            wrong.append(error)

    threads = [threading.Thread(target=one, args=(name,)) for name in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def is_sound(record: Record) -> None:
    """What must hold however a study of several hosts went."""
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
    """Where the workers meet."""
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
    assert any("2 hosts tell little of others" in text for text in study.warnings)


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
    """Two workers that have joined; the second watches by a clock of the test."""
    begin(storage)
    clock = Clock()
    one = joined(storage, "a", simulated(1))
    return one, joined(storage, "b", simulated(2), clock=clock), clock


def open_trial(store: Store, configuration: Configuration = HAND) -> int:
    """A trial of the hand tuning."""
    return store.open_trial(configuration, "hand", *dimensions_of(SPACE, (), configuration))


def instances(trial: int) -> tuple[BlockInstance, ...]:
    """A block of the baseline and one trial."""
    return (
        BlockInstance(BASELINE, "x", None, "planned", ""),
        BlockInstance("c1", HAND.digest, trial, "planned", ""),
    )


def test_of_two_blocks_with_one_trial_the_first_stands(storage: Storage) -> None:
    """The other worker is told, and the record shows no trace of its attempt."""
    one, other, _ = pair(storage)
    trial = open_trial(one)
    number = one.open_block("search", 0, 7, instances(trial))
    with pytest.raises(ClaimedError):
        other.open_block("search", 0, 7, instances(trial))
    assert [block.number for block in whole(storage).blocks] == [number]
    assert whole(storage).busy == {trial}


def test_a_configuration_proposed_twice_is_one_trial(storage: Storage) -> None:
    """The lower number is everybody's."""
    one, other, _ = pair(storage)
    assert open_trial(one) == open_trial(other)
    assert len(whole(storage).trials) == 1


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
                ended.extend(other.sharing.reap())
        return measure(*args)

    ended: list[str] = []
    made.host.measure = sleepy  # type: ignore[method-assign,assignment]
    with pytest.raises(LeaseLostError, match="discarded"):
        run_block(made.bench(slow), spec)
    assert ended == ["block 0 of a had been cut short; its 1 windows are kept"]
    (block,) = whole(storage).blocks
    assert (block.state, block.reason, len(block.windows)) == ("failed", "interrupted", 1)


def test_a_block_whose_windows_arrive_is_left_alone(storage: Storage) -> None:
    """Every window renews the lease."""
    one, other, clock = pair(storage)
    made = simulated(1)
    spec = BlockSpec("aa", 0, (Arm(BASELINE, made.baseline),), PLAN, "open", 600.0, needs_all=True)
    measure = made.host.measure

    def watched(*args: Any) -> Any:
        clock.now += 60.0
        assert other.sharing.reap() == []
        return measure(*args)

    made.host.measure = watched  # type: ignore[method-assign,assignment]
    assert run_block(made.bench(one), spec).state == "complete"


def test_a_second_worker_for_a_host_shuts_the_first_one_out(storage: Storage) -> None:
    """Two on one host would disturb each other's windows."""
    one, _, _ = pair(storage)
    joined(storage, "a", simulated(1))
    with pytest.raises(StoreError, match="another worker for the host 'a' has begun"):
        one.open_block("aa", 0, 7, ())


def test_an_orphaned_trial_is_left_to_its_worker_for_a_while(storage: Storage) -> None:
    """Then whoever has room measures it."""
    one, other, clock = pair(storage)
    trial = open_trial(one)
    assert one.sharing.orphans(one.record()) == {trial}
    found = [other.sharing.orphans(other.record())]
    for _ in range(4):
        clock.now += 10.0
        found.append(other.sharing.orphans(other.record()))
    assert found == [set(), set(), set(), {trial}, {trial}]


def test_proposals_keep_away_from_what_others_measure() -> None:
    """Never the same again, and told to the sampler as bad until its figure is known."""
    base = simulated(1).baseline
    seen = [Seen(base, (0.0,))]
    first = propose(SPACE, (), base, seen, count=5, seed=3)
    again = propose(SPACE, (), base, seen, count=5, seed=3, pending=first)
    assert not {c.digest for c in first} & {c.digest for c in again}


# --- faults, with processes of their own ------------------------------------------------------


def process(url: str, host: str, seed: int, window_s: float = 0.01) -> subprocess.Popen[str]:
    """A worker in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.scale.workers", host, str(seed), str(window_s)],
        env={**os.environ, "TUNER_STORAGE": url},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def until_searching(url: str, host: str, of: subprocess.Popen[str]) -> None:
    """Wait for a window of a search block of this host."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and of.poll() is None:
        for block in whole(url).blocks:
            searching = (block.phase, block.host, block.state) == ("search", host, "running")
            if searching and block.windows:
                return
        time.sleep(0.05)
    pytest.fail(f"no search on {host}: {of.stdout.read() if of.stdout else ''}")


@pytest.mark.integration
def test_a_killed_workers_windows_stay_and_its_work_is_done_by_the_other(url: str) -> None:
    """Killed with -9 in the middle of a block; then the same line again on its host."""
    begin(url)
    victim, other = process(url, "a", 11), process(url, "b", 12)
    until_searching(url, "a", victim)
    victim.kill()
    victim.communicate()
    before = windows(whole(url))
    assert before
    # As its operator would: the host comes back, and ends its block at once.
    again = process(url, "a", 13)
    for worker in (again, other):
        out, _ = worker.communicate(timeout=240)
        assert worker.returncode == 0, out
    record = whole(url)
    assert before <= windows(record)
    is_sound(record)
    cut = [b for b in record.blocks if b.reason == "interrupted"]
    assert {b.host for b in cut} <= {"a"}


def test_the_study_of_workers_is_open_to_optunas_tools(server: Database, url: str) -> None:
    """Two Optuna studies, as for one host."""
    assert server.port > 0
    begin(url)
    assert optuna.get_all_study_names(url) == [NAME, f"{NAME}/blocks"]
