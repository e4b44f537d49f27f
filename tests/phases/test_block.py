"""A block: one deployment, complete rounds in random order, every window in the record."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.phases.rig import HAND, SPACE, STOCK, Rig, blocks, rig
from tuner.errors import HostError, InstrumentError, Interrupted
from tuner.generators.generator import Next, WindowPlan, WindowSpec
from tuner.goals.goals import goals_of
from tuner.hosts.deployer import InstanceSpec, InstanceState
from tuner.judge.plan import BlockPlan
from tuner.judge.scoring import BASELINE, counted_windows
from tuner.measurement import quota
from tuner.measurement.gates import Gates
from tuner.measurement.instrument import Mode
from tuner.measurement.readings import CounterReading, HostCounters, ProcessCounters, Throttling
from tuner.measurement.stalls import Span
from tuner.measurement.window import Measurement, RawWindow
from tuner.phases import block as block_module
from tuner.phases.block import Arm, BlockSpec, run_block
from tuner.phases.repeat import (
    FIRST_PAUSE_S,
    MOST_REPEATS,
    InvalidBlockError,
    repeat_until_complete,
)
from tuner.record.model import Block
from tuner.record.small import small_of_search
from tuner.space.configuration import Configuration, Value
from tuner.stats.paired import estimate
from tuner.stats.words import counted
from tuner.testing.lab import (
    Effect,
    Faults,
    SimulatedDeployer,
    SimulatedGenerator,
    SimulatedHost,
)
from tuner.testing.simulate import Noise, SimulatedStalls

ODD = SPACE.complete({"size": 64}, STOCK)


@dataclass(frozen=True, slots=True)
class Deploying(SimulatedDeployer):
    """A deployer that keeps what it deploys."""

    started: list[Sequence[InstanceSpec]]

    def deploy(self, instances: Sequence[InstanceSpec]) -> Mapping[str, InstanceState]:
        """Implement ``Deployer.deploy``."""
        self.started.append(instances)
        return SimulatedDeployer(self.host).deploy(instances)


@dataclass(frozen=True, slots=True)
class Watched(SimulatedGenerator):
    """A generator that keeps its plans."""

    plans: list[WindowPlan]

    def run(self, plan: WindowPlan, after: Callable[[RawWindow], Next]) -> None:
        """Implement ``LoadGenerator.run``."""
        self.plans.append(plan)
        SimulatedGenerator(self.host).run(plan, after)


def spec(*others: Configuration, rounds: int = 5, needs_all: bool = False) -> BlockSpec:
    """Return a search block of the baseline and these, at three quarters of the capacity."""
    arms = [Arm(f"c{i}", configuration) for i, configuration in enumerate(others, 1)]
    return BlockSpec(
        phase="search",
        index=0,
        arms=(Arm(BASELINE, STOCK), *arms),
        plan=BlockPlan(rounds, 0.5, 0.2, 0.1),
        mode="open",
        rate_per_s=3_000.0,
        needs_all=needs_all,
    )


def slots(block: Block) -> dict[str, int | None]:
    """Return the slot of each instance, by label."""
    return {instance.instance: instance.slot for instance in block.instances}


def order(block: Block) -> list[list[str]]:
    """Return instances in the order of measurement, by round."""
    rounds: dict[int, list[str]] = defaultdict(list)
    for window in block.windows:
        rounds[window.round].append(window.instance)
    return [rounds[number] for number in sorted(rounds)]


# --- what the server says ---------------------------------------------------------------------


def test_where_requests_fail_the_server_is_heard() -> None:
    """The error log is read for failing windows only, and its message is in their record."""
    read: list[str] = []

    def log(path: str) -> bytes:
        read.append(path)
        return b"2026/11/22 00:00:00 [alert] 7#7: *9 512 worker_connections are not enough\n"

    study = rig(faults=Faults(failing=range(2)))
    bench = replace(study.bench(), read_log=log)
    block = run_block(bench, spec(rounds=5))
    failing = [window for window in block.windows if not window.valid]
    assert len(failing) == 2
    for window in failing:
        assert window.invalid[-1] == "its error log: [alert] 512 worker_connections are not enough"
    goals = goals_of(study.record().definition)
    stored = tuple(small_of_search(window, goals) for window in block.windows)
    assert study.record().blocks[-1].windows == stored
    assert read == [f"/simulated/slot{slots(block)[BASELINE]:02}/error.log"] * 2


# --- idle CPUs --------------------------------------------------------------------------------


@dataclass
class Idle:
    """Idle CPUs of the serving host."""

    polling: bool = False

    @contextmanager
    def poll(self) -> Iterator[None]:
        """Let them poll."""
        self.polling = True
        yield
        self.polling = False


@dataclass(frozen=True, slots=True)
class Seeing(SimulatedGenerator):
    """A generator that notes whether idle CPUs poll."""

    idle: Idle
    seen: list[bool]

    def run(self, plan: WindowPlan, after: Callable[[RawWindow], Next]) -> None:
        """Implement ``LoadGenerator.run``."""
        self.seen.append(self.idle.polling)
        SimulatedGenerator(self.host).run(plan, after)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("halts", [False, True])
def test_idle_cpus_poll_while_a_plan_runs(*, exclusive: bool, halts: bool) -> None:
    """Not during deployments, and not in a block that shows the host as it is."""
    study, idle, seen = rig(exclusive=exclusive), Idle(), list[bool]()
    generator = Seeing(study.host, idle, seen)
    bench = replace(study.bench(), generator=generator, polling=idle.poll)
    block = run_block(bench, replace(spec(rounds=2), halts=halts))
    assert seen
    assert set(seen) == {not halts}
    assert not idle.polling
    assert {window.polled for window in block.windows} == {not halts}
    assert {window.polled for window in study.record().blocks[-1].windows} == {not halts}


def test_without_the_means_idle_cpus_halt() -> None:
    """The record says so in each window."""
    block = run_block(rig().bench(), spec(rounds=2))
    assert not any(window.polled for window in block.windows)


# --- order ------------------------------------------------------------------------------------


def test_every_round_measures_every_instance_once() -> None:
    """A randomised complete block: rounds one after another, nobody left out."""
    block = run_block(rig().bench(), spec(HAND, ODD))
    assert block.state == "complete"
    assert [sorted(names) for names in order(block)] == [[BASELINE, "c1", "c2"]] * 5
    assert [w.round for w in block.windows] == sorted(w.round for w in block.windows)


def test_the_order_within_rounds_is_random_and_follows_from_the_seed() -> None:
    """The same seed and block number give the same order; another seed or block another one."""
    bench = rig(seed=1).bench()
    first, second = (order(run_block(bench, spec(HAND, ODD, rounds=12))) for _ in range(2))
    again = order(run_block(rig(seed=1).bench(), spec(HAND, ODD, rounds=12)))
    other = order(run_block(rig(seed=2).bench(), spec(HAND, ODD, rounds=12)))
    assert first == again
    assert first != second
    assert first != other
    assert len({tuple(names) for names in first}) > 3


def test_the_instances_of_a_round_are_offered_the_very_same_arrivals() -> None:
    """Common random numbers: what differs within a round is the server."""
    made = rig()
    seeds: dict[int, set[int]] = defaultdict(set)
    measure = made.host.measure

    def watch(workload: object, endpoint: object, window: object) -> object:
        seeds[int(window.window_id[:2])].add(window.seed)  # type: ignore[attr-defined]
        return measure(workload, endpoint, window)  # type: ignore[arg-type]

    made.host.measure = watch  # type: ignore[assignment,method-assign]
    run_block(made.bench(), spec(HAND, ODD))
    assert [len(seeds[round_]) for round_ in range(5)] == [1] * 5
    assert len(set.union(*seeds.values())) == 5


@pytest.mark.parametrize(("mode", "same"), [("open", True), ("closed", False)])
def test_the_slices_of_a_set_have_the_same_arrivals(mode: Mode, same: bool) -> None:
    """Common random numbers in slices too; a closed loop has no arrivals."""
    made = rig()
    plans: list[WindowPlan] = []
    bench = replace(made.bench(), generator=Watched(made.host, plans))
    sliced = spec(HAND)
    run_block(bench, replace(sliced, mode=mode, plan=replace(sliced.plan, slice_ms=20.0)))
    sets = [window.slices for plan in plans for window in plan.windows]
    assert [slices and slices.same_arrivals for slices in sets] == [same] * len(sets)


def test_slots_decide_port_folder_and_the_order_of_starting_and_connecting() -> None:
    """In every block each arm has what belongs to its slot, and the record holds the slot."""
    made = rig()
    bench = made.bench()
    started: list[Sequence[InstanceSpec]] = []
    plans: list[WindowPlan] = []
    generator = Watched(made.host, plans)
    deployer = Deploying(made.host, started)
    bench = replace(bench, deployer=deployer, generator=generator)
    for index in range(6):
        block = run_block(bench, replace(spec(HAND, ODD), index=index))
        known = slots(block)
        in_order = sorted(known, key=lambda label: known[label] or 0)
        deployed = started[-1]
        assert [each.instance for each in deployed] == in_order
        assert [each.directory for each in deployed] == [f"/simulated/slot{n:02}" for n in range(3)]
        ports = [endpoint.address for endpoint in plans[-1].endpoints]
        assert [endpoint.instance for endpoint in plans[-1].endpoints] == in_order
        assert ports == sorted(ports)
        assert slots(made.record().blocks[-1]) == known
    taken = [slots(block)[BASELINE] for block in made.record().blocks]
    assert sorted(taken[:3]) == sorted(taken[3:]) == [0, 1, 2]  # type: ignore[type-var]


def test_a_repeated_block_has_the_slots_of_the_first_attempt() -> None:
    """Only complete blocks count, and these keep every arm's slots in balance."""
    bench = rig().bench()
    first, again = (run_block(bench, spec(HAND, ODD)) for _ in range(2))
    assert slots(first) == slots(again)
    assert order(first) != order(again)


