"""Simulated studies of blocks, judged by the functions that judge a record.

A world has a truth and noise. Its rounds are windows that the arms share in slices, its blocks
start both arms afresh, and a gain on few blocks gets further starts, as in a study. What comes out
are blocks of a record, so verdicts are those of ``tuner.judge``, whole arms included.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from tests import seeds
from tests.measurement.queues import Host, served
from tests.measurement.windows import GATES, raw_window
from tuner.goals.objective import Objective
from tuner.judge.comparison import Comparison
from tuner.judge.confirmation import confirmation, tally
from tuner.judge.plan import blocks_of_copies
from tuner.judge.scoring import BASELINE, copy_of, window_id
from tuner.judge.support import LEAST_STARTS, Support
from tuner.measurement.cycles import Traffic
from tuner.measurement.latency import Latency, encode
from tuner.measurement.measuring import measure
from tuner.measurement.stalls import CYCLES
from tuner.measurement.window import Measurement, Samples, Turns
from tuner.record.model import Block, BlockInstance, Phase, Record
from tuner.stats.margin import DEFAULT_BAND
from tuner.stats.paired import FloatArray, pseudomedians
from tuner.stats.slots import slots_of
from tuner.stats.verdict import Verdict, VerdictKind
from tuner.testing.sample_record import sample_record
from tuner.testing.simulate import simulate_requests

P99 = Objective("p99")
CANDIDATE = "candidate"
ROUNDS, START_ROUNDS = 8, 4
WINDOW_S, START_WINDOW_S = 0.8, 0.25
"""Time of each arm in a round of the confirmation, and in one of further starts."""
SLOW, SLOW_SHARE = math.log(1.4), 0.3
"""Slowness of the core at its low speed, ln units, and the share of the time at that speed."""
CORRELATION_S = 0.35
"""Correlation time of the core's speed, measured on a shared host."""
STALLS_PER_S = 80.0
"""Stalls of 1.3 ms on average: a tenth of the time."""
_NODES = 500
_LEVEL_STEP, _SHARE_STEP = 0.005, 0.125
_BANK, _ROUNDS_OF_SLICES = 300, 10_000
"""Rounds that studies draw from: of a stalling host, and of a core of two speeds."""

Shape = Literal["normal", "t3", "exponential", "lognormal"]


@dataclass(frozen=True, slots=True)
class World:
    """A host and two arms; noises are standard deviations in ln units."""

    starts: tuple[float, float] = (0.03, 0.03)
    """Noise of the level of a start, of baseline and candidate."""
    windows: tuple[float, float] = (0.04, 0.04)
    """Noise of a window's p99 by its own requests."""
    shape: tuple[Shape, Shape] = ("normal", "normal")
    """Distribution of the level of a start."""
    sign: float = 1.0
    """-1 to turn long tails of starts to the fast side."""
    bursts: float = 0.0
    """Share of windows with a disturbance of their own, of Student's t with 3 degrees."""
    bad_starts: float = 0.0
    """Share of the candidate's starts that are bad."""
    bad_ln: float = 0.0
    """Slowness of a bad start."""
    slow_windows: float = 0.0
    """Share of the candidate's windows that are 20 times as slow."""
    invalid: tuple[float, float] = (0.0, 0.0)
    """Shares of invalid windows."""
    grid: float = 0.0
    """Step to which every p99 is rounded, as a share of the baseline's; 0: none."""
    slot_ln: float = 0.0
    """Slowness of the first slot."""
    slice_ms: float = 20.0
    host: float = 0.1
    """Noise of the level that the arms of a round share."""
    stalls: bool = False
    """True to draw windows from a server's queue on a host that stalls for a tenth of the time."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of many studies, shape (studies, blocks, rounds, arms)."""

    ln_p99: FloatArray
    slow_share: FloatArray
    """Share of the arm's time at the core's low speed."""
    ln_raw: FloatArray
    """The p99 with the requests that stalls touched."""
    valid: npt.NDArray[np.bool_]


def _unit(rng: np.random.Generator, shape: Shape, size: tuple[int, ...]) -> FloatArray:
    """Return noise of unit variance and mean 0."""
    if shape == "t3":
        return np.asarray(rng.standard_t(3, size) / math.sqrt(3))
    if shape == "exponential":
        return np.asarray(rng.exponential(size=size) - 1)
    if shape == "lognormal":
        drawn = rng.lognormal(size=size) - math.exp(0.5)
        return np.asarray(drawn / math.sqrt((math.e - 1) * math.e))
    return rng.normal(size=size)


