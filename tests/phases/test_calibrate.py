"""Calibration: the baseline's capacity, the load point, and what identical arms differ by."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from tests.measurement.windows import window
from tests.phases.rig import GetsNoisy, Notes, Rig, all_the_same, blocks, rig
from tuner.errors import HostError, InstrumentError
from tuner.generators.generator import Next, WindowPlan
from tuner.judge.forecast import Question
from tuner.judge.history import aa_spreads
from tuner.judge.load_point import Capacity, load_point, lower
from tuner.judge.overhead import overhead
from tuner.judge.plan import Budget
from tuner.machine.facts import CoreSplit
from tuner.measurement.window import RawWindow
from tuner.phases.bench import Bench
from tuner.phases.calibrate import measure_capacity
from tuner.phases.contest import quick_calibration
from tuner.phases.probe import sampling_of
from tuner.phases.repeat import MOST_REPEATS
from tuner.phases.study import Calibrated, StudySpec, calibrate
from tuner.reading.located import parse_duration_s
from tuner.stats.power import minimum_detectable_effect
from tuner.testing.lab import Effect, Faults, SimulatedGenerator, SimulatedHost, Truth
from tuner.testing.simulate import Noise


def test_the_load_point_is_seventy_per_cent_of_the_baselines_capacity() -> None:
    """Rounded to two digits, so that it can be said and offered again.

    Here the closed loop leaves the core idle for most of the time, so its load says nothing.
    """
    made = rig()
    found = calibrate(made.bench(), made.spec).calibration
    assert found.capacity_per_s == pytest.approx(4_000, rel=0.05)
    assert found.rate_per_s == 2_800
    share, busy = found.rate_per_s / found.capacity_per_s, found.busy_share
    assert found.rate_source == (
        f"{share:.0%} of the baseline's capacity; its core is {busy:.0%} busy in slow seconds"
    )
    assert share == pytest.approx(0.7, abs=0.02)
    assert {w.rate_per_s for b in blocks(made.record(), "aa") for w in b.windows} == {2_800.0}


def test_a_slow_servers_capacity_is_measured_for_longer() -> None:
    """At 160 answers a second, 200 of them take 1.25 s; its 32 requests in flight take 0.2 s."""
    made = rig(truth=lambda _: Effect(capacity_per_s=160.0))
    bench = made.bench()
    assert bench.workload.requests_in_flight == 32
    measure_capacity(bench, bench.baseline)
    short, long = blocks(made.record(), "capacity")
    assert {window.duration_s for window in short.windows} == {0.5}
    assert [window.duration_s for window in long.windows] == pytest.approx([1.25] * 6, rel=0.2)


def test_a_given_rate_is_offered_as_it_is() -> None:
    """A rate given by --rate is offered unchanged, and its share of the capacity is reported."""
    made = rig(rate_per_s=1_234.0)
    found = calibrate(made.bench(), made.spec).calibration
    assert found.rate_per_s == 1_234
    assert found.rate_source.startswith("--rate, 3")


def test_aa_blocks_hold_the_baseline_and_its_twins() -> None:
    """Identical configurations along the very path of the candidates."""
    made = rig()
    calibrate(made.bench(), made.spec)
    aa = blocks(made.record(), "aa", "complete")
    assert len(aa) == 3
    for block in aa:
        assert [i.instance for i in block.instances] == ["baseline", "twin1", "twin2"]
        assert len({i.digest for i in block.instances}) == 1


def test_the_noise_is_what_the_host_truly_has() -> None:
    """Starts that differ by 5 % give differences of 7 %, within the error of 36 degrees."""
    noise = Noise(ar_sd=0.0, restart_sd=0.05, burst_probability=0.0)
    found = [
        calibrate(made.bench(), made.spec).calibration
        for made in (
            rig(noise=noise, seed=seed, truth=all_the_same, time_s=240.0) for seed in range(6)
        )
    ]
    assert {c.degrees_of_freedom for c in found} == {6}
    pooled = math.sqrt(sum(c.sigma_d**2 for c in found) / len(found))
    # 36 degrees of freedom: 23 % either way in 95 of 100 such tests, and some sampling noise.
    assert pooled == pytest.approx(0.05 * math.sqrt(2), rel=0.3)
    assert all(c.sigma_d_upper > c.sigma_d for c in found)


def test_a_noisy_host_needs_more_blocks_and_detects_less() -> None:
    """The number is fixed from the noise, as far as the time allows."""
    quiet, noisy = (rig(noise=Noise(restart_sd=sd), time_s=3_600) for sd in (0.001, 0.06))
    few, many = (calibrate(made.bench(), made.spec) for made in (quiet, noisy))
    assert many.confirm_blocks > few.confirm_blocks >= 6
    assert many.calibration.minimum_detectable_effect > few.calibration.minimum_detectable_effect


def test_the_notes_state_what_is_seen_and_claimed_and_how_long_a_finer_claim_takes() -> None:
    """By the verdict's own rule at the noise's upper limit; the time is that of a fine claim."""
    made = rig(noise=Noise(ar_sd=0.0, restart_sd=0.05, burst_probability=0.0), time_s=600.0)
    ready = calibrate(made.bench(), made.spec)
    found, margin = ready.calibration, ready.bench.goals.margin
    seen = minimum_detectable_effect(found.sigma_d_upper, ready.confirm_blocks)
    assert found.minimum_detectable_effect == seen
    claimed = minimum_detectable_effect(found.sigma_d_upper, ready.confirm_blocks, margin)
    power, longer = made.progress.notes[-2:]
    assert power == (
        f"with 80 % probability it sees a change of {seen:.1%}, and claims one of {claimed:.1%}"
        " (margin 3.0%)"
    )
    assert longer.startswith("to claim 5% the study needs about ")
    needed_s = parse_duration_s(longer.rpartition("--time ")[2])
    plan = Question(
        ready.bench.goals,
        found.rate_per_s,
        overhead=overhead(made.record()),
        sampling=sampling_of(found, ready.bench),
    ).plan_in_time(needed_s)
    there = Budget(needed_s).confirm_blocks(plan)
    assert minimum_detectable_effect(found.sigma_d_upper, there, margin) <= made.spec.effect


def test_a_study_that_claims_what_is_wanted_asks_for_no_more_time() -> None:
    """On a quiet host the claimable change is small enough."""
    quiet = Noise(ar_sd=0.0, restart_sd=0.002, burst_probability=0.0)
    made = rig(noise=quiet, time_s=1_200.0)
    calibrate(made.bench(), made.spec)
    assert any(note.startswith("with 80 % probability it sees") for note in made.progress.notes)
    assert not any(note.startswith("to claim") for note in made.progress.notes)


def test_a_host_of_any_noise_is_calibrated() -> None:
    """Noise decides what can be claimed, not whether the study may go on."""
    made = rig(noise=Noise(restart_sd=0.7), rate_per_s=500.0)
    ready = calibrate(made.bench(), made.spec)
    assert ready.confirm_blocks >= 6
    assert ready.calibration.minimum_detectable_effect > 0.5


def test_calibration_is_not_done_twice() -> None:
    """A resumed study takes it from the record: the same plan, and no block more."""
    made = rig()
    first = calibrate(made.bench(), made.spec)
    before = made.host.windows
    again = calibrate(made.bench(), made.spec)
    assert made.host.windows == before
    assert again.calibration == first.calibration
    assert (again.plan, again.confirm_blocks) == (first.plan, first.confirm_blocks)
    assert (again.bench.gates, again.bench.rule) == (first.bench.gates, first.bench.rule)


def test_gates_and_stall_rule_fit_the_load_point() -> None:
    """The gate demands what a window can hold; the level of busy cycles is the probe's."""
    made = rig()
    ready = calibrate(made.bench(), made.spec)
    assert ready.bench.gates.samples_needed == ready.plan.samples_needed
    assert ready.bench.rule is not None
    assert ready.bench.rule.level == ready.calibration.level
    assert ready.plan.confirm.slice_ms == ready.calibration.slice_ms > 0