@pytest.mark.parametrize("fixed", [False, True])
def test_a_biased_slot_favours_no_arm(monkeypatch: pytest.MonkeyPatch, *, fixed: bool) -> None:
    """A first slot that is 2 % slower leaves equal arms equal; fixed slots would not."""
    if fixed:
        monkeypatch.setattr(block_module, "slots_of", lambda *_: (0, 1))
    made = rig(
        truth=lambda _: Effect(capacity_per_s=6_000.0),
        noise=Noise(ar_sd=0.0, restart_sd=0.002, burst_probability=0.0),
        slot_bias=0.02,
    )
    bench = made.bench()
    d = []
    for index in range(8):
        block = run_block(bench, replace(spec(HAND, rounds=4), index=index))
        ours, theirs = (
            np.mean([math.log(w.stall_free.p50_us) for w in counted_windows(block, label)])
            for label in (BASELINE, "c1")
        )
        d.append(float(theirs - ours))
    found = estimate(d)
    assert (found.low <= 1 <= found.high) is not fixed
    assert found.ratio == pytest.approx(0.98 if fixed else 1.0, abs=0.005)


def test_the_first_window_of_a_fresh_instance_warms_up_longer() -> None:
    """Two instances, two rounds: time passes by the plan."""
    made = rig()
    before = made.host.now_s
    run_block(made.bench(), spec(HAND, rounds=2))
    deployed_s = 1.3
    assert made.host.now_s - before == pytest.approx(deployed_s + 4 * 0.5 + 2 * 0.2 + 2 * 0.1)


