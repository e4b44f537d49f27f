"""One window, judged: what counts, what does not, and whose fault it is."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.measurement.windows import GATES, raw_window
from tuner.judge.scoring import window_id
from tuner.measurement.gates import Gates
from tuner.measurement.latency import HistogramCounts
from tuner.measurement.measuring import measure
from tuner.measurement.stalls import CYCLES, StallRule
from tuner.measurement.window import Histogram, Measurement, RawWindow, Samples

MS = 1_000_000


def judged(raw: RawWindow, rule: StallRule | None = None, **gates: Any) -> Measurement:
    """Return the window under gates that 100 quiet requests pass."""
    return measure(raw, rule, replace(GATES, **gates))


def changed(
    raw: RawWindow, *, count: int, outcome: int, completed_ns: int | None = None
) -> RawWindow:
    """Return the same window whose first requests came to another end."""
    samples = raw.samples
    assert isinstance(samples, Samples)
    outcomes, completed = samples.outcome.copy(), samples.completed_ns.copy()
    outcomes[:count] = outcome
    if completed_ns is not None:
        completed[:count] = completed_ns
    return replace(
        raw,
        samples=Samples(samples.intended_ns, samples.written_ns, completed, outcomes),
    )


def test_a_quiet_window_is_valid_and_keeps_its_figures() -> None:
    """A valid window keeps the generator's figures unchanged."""
    raw = raw_window(bytes_in=7, reconnects=3, steal_s=0.5)
    found = judged(raw)
    assert found.valid
    assert found.invalid == ()
    assert not found.bad
    assert (found.bytes_in, found.reconnects, found.steal_s) == (7, 3, 0.5)
    assert found.completed_per_s == 100.0


def test_latency_is_counted_from_the_intended_instant() -> None:
    """Corrected = send lag + service; each has its own distribution."""
    found = judged(raw_window([100.0] * 50, lag_us=40.0))
    assert (found.stall_free.p50_us, found.service.p50_us, found.send_lag.p50_us) == (100, 60, 40)


def with_first_byte(raw: RawWindow, after_us: float) -> RawWindow:
    """Return the same window with this time to first byte in every request."""
    assert isinstance(raw.samples, Samples)
    first = np.minimum(raw.samples.intended_ns + round(after_us * 1e3), raw.samples.completed_ns)
    return replace(raw, samples=replace(raw.samples, first_ns=first))


def test_the_first_byte_is_counted_from_the_intended_instant() -> None:
    """Time to first byte is stall-free and weighted, and counts the age of unanswered requests."""
    found = judged(with_first_byte(raw_window([100.0] * 50, lag_us=40.0), 70.0)).first_byte
    assert found is not None
    assert (found.count, found.p50_us, found.max_us, found.hdr) == (50, 70, 70, "")
    latencies = [90_000.0 if 40 <= i < 50 else 100.0 for i in range(100)]
    stalled = raw_window(latencies, server_spans=((400 * MS, 500 * MS),))
    found = judged(with_first_byte(stalled, 90_000.0), StallRule()).first_byte
    assert found is not None
    assert (found.count, found.max_us) == (89, 100)
    lost = changed(raw_window(), count=20, outcome=1, completed_ns=2_000 * MS)
    found = judged(with_first_byte(lost, 1e9)).first_byte
    assert found is not None
    assert (found.count, found.max_us) == (100, 2_000_000)


def test_without_its_instants_there_is_no_time_to_first_byte() -> None:
    """The figure is absent, which is not 0."""
    assert judged(raw_window()).first_byte is None


def test_raw_figures_hold_every_request_and_stall_free_ones_do_not() -> None:
    """A stall of 100 ms takes a tenth and its margins away; the raw figures keep it."""
    latencies = [90_000.0 if 40 <= i < 50 else 100.0 for i in range(100)]
    raw = raw_window(latencies, server_spans=((400 * MS, 500 * MS),))
    found = judged(raw, StallRule())
    assert found.raw.count == 100
    assert found.raw.p99_us == 90_000
    assert found.stall_free.count == 89
    assert found.stall_free.max_us == 100
    assert found.excluded_share == pytest.approx(0.11)


def test_without_a_rule_stall_free_is_raw() -> None:
    """Without a stall rule nothing is excluded, and stall-free latencies equal the raw ones."""
    found = judged(raw_window(generator_spans=((0, 900 * MS),)))
    assert found.excluded_share == 0
    assert found.stall_free == found.raw


@pytest.mark.parametrize("outcome", [1, 2, 3], ids=["timed out", "in flight", "never sent"])
def test_what_never_came_back_counts_with_its_age(outcome: int) -> None:
    """No censoring: 20 requests given up after 2 s make the p99 of 100 two seconds."""
    raw = changed(raw_window(), count=20, outcome=outcome, completed_ns=2_000 * MS)
    found = judged(raw)
    assert found.raw.count == 100
    assert found.raw.max_us == 2_000_000
    assert found.service.count == 80


def test_an_error_is_no_latency() -> None:
    """A refusal is fast; it must not make a configuration look fast."""
    found = judged(changed(raw_window(), count=20, outcome=4))
    assert (found.raw.count, found.stall_free.count, found.service.count) == (80, 80, 80)


