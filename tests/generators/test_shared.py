"""Several generators with one load: an agreed start, one window, and the one at fault is named."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from tests.measurement.windows import GATES, raw_window
from tests.phases.rig import WORKLOAD
from tuner.errors import InstrumentError
from tuner.generators.generator import (
    Endpoint,
    Next,
    Slices,
    WindowPlan,
    WindowSpec,
    members_of,
)
from tuner.generators.shared import Member, SharedGenerator
from tuner.measurement.clocks import ClockReading
from tuner.measurement.measuring import measure
from tuner.measurement.window import RawWindow, Samples

MS = 1_000_000
SECOND = 1_000 * MS
SPECS = tuple(WindowSpec(f"{n:02d}-one", "one", "open", 10.0, 1, 0.2, 1.0) for n in range(3))
PLAN = WindowPlan(WORKLOAD, (Endpoint("one", "127.0.0.1:1"),), SPECS)


@dataclass
class Fake:
    """A generator on a host with a clock of its own, and what may be wrong with it."""

    ahead_ns: int = 0
    """Its clock minus ours."""
    count: int = len(SPECS)
    """Windows after which it reports the end of the plan."""
    dies_in: int = -1
    """Window in which it ends without a word."""
    late_ns: int = 0
    """Time after the wanted start at which it begins its first window."""
    jumps_ns: int = 0
    """Time by which its clock is set in the first window."""
    name: str = "tuner-loadgen 1.0"
    starts_ns: list[int] = field(default_factory=list)
    answers: list[Sequence[Next]] = field(default_factory=list)
    is_running: bool = False
    measured: int = 0

    def read_clock(self) -> ClockReading:
        """Read the clock within 0.2 ms."""
        now = time.monotonic_ns()
        set_by_ns = self.jumps_ns if self.measured else 0
        return ClockReading(now - MS // 10, now + self.ahead_ns + set_by_ns, now + MS // 10)

    def ready(self) -> bool:
        """Have the connections open."""
        return self.measured < self.count

    def start(self, monotonic_ns: int) -> None:
        """Receive the start."""
        self.starts_ns.append(monotonic_ns)

    def touch(self) -> None:
        """Be alive."""

    def go_on(self, answers: Sequence[Next]) -> None:
        """Receive the decision."""
        self.answers.append(answers)

    def windows(self) -> list[RawWindow]:
        """Report a window."""
        number = self.measured
        if number == self.dies_in:
            raise InstrumentError("tuner-loadgen ended too early: killed")
        self.measured += 1
        spec = SPECS[number]
        late_ns = self.late_ns if not number else 0
        return [
            raw_window(
                window_id=spec.window_id,
                started_monotonic_ns=self.starts_ns[-1] + 200 * MS + late_ns,
            )
        ]


@dataclass
class Native:
    """A fake as a native generator."""

    fake: Fake

    @property
    def name(self) -> str:
        """Return the program's name."""
        return self.fake.name

    @contextlib.contextmanager
    def running(self, plan: WindowPlan) -> Iterator[Fake]:
        """Run the plan."""
        assert plan is PLAN
        self.fake.is_running = True
        try:
            yield self.fake
        finally:
            self.fake.is_running = False


def shared(*fakes: Fake) -> SharedGenerator:
    """Return the generators load1, load2 and so on."""
    return SharedGenerator(
        [
            Member(f"load{number}", Native(fake), fake.read_clock)  # type: ignore[arg-type]
            for number, fake in enumerate(fakes, 1)
        ]
    )


def run(generator: SharedGenerator, answer: Next = Next()) -> list[RawWindow]:  # noqa: B008
    """Measure the plan; return the windows."""
    found: list[RawWindow] = []

    def keep(raw: RawWindow) -> Next:
        found.append(raw)
        return answer

    generator.run(PLAN, keep)
    return found


def test_all_begin_at_one_instant_in_the_time_of_each() -> None:
    """To within the error of the clocks, and in the future of all of them."""
    fakes = (Fake(5 * SECOND), Fake(-3 * SECOND), Fake())
    begun = time.monotonic_ns()
    assert len(run(shared(*fakes))) == 3
    for number in range(3):
        common = [fake.starts_ns[number] - fake.ahead_ns for fake in fakes]
        assert max(common) - min(common) <= MS // 5
        assert min(common) > begun