# --- what goes wrong ---------------------------------------------------------------------------


def refuse_small(values: Mapping[str, Value]) -> str:
    """Return a server that does not take a small size."""
    return 'nginx: [emerg] invalid "size" value in nginx.conf:7' if values["size"] == 64 else ""


def test_a_refused_configuration_does_not_keep_the_others_from_being_measured() -> None:
    """The server's words are in the record."""
    made = rig(faults=Faults(refuse=refuse_small))
    run_block(made.bench(), spec(ODD, HAND))
    (block,) = made.record().blocks
    states = {i.instance: (i.state, i.message) for i in block.instances}
    assert states["c1"] == ("refused", 'nginx: [emerg] invalid "size" value in nginx.conf:7')
    assert states["c2"] == states[BASELINE] == ("live", "")
    assert [sorted(names) for names in order(block)] == [[BASELINE, "c2"]] * 5


def test_a_block_of_refused_candidates_measures_nothing() -> None:
    """The baseline alone is compared with nobody."""
    made = rig(faults=Faults(refuse=refuse_small))
    block = run_block(made.bench(), spec(ODD))
    assert (block.state, block.windows, made.host.windows) == ("complete", (), 0)


def test_a_refused_baseline_stops_everything() -> None:
    """There is nothing to compare with; the message has the server's words."""
    made = rig(faults=Faults(refuse=lambda values: "no!" if not values["fast"] else ""))
    with pytest.raises(HostError, match="refuses the baseline itself: no!"):
        run_block(made.bench(), spec(HAND))