def test_throughput_is_saturation_and_has_no_stall_rule_to_adapt() -> None:
    """All windows are closed loops."""
    made = rig(objective="throughput")
    calibrate(made.bench(), made.spec)
    assert {w.mode for b in made.record().blocks for w in b.windows} == {"closed"}


@dataclass(frozen=True, slots=True)
class Promising(SimulatedGenerator):
    """A generator whose closed loop flatters the server."""

    factor: float = 1.0

    def run(self, plan: WindowPlan, after: Callable[[RawWindow], Next]) -> None:
        """Implement ``LoadGenerator.run``."""

        def flattered(raw: RawWindow) -> Next:
            if raw.mode == "closed":
                raw = replace(raw, completed=round(self.factor * raw.completed))
            return after(raw)

        SimulatedGenerator(self.host).run(plan, flattered)


def test_a_load_point_that_the_baseline_does_not_hold_is_lowered() -> None:
    """70 % of a flattering capacity is too much: four fifths of it are tried next."""
    made = rig(truth=all_the_same)
    bench = replace(made.bench(), generator=Promising(made.host, factor=1.6))
    found = calibrate(bench, made.spec).calibration
    assert found.rate_per_s == 3_500
    assert "lowered because the baseline did not keep up there" in found.rate_source
    assert any("trying 3,500/s" in note for note in made.progress.notes)


