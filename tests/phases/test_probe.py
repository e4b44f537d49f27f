"""Level and slices follow from a few windows of the baseline alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tests.measurement.queues import Host, served
from tests.measurement.windows import raw_window
from tuner.judge.plan import Sampling
from tuner.measurement.cycles import Instants
from tuner.measurement.stalls import CYCLES, SPANS, Span
from tuner.measurement.window import RawWindow, Samples
from tuner.phases.probe import sampling, sampling_again

SECONDS = 4


def window(begun: Instants, ended: Instants, stalls: Sequence[Span] = ()) -> RawWindow:
    """Return a window of these requests, on a host with these stalls."""
    requests = Samples(begun, begun, ended, np.zeros(len(begun), np.uint8))
    made = raw_window(duration_s=float(SECONDS), server_spans=tuple(stalls))
    return replace(made, samples=requests)


def queue(
    service_us: float, load: float, stalls: Sequence[Span] = (), seed: int = 1
) -> tuple[Instants, Instants]:
    """Return the requests of one worker at a share of its capacity."""
    return served(seed, service_us, load / service_us * 1e6, SECONDS, stalls)


def chosen(found: RawWindow, rate_per_s: float, *, slices: bool = True) -> Sampling:
    """Return the choice for one window."""
    return sampling([found], CYCLES, rate_per_s, slices=slices)


def test_short_cycles_have_the_shortest_slices() -> None:
    """A page of 1 KB from one worker: slices of 20 ms, cycles from idle to idle."""
    found = chosen(window(*queue(20.0, 0.7)), 35_000)
    assert (found.slice_ms, found.level) == (20.0, 0)
    assert 0.9 < found.effective_share <= 1.0


def test_long_cycles_have_longer_slices() -> None:
    """In slices of 20 ms the borders would cut most cycles of a proxy of 400 µs."""
    found = chosen(window(*queue(400.0, 0.8)), 2_000)
    assert found.slice_ms >= 100.0


def test_stalls_leave_fewer_effective_samples() -> None:
    """The plan makes windows longer by as much."""
    stalls = Host(60, SECONDS).stalls(seed=3)
    quiet = chosen(window(*queue(100.0, 0.7)), 7_000)
    stalled = chosen(window(*queue(100.0, 0.7, stalls), stalls), 7_000)
    assert stalled.effective_share < 0.8 * quiet.effective_share


def test_several_workers_have_a_level_above_idle() -> None:
    """Some of sixteen workers are always busy, so no request would count at level 0."""
    stalls = Host(60, SECONDS).stalls(seed=3)
    workers = [queue(1_000.0, 0.7, seed=seed) for seed in range(16)]
    begun = np.concatenate([worker[0] for worker in workers])
    ended = np.concatenate([worker[1] for worker in workers])
    order = np.argsort(begun)
    found = chosen(window(begun[order], ended[order], stalls), 11_200, slices=False)
    assert found.level >= 4
    assert found.effective_share > 0.2


def test_slow_answers_have_windows_of_their_own() -> None:
    """A backend that takes 50 ms leaves requests behind at the end of any slice."""
    begun = np.sort(np.random.default_rng(1).integers(0, SECONDS * 10**9, 2_000))
    found = chosen(window(begun, begun + 50_000_000), 500)
    assert found.slice_ms == 0.0


def test_where_arms_cannot_share_windows_there_are_no_slices() -> None:
    """With kernel settings one server runs at a time."""
    assert chosen(window(*queue(20.0, 0.7)), 35_000, slices=False).slice_ms == 0.0


def test_a_rule_of_spans_has_its_own_share() -> None:
    """Requests near a stall are left out, from 1 ms before it to 2 ms and six lengths after it."""
    stalls = [(at * 100_000_000, at * 100_000_000 + 1_000_000) for at in range(1, 30)]
    found = sampling([window(*queue(20.0, 0.7), stalls)], SPANS, 35_000, slices=False)
    assert (found.slice_ms, found.level) == (0.0, 0)
    assert abs(found.effective_share - (1 - 29 * 0.010 / SECONDS)) < 0.01


def test_without_a_stall_rule_every_request_counts() -> None:
    """On a single core the arms still take turns in slices."""
    found = sampling([window(*queue(20.0, 0.7))], None, 35_000, slices=True)
    assert (found.effective_share, found.slice_ms, found.level) == (1.0, 50.0, 0)


def test_windows_that_show_more_stalls_than_the_probe_change_the_sampling() -> None:
    """The host was quiet for the seconds of the probe; the slices stay."""
    quiet = chosen(window(*queue(100.0, 0.7)), 7_000)
    stalls = Host(60, SECONDS).stalls(seed=3)
    found = sampling_again([window(*queue(100.0, 0.7, stalls), stalls)], CYCLES, quiet)
    assert found is not None
    assert found.effective_share < 0.8 * quiet.effective_share
    assert found.slice_ms == quiet.slice_ms


def test_requests_that_are_held_back_raise_the_level() -> None:
    """A lock of a cache lets some requests wait for half a second, longer than the probe lasts."""
    begun, ended = queue(20.0, 0.2)
    held = ended.copy()
    held[::500] += 500_000_000
    stalls = Host(60, SECONDS).stalls(seed=3)
    probed = chosen(window(begun, ended, stalls), 10_000)
    found = sampling_again([window(begun, held, stalls)], CYCLES, probed)
    assert found is not None
    assert found.level > probed.level


def test_windows_like_those_of_the_probe_change_nothing() -> None:
    """Another reason made the block invalid."""
    one, other = (window(*queue(100.0, 0.7, seed=seed)) for seed in (1, 2))
    assert sampling_again([other], CYCLES, chosen(one, 7_000)) is None


def test_without_busy_cycles_the_sampling_stays() -> None:
    """A rule of spans has no level, and no rule leaves nothing out."""
    found = window(*queue(100.0, 0.7))
    before = Sampling(0.1)
    assert sampling_again([found], SPANS, before) is None
    assert sampling_again([found], None, before) is None
    assert sampling_again([], CYCLES, before) is None
