"""Busy cycles: which requests a stall touched, and how much the others count."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.measurement.queues import Host, served
from tests.measurement.windows import GATES, raw_window
from tuner.measurement.cycles import (
    HEAVIEST,
    Disturbances,
    Instants,
    Traffic,
    busy_spans,
    effective_size,
    weights,
)
from tuner.measurement.latency import summarise
from tuner.measurement.measuring import measure
from tuner.measurement.stall_cause import likely_work
from tuner.measurement.stall_free import weights_of
from tuner.measurement.stalls import CYCLES, Span, StallRule
from tuner.measurement.window import Samples, Turns

MS = 1_000_000
END = 100 * MS


def instants(*values: int) -> Instants:
    """Return instants as an array."""
    return np.array(values, np.int64)


def counts(
    begun: Instants,
    ended: Instants,
    stalls: tuple[Span, ...] = (),
    borders: tuple[int, ...] = (),
    level: int = 0,
) -> list[bool]:
    """Return which requests of one arm count, in a window of 10,000 ns."""
    traffic = Traffic.of([(begun, ended)], borders)
    disturbances = Disturbances.of(stalls, traffic.borders_ns, 10_000)
    found = weights(begun, ended, traffic, disturbances, level)
    return [weight > 0 for weight in found.tolist()]


def test_a_stall_touches_the_requests_of_its_cycle() -> None:
    """Those before it and after it, up to the next idle moment, and no others."""
    begun = instants(100, 1000, 1050, 1500, 1700, 3000)
    ended = instants(200, 1100, 1600, 1700, 1800, 3100)
    # In the second cycle, which ends at 1800; and in idle time.
    stalls = ((1300, 1350), (2000, 2500))
    assert counts(begun, ended, stalls) == [True, False, False, False, False, True]


def test_a_border_touches_the_cycle_that_it_cuts() -> None:
    """A cycle across a border counts for neither arm; a cycle within a slice counts."""
    one, other = (instants(900), instants(1040)), (instants(1010, 1200), instants(1100, 1300))
    traffic = Traffic.of([one, other], [1000])
    disturbances = Disturbances.of((), traffic.borders_ns, 10_000)
    assert (weights(*one, traffic, disturbances) > 0).tolist() == [False]
    assert (weights(*other, traffic, disturbances) > 0).tolist() == [False, True]
    assert counts(instants(1000), instants(1100), borders=(1000,)) == [True]


def test_an_arm_that_is_given_up_disturbs_the_others_until_then() -> None:
    """While it falls behind, no request counts; afterwards what it left unanswered touches none."""
    slow = instants(100, 500, 1500), instants(150, 9000, 9500)
    other = instants(1000, 2100, 3500), instants(1100, 2200, 3600)
    traffic = Traffic.of([slow, other], behind=[(400, 2000), None])
    raw = raw_window(traffic=traffic, duration_s=1e-5)
    for (begun, ended), expected in (slow, [True, False, False]), (other, [False, True, True]):
        samples = Samples(begun, begun, ended, np.zeros(3, np.uint8))
        assert (weights_of(raw, samples, CYCLES) > 0).tolist() == expected


def test_above_a_level_a_stall_touches_the_crowd_that_it_met() -> None:
    """And the requests that were under way; the usual company does not matter."""
    begun, ended = instants(100, 300, 400, 900), instants(2000, 700, 600, 1200)
    assert counts(begun, ended, ((1500, 1600),), level=2) == [False, True, True, True]
    assert not any(counts(begun, ended, ((1500, 1600),)))


def test_survival_follows_the_quiet_times() -> None:
    """Survival is the share of quiet time that is followed by more than a given length of it."""
    found = Disturbances.of([(100, 200)], instants(), 500)
    assert found.lengths_ns.tolist() == [100, 300]
    shares = found.survival(instants(0, 100, 200, 300))
    assert shares.tolist() == [1.0, 0.5, 0.25, 0.0]


def test_no_weight_is_above_the_heaviest() -> None:
    """A cycle that hardly any quiet time holds does not decide a percentile by itself."""
    begun, ended = instants(0, 9_950), instants(9_900, 9_990)
    traffic = Traffic.of([(begun, ended)])
    found = weights(begun, ended, traffic, Disturbances.of((), traffic.borders_ns, 10_000))
    assert found.max() == HEAVIEST


def test_undisturbed_requests_all_count() -> None:
    """Without stalls the figures are nearly those of all requests: long cycles weigh a bit more."""
    window = raw_window((100.0,) * 1_000)
    with_rule, without = measure(window, CYCLES, GATES), measure(window, None, GATES)
    assert with_rule.stall_free.p99_us == without.stall_free.p99_us
    assert with_rule.excluded_share == 0.0
    assert with_rule.effective == pytest.approx(1_000, rel=1e-3)


REQUESTS = st.lists(
    st.tuples(st.integers(0, 95 * MS), st.integers(1, 8 * MS)), min_size=1, max_size=40
)
STALLS = st.lists(
    st.tuples(st.integers(0, 90 * MS), st.integers(1, 5 * MS)).map(lambda s: (s[0], s[0] + s[1])),
    max_size=5,
)


@given(REQUESTS, STALLS, st.integers(0, 3))
def test_cycles_are_the_plain_definition(
    requests: list[tuple[int, int]], stalls: list[Span], level: int
) -> None:
    """Stepped through event by event, the busy times are the same, and so is what they touch."""
    begun = np.sort(instants(*(at for at, _ in requests)))
    ended = begun + instants(*(took for _, took in requests))
    events = sorted([(int(at), 0) for at in begun] + [(int(at), 1) for at in ended])
    outstanding, since, plain = 0, 0, []
    for at, is_end in events:
        outstanding += -1 if is_end else 1
        if not is_end and outstanding == level + 1:
            since = at
        if is_end and outstanding == level:
            plain.append((since, at))
    traffic = Traffic.of([(begun, ended)])
    starts, ends = busy_spans(traffic, level)
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == plain
    found = weights(begun, ended, traffic, Disturbances.of(stalls, instants(), END), level) > 0
    for first, last, kept in zip(begun.tolist(), ended.tolist(), found.tolist(), strict=True):
        met = [span for span in plain if span[1] > first and span[0] < last]
        low, high = min([first, *(s for s, _ in met)]), max([last, *(e for _, e in met)])
        points = [(0, 0), (END, END), *stalls]
        touched = any(end > low and start < high for start, end in points)
        assert kept is not touched


@given(REQUESTS, STALLS, STALLS)
def test_more_stalls_never_exclude_less(
    requests: list[tuple[int, int]], some: list[Span], more: list[Span]
) -> None:
    """Nobody can bring a request back by reporting another stall."""
    begun = np.sort(instants(*(at for at, _ in requests)))
    ended = begun + instants(*(took for _, took in requests))
    traffic = Traffic.of([(begun, ended)])

    def kept(stalls: list[Span]) -> Instants:
        found = Disturbances.of(stalls, traffic.borders_ns, END)
        return np.asarray(weights(begun, ended, traffic, found) > 0)

    assert (kept(some) | ~kept([*some, *more])).all()


def test_the_effective_size_is_kishs() -> None:
    """Equal weights count in full; one heavy weight among light ones counts for little."""
    assert effective_size(np.ones(100)) == 100
    assert effective_size(np.array([50.0, *[1.0] * 100])) == pytest.approx(150**2 / 2_600)
    assert effective_size(np.zeros(3)) == 0


def test_a_gap_at_the_limit_is_no_stall() -> None:
    """Gaps of the rule's length are the ordinary lateness of a core."""
    window = raw_window((50_000.0,) * 20, server_spans=((500 * MS, 500 * MS + 200_000),))
    assert measure(window, StallRule(gap_us=200, level=0), GATES).excluded_share < 0.2
    assert measure(window, StallRule(gap_us=199, level=0), GATES).excluded_share > 0.5


