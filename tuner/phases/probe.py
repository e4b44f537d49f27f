"""Before the noise is measured: the load point, what a request is worth there, and in what slices.

A few windows of the baseline alone show how busy the server's cores are, how long its busy cycles
last and how often the host stalls. From them follow the rate (``tuner.judge.load_point``), the
level of the cycles, the length of the slices, and the effective samples per request, which the plan
needs for the length of its rounds. All are kept in the record's calibration and are the same for
all arms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tuner.judge.load_point import MOST_MOVES, Capacity, StudyLoad, move_words, moved
from tuner.judge.plan import ASSUMED, BlockPlan, Sampling
from tuner.judge.scoring import BASELINE
from tuner.measurement.bottleneck import busy_share_in_slow_seconds
from tuner.measurement.cycles import effective_size
from tuner.measurement.stall_free import weights_of
from tuner.measurement.stalls import StallRule
from tuner.measurement.window import Measurement, RawWindow, Samples
from tuner.phases.bench import Bench
from tuner.phases.block import Arm, BlockSpec, run_block
from tuner.record.model import Calibration
from tuner.space.configuration import Configuration

PROBE_INDEX = 2
"""Index of the probe's block in the phase "capacity"."""
_WINDOWS = BlockPlan(rounds=4, window_s=0.75, first_warmup_s=0.5, warmup_s=0.1)
_SLICES_MS = (20.0, 50.0, 100.0, 200.0)
"""Lengths to choose from. The speed of a core wanders within a third of a second; below 20 ms the
switch from one process to another takes its share (docs/instrument.md)."""
_LEVELS = (0, 1, 2, 4, 8, 16, 32)
_LEAST_REQUESTS = 100
"""Requests of a slice: with fewer, what is left at its end is a large share of it."""
_LEAST_MULTIPLE = 20.0
"""Least length of a slice as a multiple of the typical latency, for the same reason."""
_NEARLY = 0.85
"""Share of the best effective size that is enough for a shorter slice."""
_LOW_LEVEL = 0.5
"""The same for a lower level, which is less biased: at level 4 a queue of one worker showed a ratio
of 0.744 for 0.728, and at level 8 a p99 too high by a fifth (simulated at a load of 0.7)."""


class OverloadedError(Exception):
    """The baseline does not keep up with the rate of the probe."""


def sampling_of(known: Calibration, bench: Bench) -> Sampling:
    """Return the sampling of a calibration in the record."""
    if known.level is None:
        return ASSUMED
    return Sampling(known.effective_share, known.slice_ms if _can(bench) else 0.0, known.level)


def settle(
    bench: Bench,
    configuration: Configuration,
    load: StudyLoad,
    capacity: Capacity,
) -> tuple[Sampling, StudyLoad]:
    """Probe a configuration at a load, and move the load to where its cores are busy as wanted.

    Args:
        bench: bench of the study.
        configuration: the configuration.
        load: the first load.
        capacity: closed-loop capacity of the configuration.

    Raises:
        OverloadedError: it does not keep up with the first load.
        HostError, InstrumentError: it could not be measured.
    """
    if not bench.goals.at_one_rate:
        # A closed loop is sliced by time alone; a search for a rate has windows at many rates.
        sliced = _can(bench) and not bench.goals.seek
        return Sampling(1.0, _closed_slice_ms(bench, capacity) if sliced else 0.0), load
    sampling, busy = _probe(bench, configuration, load.rate_per_s)
    load = load.probed(busy)
    for _ in range(MOST_MOVES):
        following = moved(load, capacity)
        if following is None:
            break
        bench.progress.note(move_words(load, following))
        try:
            sampling, busy = _probe(bench, configuration, following.rate_per_s)
        except OverloadedError as error:
            bench.progress.note(f"{error}; staying at {load.rate_per_s:,.0f}/s")
            break
        load = following.probed(busy)
    return sampling, load


def _probe(
    bench: Bench, configuration: Configuration, rate_per_s: float
) -> tuple[Sampling, float | None]:
    """Measure a configuration by itself; return its sampling and how busy its cores are.

    Raises:
        OverloadedError: it does not keep up with the rate.
        HostError, InstrumentError: it could not be measured.
    """
    seen: list[RawWindow] = []
    spec = BlockSpec(
        phase="capacity",
        index=PROBE_INDEX,
        arms=(Arm(BASELINE, configuration),),
        plan=replace(_WINDOWS, exclusive=bench.exclusive),
        mode="open",
        rate_per_s=rate_per_s,
        needs_all=False,
    )
    bench.progress.phase("load point and slices", spec.plan.cost_s(1))
    # An overloaded server may leave no effective sample, and is the reason for it.
    gates = replace(bench.gates, samples_needed=0)
    block = run_block(replace(bench, gates=gates), spec, witness=seen.append)
    if _overloaded(block.windows):
        raise OverloadedError(next("; ".join(w.invalid) for w in block.windows if w.bad))
    found = sampling(seen, bench.rule, rate_per_s, slices=_can(bench))
    return found, busy_share_in_slow_seconds(block.windows, bench.store.record().cores)