@pytest.mark.parametrize(
    ("faults", "words", "windows"),
    [
        (Faults(host_gone={0}), "the host does not answer", 0),
        (Faults(fails_to_start={(0, "c1")}), "c1 did not start: simulated", 0),
        (Faults(taken_ports={18_081}), "did not start: bind", 0),
        (Faults(generator_dies={3}), "the generator ended", 3),
    ],
)
def test_a_block_that_breaks_is_in_the_record_with_the_reason(
    faults: Faults, words: str, windows: int
) -> None:
    """Failed, with the windows that had ended."""
    made = rig(faults=faults)
    with pytest.raises((HostError, InstrumentError), match=words):
        run_block(made.bench(), spec(HAND))
    (block,) = made.record().blocks
    assert block.state == "failed"
    assert words in block.reason
    assert len(block.windows) == windows


@pytest.mark.parametrize(
    "faults",
    [
        Faults(host_gone={0}),
        Faults(fails_to_start={(0, "c1")}),
        Faults(generator_dies={7}),
        Faults(starved=range(10)),
    ],
    ids=["host gone", "did not start", "generator died", "generator starved"],
)
def test_a_block_is_repeated_when_the_host_or_the_instrument_failed(faults: Faults) -> None:
    """Nothing is held against the configurations; the failure is logged and kept."""
    made = rig(faults=faults)
    block = repeat_until_complete(made.bench(), spec(HAND))
    assert block.state == "complete"
    assert [b.state for b in made.record().blocks] in (
        ["failed", "complete"],
        ["invalid", "complete"],
    )
    assert "block repeated (1 of 3)" in made.progress.notes[0]


def test_a_host_that_stays_away_ends_the_study() -> None:
    """A host that stays away raises its last error after the limit of attempts."""
    made = rig(faults=Faults(host_gone=range(100)))
    with pytest.raises(HostError, match="does not answer"):
        repeat_until_complete(made.bench(), spec(HAND))
    assert len(made.record().blocks) == MOST_REPEATS