# --- the configuration's own fault ------------------------------------------------------------


def test_errors_are_the_configurations_fault() -> None:
    """By default a single failed request spoils the window, and the record says which kinds."""
    found = judged(raw_window(errors={"status": 1, "reset": 2}))
    assert found.bad
    assert found.invalid == ("3 of 100 requests failed (reset 2, status 1)",)


def test_a_share_of_errors_can_be_declared() -> None:
    """A share of errors up to the declared one leaves a window valid."""
    assert judged(raw_window(errors={"status": 3}), error_share=0.03).valid
    assert not judged(raw_window(errors={"status": 4}), error_share=0.03).valid


@pytest.mark.parametrize("kind", ["timeouts", "unsent", "in_flight"])
def test_a_missed_rate_with_an_idle_generator_is_the_configurations_fault(kind: str) -> None:
    """More than 1 % of what was offered is missing, and the generator had time to spare."""
    one: dict[str, Any] = {kind: 1}
    two: dict[str, Any] = {kind: 2}
    assert judged(raw_window(**one)).valid
    found = judged(raw_window(**two))
    assert found.bad
    assert "achieved less than offered: 2 of 100 requests" in found.invalid[0]


def test_answers_that_come_only_in_the_drain_are_a_missed_rate() -> None:
    """A queue that grows shows after the end; the last hundredth of the window is forgiven."""
    raw = changed(raw_window(), count=2, outcome=0, completed_ns=1_001 * MS)
    assert judged(raw).bad
    none = changed(raw_window(timeouts=20), count=100, outcome=0, completed_ns=1_001 * MS)
    assert judged(none).invalid[0].startswith("achieved less than offered: 100 of 100 requests")
    last = [100.0] * 99 + [20_000.0]
    assert judged(raw_window(last)).valid


def test_a_stall_near_the_end_is_no_missed_rate() -> None:
    """Requests that a stall delays beyond the window's end do not count as a missed rate."""
    late = [200_000.0 if i >= 90 else 100.0 for i in range(100)]
    raw = raw_window(late, generator_spans=((890 * MS, 1_100 * MS),))
    assert judged(raw, StallRule()).valid
    assert judged(raw).bad


# --- the instrument's or the host's fault -----------------------------------------------------


def test_a_starved_generator_is_at_fault_itself() -> None:
    """The same missed rate with a busy generator repeats the block and blames nobody."""
    found = judged(raw_window(timeouts=5, generator_busy_share=0.97))
    assert not found.valid
    assert not found.bad
    assert "the generator was 97% busy" in found.invalid[0]


def test_a_starved_generator_that_sends_late_says_so() -> None:
    """A lag above a tenth of the p99 makes the window invalid; the message names a remedy."""
    found = judged(raw_window([100.0] * 100, lag_us=11.0, generator_busy_share=0.97))
    assert not found.bad
    (reason,) = found.invalid
    assert "could not keep up" in reason
    assert "lower --rate" in reason
    assert judged(raw_window([100.0] * 100, lag_us=9.0, generator_busy_share=0.97)).valid


def test_lag_with_an_idle_generator_is_the_servers_doing() -> None:
    """Requests wait for a free connection when the server is slow: that is its latency."""
    assert judged(raw_window([100.0] * 100, lag_us=90.0)).valid


def test_too_few_samples_are_nobodys_fault() -> None:
    """The message has both numbers."""
    found = judged(raw_window([100.0] * 9))
    assert not found.bad
    assert found.lacking
    assert found.invalid == (
        "an effective sample of 9 requests, 10 are needed; 0% of 9 were left out",
    )


def test_an_overloaded_server_leaves_no_sample_and_is_the_reason() -> None:
    """Each answer takes longer, so it is never idle; no stall is blamed, detected or not."""
    queue = [1_000.0 * i for i in range(1, 101)]
    late = changed(raw_window(queue), count=60, outcome=0, completed_ns=1_400 * MS)
    found = judged(late, samples_needed=1_000)
    assert found.bad
    missed, few = found.invalid
    assert missed.startswith("achieved less than offered: ")
    assert few.startswith("an effective sample of ")
    assert few.endswith(" were left out")


def test_samples_are_counted_without_the_stalled_ones() -> None:
    """100 requests of which 97 are touched are too few, by busy cycles as by spans."""
    raw = raw_window(generator_spans=((0, 965 * MS),))
    for rule in (CYCLES, StallRule()):
        found = judged(raw, rule)
        (reason,) = found.invalid
        assert "requests, 10 are needed; 97% of 100 were left out" in reason
        assert found.lacking


def test_work_that_looks_like_stalls_does_not_accuse_the_host() -> None:
    """Stalls of 300 µs every 2 ms on the server's core alone: the reason names the way out."""
    spans = tuple((i * 2 * MS, i * 2 * MS + 300_000) for i in range(500))
    found = judged(raw_window(server_spans=spans), StallRule())
    (reason,) = found.invalid
    assert "100% of 100 were left out; " in reason
    assert "--stalls keep" in reason
    assert not found.lacking, "it may be the arm's own work"