def _overloaded(windows: Sequence[Measurement]) -> bool:
    """Return whether more than half of the windows fail the load."""
    return 2 * sum(window.bad for window in windows) > len(windows)


def _can(bench: Bench) -> bool:
    """Return whether arms can share windows: a profile or a recording needs whole windows."""
    even = isinstance(bench.workload.arrival, str)
    return bench.generator.instrument.slices and bench.slices and not bench.exclusive and even


def _closed_slice_ms(bench: Bench, capacity: Capacity) -> float:
    """Return the length of slices in a closed loop; 0 for windows, if none is long enough.

    The requests under way at its ends are an error of about the time of one answer in each slice,
    which is longer for a slower arm.
    """
    answer_ms = 1e3 * bench.workload.requests_in_flight / capacity.per_s
    longer = (ms for ms in _SLICES_MS[1:] if ms >= _LEAST_MULTIPLE * answer_ms)
    return next(longer, 0.0)


def sampling(
    seen: Sequence[RawWindow], rule: StallRule | None, rate_per_s: float, *, slices: bool
) -> Sampling:
    """Choose level and slices for the load of these windows.

    The lowest level is chosen that leaves half as many effective samples as the best, and the
    shortest slice that leaves nearly as many. Borders between slices are simulated in the windows
    of the probe. With a rule of spans there are neither.

    Args:
        seen: windows of one instance, with their samples.
        rule: the stall rule; None without one.
        rate_per_s: rate of the windows.
        slices: whether arms can share windows.
    """
    windows = [window for window in seen if isinstance(window.samples, Samples)]
    if rule is None or not windows:
        return Sampling(1.0, _SLICES_MS[1] if slices else 0.0)
    if rule.level is None:
        share = _effective_share(windows, rule)
        return Sampling(share, 0.0) if share > 0 else replace(ASSUMED, slice_ms=0.0)
    level, share = _lowest_level(windows, rule)
    if not share > 0:
        return replace(ASSUMED, slice_ms=_SLICES_MS[-1] if slices else 0.0)
    if not slices:
        return Sampling(share, 0.0, level)
    long_enough = [ms for ms in _SLICES_MS if ms >= _LEAST_MULTIPLE * _typical_ms(windows)]
    full = [ms for ms in long_enough if ms * rate_per_s >= 1e3 * _LEAST_REQUESTS]
    lengths = full or long_enough[-1:]
    leveled = replace(rule, level=level)
    shares = {ms: _effective_share(windows, leveled, ms) for ms in lengths}
    best = max(shares.values(), default=0.0)
    if not best > 0:
        return Sampling(share, 0.0, level)
    length_ms = next(ms for ms, share in shares.items() if share >= _NEARLY * best)
    return Sampling(shares[length_ms], length_ms, level)


def sampling_again(
    seen: Sequence[RawWindow], rule: StallRule | None, before: Sampling
) -> Sampling | None:
    """Return the sampling that A/A windows show, or None if it is the one of the probe.

    The probe is short: the host may have been quieter then, and requests that the server holds back
    for longer than a window of the probe were not yet outstanding. All instances are identical, so
    the choice favours no configuration.

    Args:
        seen: windows of identical instances, with their samples.
        rule: the stall rule; None without one.
        before: the sampling of the probe.
    """
    windows = [window for window in seen if isinstance(window.samples, Samples)]
    if rule is None or rule.level is None or not windows:
        return None
    level, share = _lowest_level(windows, rule)
    nothing_new = level == before.level and share >= _NEARLY * before.effective_share
    return None if nothing_new or not share > 0 else Sampling(share, before.slice_ms, level)


def _lowest_level(windows: Sequence[RawWindow], rule: StallRule) -> tuple[int, float]:
    """Return the lowest level that leaves enough, and the effective samples per request there."""
    at = {level: _effective_share(windows, replace(rule, level=level)) for level in _LEVELS}
    enough = _LOW_LEVEL * max(at.values())
    return next((level, share) for level, share in at.items() if share >= enough)


def _typical_ms(windows: Sequence[RawWindow]) -> float:
    """Return the median latency of the windows' requests, ms."""
    taken = [
        window.samples.completed_ns - window.samples.intended_ns
        for window in windows
        if isinstance(window.samples, Samples)
    ]
    return float(np.median(np.concatenate(taken))) / 1e6


def _effective_share(windows: Sequence[RawWindow], rule: StallRule, slice_ms: float = 0.0) -> float:
    """Return effective samples per request, as if the load changed arms after every slice."""
    effective, offered = 0.0, 0
    for window in windows:
        samples = window.samples
        assert isinstance(samples, Samples)  # noqa: S101 - the caller's choice
        end_ns, slice_ns = round(window.duration_s * 1e9), round(slice_ms * 1e6)
        borders = range(slice_ns, end_ns, slice_ns) if slice_ns else ()
        weight = weights_of(window, samples, rule, borders)
        effective += effective_size(weight[samples.outcome <= np.uint8(3)])
        offered += len(samples.outcome)
    return effective / offered if offered else 0.0