def test_a_host_that_does_not_answer_is_given_time() -> None:
    """Longer at every attempt, and not after the last; a server that fails is not waited for."""
    waited: list[float] = []
    made = rig(faults=Faults(host_gone=range(100)))
    with pytest.raises(HostError, match="does not answer"):
        repeat_until_complete(replace(made.bench(), pause=waited.append), spec(HAND))
    assert waited == [FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    made = rig(faults=Faults(fails_to_start={(0, "c1")}))
    repeat_until_complete(replace(made.bench(), pause=waited.append), spec(HAND))
    assert len(waited) == 2


def test_a_block_that_is_never_valid_says_so() -> None:
    """With how often it was tried and why it failed last."""
    made = rig(faults=Faults(starved=range(1_000)))
    with pytest.raises(InvalidBlockError, match=r"3 attempts.*could not keep up"):
        repeat_until_complete(made.bench(), spec(HAND))
    assert counted(len(made.record().blocks), "block") == "3 blocks"


def test_ctrl_c_keeps_what_was_measured() -> None:
    """The block is closed as interrupted, with its windows."""
    made = rig(faults=Faults(interrupted={4}))
    with pytest.raises(Interrupted):
        repeat_until_complete(made.bench(), spec(HAND))
    (block,) = made.record().blocks
    assert (block.state, block.reason, len(block.windows)) == ("failed", "interrupted", 4)


def test_an_invalid_window_says_that_the_server_waited_for_its_core() -> None:
    """A long wait for the core that the server does not explain is added to an invalid window."""
    readings = itertools.count()

    def read(pids: Sequence[int], behind: Sequence[int]) -> CounterReading:
        assert behind == ()
        now = next(readings)
        waited = ProcessCounters(0.0, 0.0, 1, 1, 0, 0, None, None, None, 1, queued_s=0.3 * now)
        return CounterReading(now, dict.fromkeys(pids, waited), HostCounters(0, 0, 0, 0, 0.0))

    made = rig(faults=Faults(failing={3}))
    bench = replace(made.bench(), read_counters=read)
    block = run_block(bench, spec(HAND))
    words = (
        "something else ran on the server's cores for 300 ms, and the server may have waited for it"
    )
    (wrong,) = [window for window in block.windows if not window.valid]
    assert wrong.invalid[-1] == words
    for window in made.record().blocks[0].windows:
        assert window.resources is not None
        assert window.resources.server is not None
        assert window.resources.server.foreign_s == pytest.approx(0.3)


def test_a_window_that_a_quota_throttled_is_invalid_and_names_it() -> None:
    """The quota is at fault, not the configuration, even if requests failed in the window."""
    windows = itertools.count()

    def read(pids: Sequence[int], behind: Sequence[int]) -> CounterReading:
        assert (bool(pids), behind) == (True, ())
        # Two readings for each window; the quota is used up in the fourth one.
        late = next(windows) > 6
        host = HostCounters(0, 0, 0, 0, 0.0)
        used = Throttling(0.5, 12 if late else 7, 0.9 if late else 0.4)
        return CounterReading(0.0, {}, host, throttling={"/shop": used})

    made = rig(faults=Faults(failing={3}))
    bench = replace(made.bench(), read_counters=read)
    (wrong,) = [w for w in run_block(bench, spec(HAND)).windows if not w.valid]
    assert wrong.invalid[0] == (
        "the CPU quota of 0.5 CPUs of the control group /shop throttled it in 5 periods,"
        " for 500 ms; raise the quota, or lower --rate"
    )
    assert not wrong.bad
    assert wrong.resources is not None
    assert wrong.resources.throttling["/shop"].periods == 5
    found = quota.warning(window for block in made.record().blocks for window in block.windows)
    assert found.startswith("a CPU quota throttled 1 of 10 windows (0.5 CPUs of /shop)")


# --- validity ----------------------------------------------------------------------------------


def test_a_round_with_an_invalid_window_is_measured_again_for_all_arms() -> None:
    """The disturbed round counts for nobody; a fresh one takes its place."""
    made = rig(faults=Faults(failing={3}))
    block = run_block(made.bench(), spec(HAND, needs_all=True))
    assert block.state == "complete"
    assert len(block.windows) == 2 * (5 + 1)
    assert [w.round for w in counted_windows(block, "c1")] == [0, 2, 3, 4, 5]


def test_a_block_that_would_need_too_many_rounds_again_is_invalid() -> None:
    """More than a quarter of its rounds; it ends there, since more windows would be a waste."""
    made = rig(faults=Faults(failing={1, 3, 5}))
    block = run_block(made.bench(), spec(HAND, needs_all=True))
    assert block.state == "invalid"
    assert len(block.windows) == 2 * 3
    assert "requests failed (status" in block.reason


def test_rounds_that_the_host_spoilt_are_measured_again_more_often() -> None:
    """Stalls leave too few samples in half of them; a patient block goes on until enough count."""

    def measured(*, patient: bool) -> Block:
        made = rig(seed=6, stalls=SimulatedStalls(per_s=200.0, mean_us=10_000.0))
        bench = replace(made.bench(), gates=Gates(samples_needed=135))
        return run_block(bench, replace(spec(HAND, needs_all=True), patient=patient))

    strict, patient = measured(patient=False), measured(patient=True)
    assert strict.state == "invalid"
    assert 2 * 3 <= len(strict.windows) <= 2 * 5, "at most two of five rounds may be invalid"
    assert patient.state == "complete"
    assert len({w.round for w in patient.windows}) > 5 + 2
    assert all(w.lacking for w in patient.windows if not w.valid)


def test_a_patient_block_repeats_no_more_failures_of_an_arm_than_others() -> None:
    """They are not the host's doing."""
    made = rig(faults=Faults(failing={1, 3, 5}))
    block = run_block(made.bench(), replace(spec(HAND, needs_all=True), patient=True))
    assert (block.state, len(block.windows)) == ("invalid", 2 * 3)


def test_an_invalid_window_of_a_candidate_spoils_no_search_block() -> None:
    """Only the baseline's do, and only if most of its windows are invalid."""
    bad = {w.window_id for w in _windows(rig(faults=Faults(failing={3})), HAND) if not w.valid}
    assert len(bad) == 1
    made = rig(faults=Faults(failing=range(1_000)))
    assert run_block(made.bench(), spec(HAND)).state == "invalid"


def _windows(made: Rig, *others: Configuration) -> Sequence[Measurement]:
    block = run_block(made.bench(), spec(*others))
    assert block.state == "complete"
    return block.windows


def test_gates_and_stall_rule_come_from_the_bench() -> None:
    """The same for every arm."""
    bench = replace(rig().bench(), gates=Gates(samples_needed=5_000))
    block = run_block(bench, spec(HAND, needs_all=True))
    assert "5,000 are needed" in block.reason


# --- leaving early -----------------------------------------------------------------------------


def test_a_dropped_instance_is_measured_no_more_and_the_reason_is_kept() -> None:
    """The others go on to the end."""
    made = rig()

    def drop(windows: Sequence[Measurement]) -> Mapping[str, str]:
        return {"c1": "hopeless"} if windows[-1].round >= 2 else {}

    run_block(made.bench(), spec(HAND, ODD), drop)
    (block,) = made.record().blocks
    states = {i.instance: (i.state, i.message) for i in block.instances}
    assert states["c1"] == ("dropped", "hopeless")
    counts = [sum(w.instance == label for w in block.windows) for label in (BASELINE, "c2")]
    assert counts == [5, 5]
    assert sum(w.instance == "c1" for w in block.windows) in (2, 3)


def test_a_block_without_candidates_is_over() -> None:
    """The baseline is not measured for its own sake."""
    made = rig()
    block = run_block(made.bench(), spec(HAND), lambda _: {"c1": "hopeless"})
    assert len(block.windows) == 1


def test_the_record_says_how_much_of_the_block_was_measuring() -> None:
    """Optuna's value of a block is the share of its time spent in windows."""
    import optuna

    made = rig()
    run_block(made.bench(), spec(HAND, rounds=2))
    study = optuna.load_study(study_name="simulated/blocks", storage=made.storage)
    assert study.trials[0].value == pytest.approx(4 * 0.5 / (1.3 + 4 * 0.5 + 2 * 0.2 + 2 * 0.1))
    assert len(blocks(made.record(), "search", "complete")) == 1


# --- stalls that depend on the arm --------------------------------------------------------------


class OneArmStalls(SimulatedHost):
    """A host on which only the windows of one instance stall, as if its own work were a stall."""

    def _stalls(self, spec: WindowSpec) -> tuple[Span, ...]:
        return super()._stalls(spec) if spec.instance == "c1" else ()


def test_stalls_of_one_arm_make_a_claims_block_invalid() -> None:
    """Stalls of one arm over twelve rounds invalidate the block; the reason names the arm."""
    made = rig()
    made.host = OneArmStalls(stalls=SimulatedStalls(), most_samples=2_000)
    block = run_block(made.bench(), spec(HAND, rounds=12, needs_all=True))
    assert block.state == "invalid"
    assert "more than chance allows" in block.reason
    assert "most in c1" in block.reason
    assert "they depend on what is measured" in block.reason


def test_a_study_that_keeps_stalls_is_not_asked_for_their_arms() -> None:
    """Without the rule nothing is left out, so nothing can favour an arm; spans are kept."""
    made = rig()
    made.host = OneArmStalls(stalls=SimulatedStalls(), most_samples=2_000)
    bench = replace(made.bench(), rule=None)
    block = run_block(bench, spec(HAND, rounds=12, needs_all=True))
    assert block.state == "complete"
    assert any(window.server_spans or window.generator_spans for window in block.windows)
    assert all(window.excluded_share == 0 for window in block.windows)


def test_stalls_of_the_host_and_blocks_of_the_search_are_left_alone() -> None:
    """Equal stalls are not a reason, and the search claims nothing that they could spoil."""
    equal = rig(stalls=SimulatedStalls(), most_samples=2_000)
    assert run_block(equal.bench(), spec(HAND, rounds=12, needs_all=True)).state == "complete"
    made = rig()
    made.host = OneArmStalls(stalls=SimulatedStalls(), most_samples=2_000)
    assert run_block(made.bench(), spec(HAND, rounds=12)).state == "complete"