def test_a_window_is_that_of_all_with_the_error_of_their_clocks() -> None:
    """Requests of both are in it; the guard is half a round trip and what drift may add."""
    first, *_ = run(shared(Fake(), Fake(SECOND)))
    assert isinstance(first.samples, Samples)
    assert first.offered == len(first.samples.outcome) == 200
    assert [source.name for source in first.sources] == ["load1", "load2"]
    assert MS // 10 <= first.guard_ns <= MS
    assert measure(first, None, GATES).valid


def test_what_is_decided_after_a_window_holds_for_all() -> None:
    """Each generator skips the same windows."""
    fakes = (Fake(), Fake())
    answer = Next(drop=("other",))
    run(shared(*fakes), answer)
    assert fakes[0].answers == fakes[1].answers == [[answer]] * 3


def test_one_that_begins_late_makes_the_window_invalid() -> None:
    """The reason names it, and the next agreement leaves more time."""
    generator = shared(Fake(), Fake(late_ns=7 * MS), Fake())
    before = generator._lead_s
    first, second, _ = run(generator)
    found = measure(first, None, GATES)
    assert found.invalid == ("the generator load2 began 7.0 ms late: the line came too late",)
    assert not found.bad
    assert measure(second, None, GATES).valid
    assert generator._lead_s == 2 * before


def test_one_whose_clock_was_set_makes_the_window_invalid() -> None:
    """Nobody knows when its requests were due."""
    first, *_ = run(shared(Fake(), Fake(jumps_ns=SECOND)))
    (reason,) = measure(first, None, GATES).invalid
    assert reason.startswith("load2: the clock moved by 1000")


@pytest.mark.parametrize("dies_in", [0, 1])
def test_one_that_dies_is_named_and_the_others_end(dies_in: int) -> None:
    """With its own words; the windows before it are measured."""
    fakes = (Fake(), Fake(dies_in=dies_in), Fake())
    with pytest.raises(InstrumentError, match="the generator load2: tuner-loadgen ended too early"):
        run(shared(*fakes))
    assert [len(fake.answers) for fake in fakes] == [dies_in] * 3
    assert not any(fake.is_running for fake in fakes)


def test_one_that_ends_before_the_others_is_an_error() -> None:
    """Its part of the load would be missing."""
    with pytest.raises(InstrumentError, match="load2: tuner-loadgen ended before the others"):
        run(shared(Fake(), Fake(count=1)))


def test_a_load_that_cannot_be_divided_is_refused() -> None:
    """Every generator needs a connection."""
    generator = shared(Fake(), Fake(), Fake())
    assert not generator.refuses(replace(WORKLOAD, connections=3), "open")
    assert "cannot divide 2 between 3 generators" in generator.refuses(
        replace(WORKLOAD, connections=2), "open"
    )


def test_slices_are_refused() -> None:
    """A study that began with one generator cannot be resumed with several."""
    spec = replace(SPECS[0], slices=Slices(("one", "other"), 20.0))
    with pytest.raises(InstrumentError, match="cannot measure arms in slices"):
        shared(Fake(), Fake()).run(replace(PLAN, windows=(spec,)), lambda _: Next())


def test_its_name_has_every_host() -> None:
    """For the report; a program that differs is seen."""
    assert shared(Fake(), Fake()).name == "tuner-loadgen 1.0 on load1, load2"
    odd = shared(Fake(), Fake(name="tuner-loadgen 0.9"))
    assert odd.name == "tuner-loadgen 1.0 + tuner-loadgen 0.9 on load1, load2"
    assert members_of(odd) == ("load1", "load2")


def test_a_clock_that_is_known_badly_is_refused_before_the_start() -> None:
    """The host is named."""
    slow = Fake()

    def read_clock() -> ClockReading:
        now = time.monotonic_ns()
        return ClockReading(now - 30 * MS, now, now + 30 * MS)

    members = [
        Member("load1", Native(Fake()), Fake().read_clock),  # type: ignore[arg-type]
        Member("load2", Native(slow), read_clock),  # type: ignore[arg-type]
    ]
    with pytest.raises(InstrumentError, match="load2: its clock is known to 30 ms only"):
        SharedGenerator(members).clock_error_ns()
    assert 0 < shared(Fake(), Fake()).clock_error_ns() < MS


def test_the_instants_of_two_seconds_are_not_mixed() -> None:
    """Merged requests are in the order in which they were due."""
    for raw in run(shared(Fake(), Fake())):
        assert isinstance(raw.samples, Samples)
        assert (np.diff(raw.samples.intended_ns) >= 0).all()