def draw(
    rng: np.random.Generator,
    world: World,
    studies: int,
    blocks: int,
    *,
    copies: int = 1,
    further: bool = False,
) -> Windows:
    """Return windows of equal arms but for their noise: baseline, candidate, and again by copy.

    Args:
        rng: generator.
        world: the noise.
        studies: number of studies.
        blocks: blocks of each.
        copies: starts of each arm in a block.
        further: True for blocks of further starts, which are short.
    """
    rounds, window_s = (START_ROUNDS, START_WINDOW_S) if further else (ROUNDS, WINDOW_S)
    arms = 2 * copies
    shape = (studies, blocks, rounds, arms)
    by_arm = (studies, blocks, 1, arms)
    is_candidate = np.arange(arms) % 2 == 1
    starts = np.stack(
        [_unit(rng, world.shape[arm % 2], by_arm[:3]) for arm in range(arms)], axis=-1
    )
    level = world.sign * starts * np.where(is_candidate, world.starts[1], world.starts[0])
    if world.bad_starts:
        level = level + world.bad_ln * (rng.random(by_arm) < world.bad_starts) * is_candidate
    if world.slot_ln:
        level = level + world.slot_ln * (_slots(rng, studies, blocks, arms) == 0)[:, :, None, :]
    # p99 of fewer requests is noisier.
    own = math.sqrt(WINDOW_S / window_s) * np.where(
        is_candidate, world.windows[1], world.windows[0]
    )
    level = level + own * rng.normal(size=shape)
    if world.bursts:
        burst = 0.3 * rng.standard_t(3, shape) * (rng.random(shape) < world.bursts)
        level = level + burst
    if world.slow_windows:
        level = level + math.log(20) * (rng.random(shape) < world.slow_windows) * is_candidate
    share = _slow_shares(rng, world, shape, window_s)
    ln_p99 = level + np.interp(share, *_ln_of_share())
    ln_raw = ln_p99 + math.log(10) + 0.5 * rng.normal(size=shape)
    if world.stalls:
        free, raw = _bank()
        drawn = rng.integers(len(free), size=(*shape[:3], copies))
        # Either arm of a round may be either window, so chance in the few rounds favours none.
        sides = rng.permuted(np.broadcast_to([0, 1], (*drawn.shape, 2)), axis=-1)
        ln_p99 = ln_p99 + free[drawn[..., None], sides].reshape(shape)
        ln_raw = level + raw[drawn[..., None], sides].reshape(shape)
    host = world.host * rng.normal(size=shape[:3])[..., None]
    ln_p99, ln_raw = ln_p99 + host, ln_raw + host
    invalid = np.where(is_candidate, world.invalid[1], world.invalid[0])
    return Windows(ln_p99, share, ln_raw, rng.random(shape) >= invalid)


def _slots(rng: np.random.Generator, studies: int, blocks: int, arms: int) -> npt.NDArray[np.intp]:
    drawn = rng.integers(2**32, size=studies).tolist()
    return np.array(
        [[slots_of(seed, "confirm", index, arms) for index in range(blocks)] for seed in drawn]
    )


def _slow_shares(
    rng: np.random.Generator, world: World, shape: tuple[int, ...], window_s: float
) -> FloatArray:
    """Return the share of each arm's slices at the core's low speed.

    Rounds are seconds apart, many times the correlation time, so they are drawn one by one.
    """
    *rest, arms = shape
    drawn = _rounds_of_slices(round(1_000 * window_s / world.slice_ms), world.slice_ms, arms)
    return np.asarray(drawn[rng.integers(len(drawn), size=rest)])


@functools.cache
def _rounds_of_slices(sets: int, slice_ms: float, arms: int) -> FloatArray:
    """Return the shares of the arms' slices at the low speed, shape (rounds, arms).

    A round has sets of one slice of each arm, in random order.
    """
    rng = np.random.default_rng(87)
    stays = math.exp(-slice_ms / 1_000 / CORRELATION_S)
    slow = rng.random(_ROUNDS_OF_SLICES) < SLOW_SHARE
    share = np.zeros((_ROUNDS_OF_SLICES, arms))
    rows = np.arange(_ROUNDS_OF_SLICES)
    for _ in range(sets):
        for at_turn in rng.random(share.shape).argsort(axis=-1).T:
            share[rows, at_turn] += slow
            redrawn = rng.random(slow.size) < SLOW_SHARE
            slow = np.where(rng.random(slow.size) < stays, slow, redrawn)
    return share / sets


