"""The busy share of the server's cores, and the generator as the limit of a closed loop."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.measurement.windows import window
from tuner.machine.facts import CoreSplit
from tuner.measurement.bottleneck import (
    busy_share,
    busy_share_in_slow_seconds,
    generator_is_limit,
)
from tuner.measurement.resources import ProcessUsage, Resources
from tuner.measurement.window import Measurement

ONE = CoreSplit((0,), (1,), (), shared=False)
BEHIND = ProcessUsage(0.5, 0.1, 0.0, 0, 0, 0, None, None, None, 1)
"""0.6 s of CPU time in 2 s of load."""


@pytest.mark.parametrize(
    ("busy", "share", "limit"),
    [(0.99, 0.5, True), (0.99, 0.95, False), (0.90, 0.5, False), (0.99, None, False)],
)
def test_the_generator_is_the_limit(busy: float, share: float | None, limit: bool) -> None:
    """A busy generator is the limit if the server has idle CPUs."""
    windows = [window("baseline", n, 100.0, generator_busy_share=busy) for n in range(3)]
    assert generator_is_limit(windows, share) is limit


def used(cpu_s: float | None, backend: ProcessUsage | None = None) -> Measurement:
    """Return a window of two seconds in which the server used this CPU time."""
    around = Resources(2.1, 2.0, None, backend, None, 0, 0, 0, 0, 0.0)
    made = window("baseline", 0, 100.0, server_cpu_s=cpu_s)
    return replace(made, duration_s=2.0, resources=around)


def test_the_busy_share_is_that_of_all_the_servers_cores() -> None:
    """The typical window's, per core; a disturbed one does not move it."""
    windows = [used(cpu_s) for cpu_s in (1.0, 1.1, 1.9)]
    assert busy_share(windows, ONE) == pytest.approx(0.55)
    assert busy_share(windows, CoreSplit((0,), (1, 2), (3,), shared=False)) == pytest.approx(0.275)
    assert busy_share([used(None)], ONE) is None
    assert busy_share([], ONE) is None


def test_a_tenth_of_the_windows_is_busier_than_the_slow_seconds() -> None:
    """One window in eleven is above; a shared core says nothing."""
    windows = [used(cpu_s / 10) for cpu_s in range(5, 16)]
    assert busy_share_in_slow_seconds(windows, ONE) == pytest.approx(0.7)
    assert busy_share_in_slow_seconds([], ONE) is None
    shared = CoreSplit((0,), (0,), (), shared=True)
    assert busy_share_in_slow_seconds(windows, shared) is None


def test_the_time_of_a_core_is_what_the_host_leaves() -> None:
    """Taken away for half a second, a core is full after one and a half; the drain is no part."""
    stalls = ((-100_000_000, 100_000_000), (500_000_000, 800_000_000), (1_900_000_000, 2**40))
    full, half = (replace(used(cpu_s), server_spans=stalls) for cpu_s in (1.5, 0.75))
    assert busy_share([full], ONE) == 1.0
    assert busy_share([half], ONE) == pytest.approx(0.5)
    two = CoreSplit((0,), (1, 2), (3,), shared=False)
    assert busy_share([half], two) == pytest.approx(0.75 / 3.5)
    assert busy_share([replace(used(0.8), server_spans=((0, 2_000_000_000),))], ONE) is None


def test_a_backend_on_the_same_cores_counts() -> None:
    """A proxy's core is busy with its backend too; elsewhere that keeps cores of its own busy."""
    same = CoreSplit((0,), (1,), (1,), shared=False)
    assert busy_share([used(0.8, BEHIND)], same) == pytest.approx(0.7)
    assert busy_share([used(0.8)], same) is None, "what the backend takes is unknown"
    assert busy_share([used(0.8, BEHIND)], replace(same, backend=(2,))) == pytest.approx(0.4)
    apart = replace(same, backend_apart=True)
    assert busy_share([used(0.8, BEHIND)], apart) == pytest.approx(0.4), "core 1 of another host"


def test_a_core_that_the_generator_shares_says_nothing() -> None:
    """Its work is on the same core, and grows with the rate as well."""
    assert busy_share([used(0.8)], CoreSplit((0,), (0,), (), shared=True)) is None


def test_the_part_of_a_backend_for_all_arms_is_as_large_as_for_one_alone() -> None:
    """In windows that arms share, its work for each of them is unknown."""
    same = CoreSplit((0,), (1,), (1,), shared=False)
    alone, shared = used(0.8, BEHIND), used(0.6)
    assert busy_share([shared], same) is None
    assert busy_share([shared], same, [alone]) == pytest.approx(0.6 / 0.8 * 0.7)
    assert busy_share([shared], same, [used(0.8)]) is None
    assert busy_share([alone], same, [used(0.1, BEHIND)]) == pytest.approx(0.7)
    assert busy_share([shared], ONE, [alone]) == pytest.approx(0.3)