def fills_its_core(factor: float) -> Truth:
    """Return the truth of a server that needs this times the CPU time in an open loop."""
    return lambda _: Effect(capacity_per_s=4_000.0, cpu_us=245.0, open_loop_cpu=factor)


@pytest.mark.parametrize(
    ("factor", "rate", "share"), [(1.18, 2_400, 0.70), (1.0, 2_800, 0.69), (0.8, 3_500, 0.69)]
)
def test_a_closed_loop_that_misleads_does_not_move_the_load(
    factor: float, rate: float, share: float
) -> None:
    """Whatever 70 % of the capacity takes of the core, the study begins where it is 70 % busy."""
    made = rig(truth=fills_its_core(factor))
    found = calibrate(made.bench(), made.spec).calibration
    assert found.rate_per_s == pytest.approx(rate, rel=0.04)
    assert found.busy_share == pytest.approx(share, abs=0.03)
    assert f"; its core is {found.busy_share:.0%} busy in slow seconds" in found.rate_source
    assert {w.rate_per_s for b in blocks(made.record(), "aa") for w in b.windows} == {
        found.rate_per_s
    }
    kept = made.record().calibration
    assert kept is not None
    assert kept.busy_share == found.busy_share
    assert any(note.startswith(f"load point {found.rate_per_s:,.0f}/s") for note in _notes(made))


def test_a_rate_that_moved_up_too_far_is_left_again() -> None:
    """The baseline fails there, so the study stays at the rate that it held."""
    made = rig(truth=fills_its_core(0.6))
    flattered = Promising(made.host, factor=1.35)
    found = calibrate(replace(made.bench(), generator=flattered), made.spec).calibration
    assert found.rate_per_s == 3_700
    assert any("staying at 3,700/s" in note for note in _notes(made))


def test_the_load_of_a_given_rate_is_stated_and_kept() -> None:
    """Its core is far from 70 % busy, and nothing moves."""
    made = rig(truth=fills_its_core(1.0), rate_per_s=1_000.0)
    found = calibrate(made.bench(), made.spec).calibration
    assert found.rate_per_s == 1_000
    assert found.busy_share == pytest.approx(0.245, abs=0.02)


def _notes(made: Rig) -> list[str]:
    return made.progress.notes


def test_a_host_that_gets_noisy_after_the_probe_is_calibrated_all_the_same() -> None:
    """The A/A blocks show what a request is worth there, and the plan follows them."""
    made = rig(truth=all_the_same)
    made.progress = GetsNoisy(host=made.host, at="A/A")
    ready = calibrate(made.bench(), made.spec)
    states = [block.state for block in blocks(made.record(), "aa")]
    assert states == ["invalid"] * MOST_REPEATS + ["complete"] * ready.plan.aa_blocks
    assert 0.1 < ready.calibration.effective_share < 0.5
    assert any("trying again with what these windows show" in note for note in made.progress.notes)