def test_blame_needs_a_sound_instrument() -> None:
    """Errors in a window that is also too short of samples are not the configuration's."""
    found = judged(raw_window([100.0] * 5, errors={"reset": 1}))
    assert len(found.invalid) == 2
    assert not found.bad
    assert not found.lacking


@pytest.mark.parametrize(("failed", "is_bad"), [(51, True), (50, False)])
@pytest.mark.parametrize("mode", ["open", "closed"])
def test_few_samples_follow_from_a_server_that_fails_most_requests(
    mode: str, failed: int, is_bad: bool
) -> None:
    """The host is not blamed for what the server refused to answer."""
    raw = raw_window(mode=mode, errors={"wrong_length": failed}, completed=100 - failed)
    found = judged(changed(raw, count=failed, outcome=4), samples_needed=60)
    assert len(found.invalid) == 2
    assert found.bad is is_bad


def test_the_gates_are_the_same_for_every_arm() -> None:
    """The verdict on a window does not depend on whose it is."""
    raw = raw_window(errors={"status": 1})
    other = replace(raw, instance="candidate", window_id=window_id(0, "candidate"))
    assert judged(raw).invalid == judged(other).invalid
    assert judged(raw).bad == judged(other).bad


def test_closed_loops_are_not_judged_by_a_rate() -> None:
    """Saturation offers nothing in particular."""
    raw = raw_window(mode="closed", timeouts=50, rate_per_s=0.0)
    assert judged(raw).valid


@pytest.mark.parametrize("rule", [CYCLES, StallRule()])
def test_a_closed_loop_needs_answers_and_no_time_without_stalls(rule: StallRule) -> None:
    """Stalls touch each of its requests, and its throughput is a figure all the same."""
    spans = tuple((i * 2 * MS, i * 2 * MS + 300_000) for i in range(500))
    raw = raw_window([5_000.0] * 100, mode="closed", rate_per_s=0.0, generator_spans=spans)
    found = judged(raw, rule)
    assert (found.valid, found.excluded_share, found.completed_per_s) == (True, 1.0, 100.0)
    few = judged(raw, rule, samples_needed=101)
    assert (few.invalid, few.bad) == (("100 answers, 101 are needed",), False)
    assert not few.lacking


def test_a_window_without_requests_is_invalid_and_has_no_figures() -> None:
    """An empty window is not a perfect one."""
    found = judged(raw_window([]))
    assert not found.valid
    assert np.isnan(found.stall_free.p99_us)
    assert found.excluded_share == 0


@pytest.mark.parametrize(("round_", "instance"), [(0, "baseline"), (11, "c-3"), (123, "c1")])
def test_a_window_knows_its_round(round_: int, instance: str) -> None:
    """The identity within the block is read back as it was written."""
    found = judged(raw_window(window_id=window_id(round_, instance), instance=instance))
    assert found.round == round_


def reported(values_us: list[int], counts: list[int]) -> Histogram:
    """Return a histogram whose service times are half its latencies."""
    values = np.array(values_us, np.int64) * 1_000
    weights = np.array(counts, np.int64)
    return Histogram(HistogramCounts(values, weights), HistogramCounts(values // 2, weights))


def test_a_histogram_has_raw_latencies_and_no_stall_free_ones() -> None:
    """A histogram gives raw latencies only: no send lag, and nothing is excluded."""
    raw = replace(raw_window(), samples=reported([100, 400, 9_000], [980, 15, 5]))
    found = measure(raw, None, Gates(samples_needed=1_000))
    assert found.valid
    assert (found.raw.count, found.raw.p50_us, found.raw.p99_us) == (1_000, 100, 400)
    assert (found.raw.p999_us, found.raw.max_us) == (9_000, 9_000)
    assert found.raw.mean_us == pytest.approx(0.98 * 100 + 0.015 * 400 + 0.005 * 9_000)
    assert found.stall_free == found.raw
    assert found.service.p50_us == 50
    assert found.send_lag.count == 0
    assert math.isnan(found.send_lag.p99_us)
    assert found.excluded_share == 0


def test_no_stall_rule_is_applied_to_a_histogram() -> None:
    """A stall rule on a histogram raises ValueError, since a histogram has no instants."""
    raw = replace(raw_window(), samples=reported([100], [100]))
    with pytest.raises(ValueError, match="needs instants"):
        measure(raw, StallRule(), GATES)


def test_a_busy_generator_whose_lag_nobody_knows_is_not_believed() -> None:
    """A lag that was not measured proves nothing."""
    raw = replace(raw_window(), samples=reported([100], [100]), generator_busy_share=0.95)
    found = measure(raw, None, GATES)
    assert "could not keep up" in found.invalid[0]
    assert not found.bad


def test_a_fault_that_the_generator_knows_of_makes_the_window_invalid() -> None:
    """In its own words, and not as the configuration's fault."""
    found = measure(replace(raw_window(), faults=("it stood still",)), None, GATES)
    assert found.invalid == ("it stood still",)
    assert not found.bad
