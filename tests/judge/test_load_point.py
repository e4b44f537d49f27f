"""The rule of the load point: at 70 % of the server's cores, as far as the closed loop allows."""

from __future__ import annotations

import pytest

from tests.measurement.windows import window
from tuner.judge.load_point import (
    Capacity,
    StudyLoad,
    contest_load,
    for_slower_host,
    load_point,
    lower,
    moved,
    other_rates,
)
from tuner.machine.facts import CoreSplit
from tuner.record.model import Calibration

SATURATED = Capacity(10_000.0, generator_bound=False, busy_share=0.96)
ONE_CORE = CoreSplit((0,), (1,), (), shared=False)


def calibration(rate_per_s: float, busy_share: float | None) -> Calibration:
    """Return the calibration of a baseline that answers 10,000/s in a closed loop."""
    return Calibration(
        capacity_per_s=10_000.0,
        generator_bound=False,
        rate_per_s=rate_per_s,
        rate_source="",
        sigma_d=0.02,
        sigma_d_upper=0.03,
        degrees_of_freedom=6,
        half_width=0.02,
        minimum_detectable_effect=0.05,
        correlation=0.5,
        warnings=(),
        busy_share=busy_share,
    )


def at(busy: float | None, capacity: Capacity = SATURATED) -> StudyLoad | None:
    """Return the load after a first probe with this busy share."""
    return moved(load_point(capacity, None).probed(busy), capacity)


@pytest.mark.parametrize(("busy", "rate"), [(0.81, 6_000), (0.90, 5_400), (0.62, 7_900)])
def test_the_rate_follows_the_busy_share(busy: float, rate: float) -> None:
    """The rate scales with the ratio of the wanted to the seen busy share."""
    following = at(busy)
    assert following is not None
    assert following.rate_per_s == rate


def test_near_the_target_nothing_moves() -> None:
    """Two points either way are within two digits of a rate, and the noise of a probe."""
    assert [at(busy) for busy in (0.68, 0.70, 0.72)] == [None, None, None]


def test_the_rate_stays_below_what_the_closed_loop_showed() -> None:
    """At most 0.9 of the capacity, however idle the cores are."""
    following = at(0.35)
    assert following is not None
    assert following.rate_per_s == 9_000
    assert moved(following.probed(0.45), SATURATED) is None


def test_a_second_move_lies_between_what_was_probed() -> None:
    """The first one overshot, so the rate is between both probes."""
    first = at(0.60)
    assert first is not None
    second = moved(first.probed(0.80), SATURATED)
    assert second is not None
    assert 7_000 < second.rate_per_s < first.rate_per_s


def test_an_unknown_busy_share_leaves_the_share_of_the_capacity() -> None:
    """Without the server's CPU time the present rule remains."""
    assert at(None) is None


def test_a_given_rate_never_moves() -> None:
    """The user asked for it; its busy share is stated."""
    load = load_point(SATURATED, 2_000.0).probed(0.2)
    assert moved(load, SATURATED) is None
    share = "--rate, 20% of the baseline's capacity"
    assert load.words(1) == f"{share}; its core is 20% busy in slow seconds"
    assert load.words(4) == f"{share}; its 4 cores are 20% busy in slow seconds"


def test_idle_cores_in_the_closed_loop_keep_the_rate_from_rising() -> None:
    """Something else limits the server, and would be saturated; a lower rate is still safe."""
    backend = Capacity(10_000.0, generator_bound=False, busy_share=0.5)
    assert at(0.35, backend) is None
    lower = at(0.80, backend)
    assert lower is not None
    assert lower.rate_per_s == 6_100


def test_a_generator_that_was_the_limit_does_not_keep_the_rate_low() -> None:
    """The cores can do more than the closed loop showed, up to 0.9 of it."""
    bound = Capacity(10_000.0, generator_bound=True, busy_share=0.7)
    following = at(0.5, bound)
    assert following is not None
    assert following.rate_per_s == 9_000


@pytest.mark.parametrize(("busy", "rate"), [(0.87, 5_600), (1.0, 4_900)])
def test_a_host_that_became_slower_gets_a_lower_rate(busy: float, rate: float) -> None:
    """At that rate its cores are as busy as wanted again; a quick probe does not raise it."""
    slower = for_slower_host(load_point(SATURATED, None).probed(busy))
    assert slower is not None
    assert slower.rate_per_s == rate
    assert slower.source.endswith("capacity, lowered because the host became slower")
    assert moved(slower.probed(0.5), SATURATED) is None
    assert lower(slower).source.count("lowered") == 1


@pytest.mark.parametrize("busy", [None, 0.7, 0.8])
def test_a_host_that_is_hardly_slower_keeps_the_rate(busy: float | None) -> None:
    """Up to four fifths, or where the share is unknown."""
    assert for_slower_host(load_point(SATURATED, None).probed(busy)) is None


def test_a_given_rate_is_kept_on_a_slower_host() -> None:
    """The user asked for it."""
    assert for_slower_host(load_point(SATURATED, 9_000.0).probed(0.95)) is None


def test_a_moved_rate_states_its_share_of_the_capacity() -> None:
    """The words hold both figures."""
    following = at(0.81)
    assert following is not None
    words = following.probed(0.71).words(1)
    assert words == "60% of the baseline's capacity; its core is 71% busy in slow seconds"


def test_a_wanted_rate_of_a_contest_is_kept_where_every_arm_can_serve_it() -> None:
    """Else it is a share of the weakest, says so, and rises to the wanted rate at most."""
    strong, weak = (Capacity(rate, generator_bound=False, busy_share=1.0) for rate in (1e4, 400.0))
    kept = contest_load(500.0, strong)
    assert (kept.rate_per_s, kept.given) == (500.0, True)
    slow = contest_load(300.0, weak)
    assert slow.rate_per_s == 280
    assert "the published 300/s" in slow.source
    more = moved(slow.probed(0.6), weak)
    assert more is not None
    assert more.rate_per_s == 300
    assert contest_load(None, Capacity(1e3, generator_bound=False)).rate_per_s == 700
    assert contest_load(500.0, strong, "wanted").source.startswith("as wanted, ")


def test_further_load_points_are_relative_to_the_load_point() -> None:
    """At 60 % of the capacity with 75 % busy cores, 50 and 85 % busy cores are lower as well."""
    assert other_rates(calibration(6_000.0, 0.75)) == (4_000.0, 6_800.0)
    assert other_rates(calibration(9_000.0, 0.72)) == (6_250.0, 9_500.0)


@pytest.mark.parametrize("busy", [None, 0.2])
def test_further_load_points_are_shares_of_the_capacity_otherwise(busy: float | None) -> None:
    """As in records of earlier versions, and with a rate of the user's."""
    found = calibration(2_000.0, busy)
    assert other_rates(found) == (5_000.0, 8_500.0)


def test_a_capacity_knows_how_busy_the_cores_were() -> None:
    """The generator was busy all the time: with idle cores it is the limit."""

    def capacity(used_s: float, cores: CoreSplit = ONE_CORE) -> Capacity | None:
        measured = window("baseline", 0, 100.0, generator_busy_share=0.99, server_cpu_s=used_s)
        return Capacity.of([measured], cores)

    full, idle = capacity(0.96), capacity(0.5)
    assert full is not None
    assert idle is not None
    assert (full.busy_share, full.generator_bound) == (0.96, False)
    assert (idle.busy_share, idle.generator_bound) == (0.5, True)
    alone = capacity(0.5, CoreSplit((0,), (0,), (), shared=True))
    assert alone is not None
    assert alone.busy_share is None