@dataclass
class ChangesAtAA(Notes):
    """Progress of a host where the server changes with each set of A/A blocks."""

    host: SimulatedHost = field(default_factory=SimulatedHost)
    truths: deque[Truth] = field(default_factory=deque)
    """The server's effects from each set of A/A blocks on; the last one stays."""

    def phase(self, title: str, expected_s: float) -> None:
        """Implement ``Progress.phase``."""
        super().phase(title, expected_s)
        if "A/A" in title and self.truths:
            self.host.truth = self.truths.popleft()


@pytest.mark.parametrize("calibrated", [calibrate, quick_calibration])
def test_a_host_that_gets_slower_after_the_probe_is_calibrated_all_the_same(
    calibrated: Callable[[Bench, StudySpec], Calibrated],
) -> None:
    """A study and a search for a contest try a lower load point."""
    made = rig(truth=lambda _: Effect(capacity_per_s=4_000.0))
    slower = Effect(capacity_per_s=2_500.0)
    made.progress = ChangesAtAA(host=made.host, truths=deque([lambda _: slower]))
    ready = calibrated(made.bench(), made.spec)
    states = [block.state for block in blocks(made.record(), "aa")]
    assert states == ["invalid"] * MOST_REPEATS + ["complete"] * ready.plan.aa_blocks
    assert ready.calibration.rate_per_s == 2_200
    assert any("trying 2,200/s" in note for note in made.progress.notes)


@pytest.mark.parametrize("calibrated", [calibrate, quick_calibration])
def test_a_host_whose_slow_seconds_come_after_the_probe_gets_a_lower_rate(
    calibrated: Callable[[Bench, StudySpec], Calibrated],
) -> None:
    """The baseline keeps up, but near saturation most of its p99 is the noise of the core."""
    made = rig(truth=fills_its_core(1.0))
    made.progress = ChangesAtAA(host=made.host, truths=deque([fills_its_core(1.25)]))
    ready = calibrated(made.bench(), made.spec)
    found = ready.calibration
    assert found.rate_per_s == pytest.approx(2_800 * 0.7 / 0.86, rel=0.05)
    assert found.busy_share == pytest.approx(0.7, abs=0.04)
    assert "lowered because the host became slower" in found.rate_source
    measured = blocks(made.record(), "aa")
    rates = [{window.rate_per_s for window in block.windows} for block in measured]
    assert rates == [{2_800.0}] * ready.plan.aa_blocks + [{found.rate_per_s}] * ready.plan.aa_blocks
    spreads = aa_spreads(made.record(), ready.bench.objective)
    assert len(spreads) == ready.plan.aa_blocks * ready.plan.aa_instances


def test_a_lower_rate_that_the_host_spoils_is_left_again() -> None:
    """The A/A blocks at the higher rate are valid, and the study continues with them."""
    made = rig(truth=fills_its_core(1.0))
    stuck = Effect(capacity_per_s=100.0)
    truths = deque([fills_its_core(1.25), lambda _: stuck])
    made.progress = ChangesAtAA(host=made.host, truths=truths)
    ready = calibrate(made.bench(), made.spec)
    assert ready.calibration.rate_per_s == 2_800
    assert any("staying at 2,800/s" in note for note in _notes(made))
    assert len(aa_spreads(made.record(), ready.bench.objective)) > 0


def test_a_given_rate_is_never_lowered() -> None:
    """The user asked for it; that the baseline does not hold it is the answer."""
    made = rig(rate_per_s=9_000.0)
    with pytest.raises(HostError, match="achieved less than offered"):
        calibrate(made.bench(), made.spec)