def test_stalled_time_is_that_of_the_own_slices() -> None:
    """An arm has the stalls of its turns, not those of the whole window."""
    turns = Turns(slice_ns=100 * MS, order=(0, 1, 1, 0), place=1)
    assert (turns.end_ns, turns.borders_ns) == (400 * MS, [100 * MS, 300 * MS])
    window = raw_window(turns=turns, server_spans=((90 * MS, 130 * MS), (350 * MS, 400 * MS)))
    found = measure(window, None, GATES)
    assert found.stalled_share == pytest.approx(30 / 200)
    assert found.server_spans == ((100 * MS, 130 * MS),)


def test_a_shared_window_does_not_make_its_stalls_look_like_work() -> None:
    """Four arms share a tenth of stalled time: it is a tenth for each, and not four tenths."""
    order, place = (0, 1, 2, 3) * 25, 2
    turns = Turns(slice_ns=10 * MS, order=order, place=place)
    stalls = tuple((at * MS, (at + 1) * MS) for at in range(0, 1_000, 10))
    shared = raw_window(turns=turns, duration_s=0.25, server_spans=stalls, steal_s=0.4)
    found = measure(replace(shared, generator_cpu_s=1.0), None, GATES)
    assert found.stalled_share == pytest.approx(0.1)
    assert [found.steal_s, found.generator_cpu_s] == pytest.approx([0.1, 0.25])
    assert sum(end - start for start, end in found.server_spans) == 25 * MS
    assert likely_work([found]) == "", "the hypervisor took as much"
    alone = measure(replace(shared, steal_s=0.0), None, GATES)
    assert "gaps took 10.0% of the time" in likely_work([alone])