@functools.cache
def _base() -> FloatArray:
    """Return quantiles of latencies in even steps, in units of their p99: heavy beyond it."""
    drawn = np.sort(simulate_requests(80, 0.0, requests=200_000).latency_us)
    nodes = drawn[((np.arange(_NODES) + 0.5) * drawn.size / _NODES).astype(int)]
    return np.asarray(nodes / np.quantile(drawn, 0.99))


@functools.cache
def _ln_of_share() -> tuple[FloatArray, FloatArray]:
    """Return shares at the low speed, and ln p99 of requests at both speeds in that proportion."""
    shares = np.linspace(0, 1, 41)
    drawn = np.sort(simulate_requests(81, 0.0, requests=100_000).latency_us)
    both = np.concatenate([drawn, drawn * math.exp(SLOW)])
    order = np.argsort(both)
    found = []
    for share in shares:
        weight = np.where(order < drawn.size, 1 - share, share).cumsum() / drawn.size
        found.append(
            math.log(both[order][np.searchsorted(weight, 0.99)] / np.quantile(drawn, 0.99))
        )
    return shares, np.asarray(found)


@functools.cache
def _bank() -> tuple[FloatArray, FloatArray]:
    """Return ln p99 of equal arms by round, (rounds, 2), stall-free and raw, about 0.

    Each is a real window: a queue on a core that stalls, in slices, measured by the stall rule.
    """
    found = []
    slice_ns, service_us, rate_per_s = 20_000_000, 70.0, 10_000.0
    seconds = 2 * WINDOW_S
    rng = np.random.default_rng(88)
    for seed in range(_BANK):
        stalls = Host(STALLS_PER_S, seconds).stalls(1_000 + seed)
        begun, ended = served(2_000 + seed, service_us, rate_per_s, seconds, stalls)
        sets = round(seconds * 1e9 / slice_ns / 2)
        order = tuple(int(place) for _ in range(sets) for place in rng.permutation(2))
        place = np.asarray(order)[np.minimum(begun // slice_ns, len(order) - 1)]
        arms = [(begun[place == arm], ended[place == arm]) for arm in (0, 1)]
        traffic = Traffic.of(arms, Turns(slice_ns, order, 0).borders_ns)
        pair = []
        for arm, (first, last) in enumerate(arms):
            window = raw_window(
                samples=Samples(first, first + 200, last, np.zeros(len(first), np.uint8)),
                turns=Turns(slice_ns, order, arm),
                traffic=traffic,
                duration_s=WINDOW_S,
                server_spans=tuple(stalls),
                rate_per_s=rate_per_s,
            )
            measured = measure(window, CYCLES, GATES)
            pair.append((measured.stall_free.p99_us, measured.raw.p99_us))
        found.append(pair)
    figures = np.log(np.asarray(found))
    free, raw = figures[..., 0], figures[..., 1]
    return free - free.mean(), raw - free.mean()


def shown(windows: Windows, world: World, effect: float) -> Windows:
    """Return the windows with the candidate's effect in ln units, as the instrument shows them."""
    shift = np.where(np.arange(windows.ln_p99.shape[-1]) % 2 == 1, effect, 0.0)
    ln_p99 = windows.ln_p99 + shift
    if world.grid:
        steps = np.maximum(1, np.round(np.exp(ln_p99) / world.grid))
        ln_p99 = np.log(steps * world.grid)
    return replace(windows, ln_p99=ln_p99, ln_raw=windows.ln_raw + shift)


def differences(windows: Windows) -> FloatArray:
    """Return the difference of each block, (studies, blocks), from its rounds without bad windows.

    The first two arms of a block are baseline and candidate.
    """
    d = windows.ln_p99[..., 1] - windows.ln_p99[..., 0]
    found = pseudomedians(d)
    complete = np.asarray(windows.valid[..., :2].all(axis=-1))
    for place in zip(*np.nonzero(~complete.all(axis=-1)), strict=True):
        found[place] = pseudomedians(d[place][complete[place]])
    return found


@functools.cache
def centre(world: World) -> float:
    """Return the pseudomedian of a block's difference between equal arms: 0 unless it is skewed."""
    if world.shape[1] in ("normal", "t3") or world.starts[1] == 0:
        return 0.0
    d = differences(draw(np.random.default_rng(77), replace(world, slot_ln=0.0), 20, 2_000)).ravel()
    halves = np.random.default_rng(78).permutation(np.tile(d, 8)).reshape(2, -1)
    return float(np.median(halves.mean(axis=0)))


_MEASURED = measure(raw_window(), None, GATES)
_TEMPLATE = {each.name: getattr(_MEASURED, each.name) for each in fields(Measurement)}


@functools.lru_cache(maxsize=20_000)
def _text(level: int, share: int) -> str:
    """Return the histogram of a window, in steps of its level and of its share at the low speed."""
    part = share * _SHARE_STEP
    slow = np.arange(_NODES) % round(1 / _SHARE_STEP) < share
    base = np.sort(_base() * np.exp(SLOW * slow)) if part > 0 else _base()
    return encode((1e6 * math.exp(level * _LEVEL_STEP) * base).astype(np.int64))


def _window(
    name: tuple[int, str], ln_p99: float, text: tuple[int, int], ln_raw: float, valid: float
) -> Measurement:
    p99_us = 1e3 * math.exp(ln_p99)
    low = p99_us / 3, p99_us / 2
    free = Latency(8_000, *low, p99_us, 3 * p99_us, 9 * p99_us, low[0], _text(*text))
    raw_us = 1e3 * math.exp(ln_raw)
    raw = Latency(9_000, *low, raw_us, 3 * raw_us, 9 * raw_us, low[0], "")
    return Measurement(
        **_TEMPLATE
        | {
            "window_id": window_id(*name),
            "instance": name[1],
            "stall_free": free,
            "raw": raw,
            "invalid": () if valid else ("spoilt",),
        }
    )


def blocks_of(windows: Windows, study: int, phase: Phase) -> list[Block]:
    """Return the blocks of one study as a record has them."""
    ln_p99, ln_raw = windows.ln_p99[study], windows.ln_raw[study]
    blocks, rounds, arms = ln_p99.shape
    labels = [copy_of((BASELINE, CANDIDATE)[arm % 2], arm // 2 + 1) for arm in range(arms)]
    digests = (_record().baseline, _digest())
    instances = tuple(
        BlockInstance(label, digests[arm % 2], None, "live", "") for arm, label in enumerate(labels)
    )
    share = windows.slow_share[study]
    # A histogram has its share at the low speed apart from its level.
    level = np.rint((ln_p99 - np.interp(share, *_ln_of_share())) / _LEVEL_STEP).astype(int)
    texts = np.stack([level, np.rint(share / _SHARE_STEP).astype(int)], axis=-1).tolist()
    values, raws, valid = ln_p99.tolist(), ln_raw.tolist(), windows.valid[study].tolist()
    return [
        Block(
            number=block,
            phase=phase,
            index=block,
            seed=1,
            state="complete",
            reason="",
            started_unix_s=60.0 * block,
            ended_unix_s=60.0 * block + 30,
            instances=instances,
            windows=tuple(
                _window((r, label), *(x[block][r][arm] for x in (values, texts, raws, valid)))
                for r in range(rounds)
                for arm, label in enumerate(labels)
            ),
        )
        for block in range(blocks)
    ]


@functools.cache
def _record() -> Record:
    """Return a record of a confirmation whose blocks are to be replaced."""
    return sample_record("better")


def _digest() -> str:
    protocol = _record().protocol
    assert protocol is not None
    return protocol.candidate


@functools.cache
def protocol_of(blocks: int) -> Record:
    """Return a record with a protocol of today for a number of blocks, without blocks."""
    record = _record()
    assert record.protocol is not None
    protocol = replace(
        record.protocol, blocks=blocks, margin=0.03, margin_symmetric=True, evidence="starts"
    )
    return replace(record, protocol=protocol, blocks=())


@functools.cache
def comparison_of(blocks: int) -> Comparison:
    """Return the comparison of such a protocol."""
    return confirmation(protocol_of(blocks), P99)


@dataclass
class Rates:
    """Counts among simulated studies."""

    better: int = 0
    worse: int = 0
    typical: int = 0
    """*Better* by the typical block alone."""
    missed: int = 0
    """Intervals without the truth."""


@dataclass(frozen=True, slots=True)
class Study:
    """One simulated study that makes a claim by its typical block."""

    typical: VerdictKind
    """The verdict by the typical block alone."""
    verdict: Verdict
    blocks: tuple[Block, ...]
    """The blocks, with those of further starts that a gain needed."""


def claiming(seed: int, world: World, count: int, blocks: int, effect: float) -> Iterator[Study]:
    """Yield the simulated studies that make a claim by their typical blocks.

    Whole arms can only take a claim away, so only these are built as the blocks of a record, and
    judged as a record is.

    Args:
        seed: of the simulation, before the shift.
        world: the noise.
        count: number of studies.
        blocks: of the confirmation of each.
        effect: true ln ratio of the pseudomedian.
    """
    rng = seeds.rng(seed)
    further, copies = blocks_of_copies(LEAST_STARTS - blocks, 2)
    comparison = comparison_of(blocks)
    alone = replace(comparison, support=Support("typical"))
    for some, confirm in _drawn(rng, world, count, blocks, effect):
        starts = None
        if further:
            drawn = draw(rng, world, some, further, copies=copies, further=True)
            starts = shown(drawn, world, effect - centre(world))
        d = differences(confirm)
        below = beyond(d - math.log(DEFAULT_BAND.low))
        above = beyond(math.log(DEFAULT_BAND.high) - d)
        for study in np.flatnonzero(below | above).tolist():
            counted = comparison.counted(blocks_of(confirm, study, "confirm"))
            typical = tally(counted, alone).verdict
            assert typical is not None
            assert typical.kind in (VerdictKind.BETTER, VerdictKind.WORSE)
            more: list[Block] = []
            if starts is not None and typical.kind is VerdictKind.BETTER:
                more = blocks_of(starts, study, "starts")
            verdict = tally(counted, comparison, more).verdict
            assert verdict is not None
            own = (found.block for found in counted)
            yield Study(typical.kind, verdict, (*own, *more))


def _drawn(
    rng: np.random.Generator, world: World, count: int, blocks: int, effect: float
) -> Iterator[tuple[int, Windows]]:
    """Yield the windows of the confirmations of some studies at a time."""
    for first in range(0, count, 500):
        some = min(500, count - first)
        yield some, shown(draw(rng, world, some, blocks), world, effect - centre(world))


def beyond(d: FloatArray, level: float = 0.05) -> npt.NDArray[np.bool_]:
    """Return for each study (row) whether the exact interval of its differences lies below 0.

    It does where the signed-rank test rejects 0: the ranks of the positive differences add up to
    less than the rank of the interval's end. With ties the interval ends at the same place.
    """
    tail = tail_of_ranks(d.shape[1])
    rank = int(np.searchsorted(tail, level / 2, side="right"))
    if not rank:
        return np.zeros(len(d), np.bool_)
    rows, columns = np.triu_indices(d.shape[1])
    walsh = (d[:, rows] + d[:, columns]) / 2
    return np.asarray(np.partition(walsh, -rank, axis=1)[:, -rank] < 0)


def tail_of_ranks(n: int) -> FloatArray:
    """Return P(S <= s) of the signed-rank statistic, by counting subsets of 1 to n."""
    counts = np.zeros(n * (n + 1) // 2 + 1)
    counts[0] = 1
    for rank in range(1, n + 1):
        counts[rank:] = counts[rank:] + counts[:-rank]
    return np.asarray(counts.cumsum() / 2.0**n)


def rates(seed: int, world: World, count: int, blocks: int, effect: float) -> Rates:
    """Return what the studies of a world conclude; see ``claiming``."""
    found = Rates()
    for study in claiming(seed, world, count, blocks, effect):
        found.better += study.verdict.kind is VerdictKind.BETTER
        found.worse += study.verdict.kind is VerdictKind.WORSE
        found.typical += study.typical is VerdictKind.BETTER
    for _, windows in _drawn(seeds.rng(seed + 1), world, count, blocks, effect):
        d = differences(windows) - effect
        found.missed += int(np.count_nonzero(beyond(d) | beyond(-d)))
    return found