@dataclass(frozen=True, slots=True)
class Busy(SimulatedGenerator):
    """A generator that is the bottleneck."""

    def run(self, plan: WindowPlan, after: Callable[[RawWindow], Next]) -> None:
        """Implement ``LoadGenerator.run``."""

        def busy(raw: RawWindow) -> Next:
            if raw.mode == "closed":
                raw = replace(raw, generator_busy_share=0.99, server_cpu_s=0.5 * raw.duration_s)
            return after(raw)

        SimulatedGenerator(self.host).run(plan, busy)


def test_a_generator_that_is_the_bottleneck_is_reported() -> None:
    """The server can do more than was measured; the calibration warns of it."""
    made = rig()
    found = calibrate(replace(made.bench(), generator=Busy(made.host)), made.spec).calibration
    assert found.generator_bound
    assert "the generator was the bottleneck" in found.warnings[0]


def of_cores(cores: int, generator_per_s: float) -> Rig:
    """Return a host whose server answers 8,000 requests/s on each core."""
    effect = Effect(capacity_per_s=8_000.0 * cores, cpu_us=125.0)
    return rig(
        truth=lambda _: effect,
        cores=cores,
        server_cores=cores,
        generator_per_s=generator_per_s,
    )


@pytest.mark.parametrize("cores", [4, 16, 64])
def test_any_number_of_cores_is_busy_as_wanted(cores: int) -> None:
    """A generator that is fast enough finds the load point of the server."""
    made = of_cores(cores, generator_per_s=30_000.0 * cores)
    found = calibrate(made.bench(), made.spec).calibration
    assert not found.generator_bound
    assert found.busy_share == pytest.approx(0.7, abs=0.04)
    assert found.rate_per_s == pytest.approx(0.7 * 8_000 * cores, rel=0.06)
    assert f"its {cores} cores are" in found.rate_source


@pytest.mark.parametrize("cores", [4, 16, 64])
def test_a_generator_slower_than_many_cores_is_reported(cores: int) -> None:
    """The load point is what it can offer, with the true busy share and a way out."""
    made = of_cores(cores, generator_per_s=20_000.0)
    found = calibrate(made.bench(), made.spec).calibration
    assert found.generator_bound
    assert found.capacity_per_s == pytest.approx(20_000)
    assert found.rate_per_s <= 18_000
    assert found.busy_share == pytest.approx(found.rate_per_s / (8_000 * cores), rel=0.05)
    assert "--generator-cpus" in found.warnings[0]


def test_a_server_that_answers_next_to_nothing_cannot_be_measured() -> None:
    """The message has the figure."""
    with pytest.raises(InstrumentError, match=r"0\.50 requests/s, too few"):
        load_point(Capacity(0.5, generator_bound=False), None)


def test_a_window_without_an_answer_leaves_no_capacity() -> None:
    """There is no throughput to plan with; invalid windows do not count."""
    answered, silent = (window("baseline", n, 100.0, completed=n) for n in (100, 0))
    cores = CoreSplit((0,), (1,), (), shared=False)
    assert Capacity.of([answered, silent], cores) is None
    assert Capacity.of([answered, replace(silent, invalid=("stalls",))], cores) is not None
    assert Capacity.of([], cores) is None


@pytest.mark.parametrize(
    ("capacity", "rate"), [(4_000, 2_800), (4_123, 2_900), (51_234, 36_000), (17, 12), (5, 4)]
)
def test_load_points_have_two_digits(capacity: float, rate: float) -> None:
    """A load point has two significant digits at any magnitude."""
    assert load_point(Capacity(capacity, generator_bound=False), None).rate_per_s == rate


def test_lowering_twice_is_said_once() -> None:
    """The source stays readable."""
    first = lower(load_point(Capacity(1_430.0, generator_bound=False), None))
    assert first.rate_per_s == 800
    assert lower(first).rate_per_s == 640
    assert lower(first).source.count("lowered") == 1


def test_a_host_that_is_gone_ends_the_calibration() -> None:
    """Nothing is written as if it had been measured."""
    made = rig(faults=Faults(host_gone=range(1, 100)))
    with pytest.raises(HostError, match="does not answer"):
        calibrate(made.bench(), made.spec)
    assert made.record().calibration is None