def test_an_arm_that_cannot_keep_up_in_its_slices_fails_the_rate() -> None:
    """More than a tenth of the requests of its typical slice are unanswered when its turn ends."""
    turns = Turns(slice_ns=20 * MS, order=(0, 1) * 25, place=0)
    slow = measure(raw_window((60_000.0,) * 50, turns=turns), None, GATES)
    assert slow.bad
    assert "achieved less than offered" in slow.invalid[0]
    assert measure(raw_window((1_000.0,) * 50, turns=turns), None, GATES).valid


def test_an_arm_that_another_one_set_back_keeps_up() -> None:
    """Slices in which another arm fell behind say nothing about this one."""
    turns = Turns(slice_ns=20 * MS, order=(0, 1) * 25, place=0)
    slow = raw_window((60_000.0,) * 40 + (1_000.0,) * 10, turns=turns)
    samples = slow.samples
    assert isinstance(samples, Samples)
    arm = samples.intended_ns, samples.completed_ns
    for span, valid in ((-5 * MS, 790 * MS), True), ((100 * MS, 200 * MS), False):
        traffic = Traffic.of([arm, arm], turns.borders_ns, [None, span])
        assert measure(replace(slow, traffic=traffic), None, GATES).valid == valid


LOADS = [
    # service µs, share of the capacity, stalls per second, largest bias of the ratio
    (20.0, 0.7, 60, 0.01),
    (200.0, 0.7, 60, 0.02),
    (60.0, 0.7, 200, 0.03),
    (60.0, 0.8, 60, 0.02),
]


@pytest.mark.parametrize(("service_us", "load", "stalls_per_s", "bias"), LOADS)
def test_the_true_ratio_is_found_among_stalls(
    service_us: float, load: float, stalls_per_s: int, bias: float
) -> None:
    """A server a tenth faster is found to be so, by as much as without any stall.

    Both arms have the same arrivals, demands and stalls, so chance hardly moves the ratio.
    """
    rate_per_s, seconds = load / service_us * 1e6, 60
    host = Host(stalls_per_s, seconds).stalls(seed=7)
    found, true = [], []
    for service in (service_us, 0.9 * service_us):
        begun, ended = served(11, service, rate_per_s, seconds, host)
        traffic = Traffic.of([(begun, ended)])
        disturbances = Disturbances.of(host, traffic.borders_ns, seconds * 1_000 * MS)
        weight = weights(begun, ended, traffic, disturbances)
        kept = weight > 0
        found.append(summarise((ended - begun)[kept], weight[kept], histogram=False).p99_us)
        begun, ended = served(11, service, rate_per_s, seconds, [])
        true.append(summarise(ended - begun, histogram=False).p99_us)
    assert math.log(found[1] / found[0]) == pytest.approx(math.log(true[1] / true[0]), abs=bias)
