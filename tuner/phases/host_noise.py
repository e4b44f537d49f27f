"""The noise of a host before any study: one short A/A block at a study's load point."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tuner.errors import HostError
from tuner.goals.metric import Metric
from tuner.judge.arms import excluded_share
from tuner.judge.load_point import load_point
from tuner.judge.plan import BlockPlan, StudyPlan, plan_blocks
from tuner.judge.scoring import BASELINE, counted_windows
from tuner.phases.bench import Bench
from tuner.phases.block import Arm, BlockSpec, run_block
from tuner.phases.calibrate import aa_differences, measure_capacity
from tuner.phases.study import SATURATION_GATES, gated, probe_load
from tuner.record.model import Block
from tuner.stats.power import pooled_sigma

_TWINS = 3
"""Identical instances in addition to the baseline."""
_ROUNDS = 5
_WINDOW_S = 0.5
_IMPOSSIBLE = "identical instances cannot be measured here"
_LEAST_SAMPLES = Metric("p99").samples_least
"""Effective samples of a window, which is too short for those of a claim."""


@dataclass(frozen=True, slots=True)
class HostNoise:
    """The noise that a study of a given length would have, estimated in seconds."""

    sigma_d: float
    """Noise of a block's difference in such a study, in ln units."""
    rate_per_s: float
    """Offered rate of the measurement."""
    touched_share: float
    """Share of requests touched by stalls."""


def measure_noise(bench: Bench, time_s: float) -> HostNoise:
    """Measure identical instances in one block, and scale their noise to a study's blocks.

    The variance of a block's difference has two parts: one of the starts, which no number of
    windows reduces, and one of the windows, which falls with their number. A block of this
    measurement has fewer windows than one of a study, so the second part is reduced accordingly.

    Args:
        bench: bench with the baseline.
        time_s: length of the study, for the size of its blocks.

    Raises:
        HostError: no block was valid at any tried load point.
        InstrumentError: the generator failed.
    """
    saturated = replace(bench, gates=SATURATION_GATES)
    capacity = measure_capacity(saturated, bench.baseline)
    try:
        sampling, load = probe_load(bench, load_point(capacity, None), capacity)
    except HostError as error:
        raise HostError(f"{_IMPOSSIBLE}: {error}") from error
    plan = plan_blocks(bench.goals, load.rate_per_s, time_s, sampling=sampling)
    short = _short(plan)
    block = _aa_block(gated(bench, short, sampling.level), load.rate_per_s, short.aa)
    if block.state != "complete":
        raise HostError(f"{_IMPOSSIBLE}: {block.reason} (at {load.rate_per_s:,.0f} requests/s)")
    sigma_d = _sigma(bench, block, plan.confirm)
    return HostNoise(sigma_d, load.rate_per_s, excluded_share(block.windows))


def _short(plan: StudyPlan) -> StudyPlan:
    """Return the plan with an A/A block of a few seconds."""
    block = replace(plan.aa, rounds=_ROUNDS, window_s=_WINDOW_S, effective=0.0)
    return replace(plan, aa=block, samples_needed=min(plan.samples_needed, _LEAST_SAMPLES))


def _aa_block(bench: Bench, rate_per_s: float, plan: BlockPlan) -> Block:
    labels = [BASELINE, *(f"twin{i}" for i in range(1, _TWINS + 1))]
    bench.progress.phase("noise of identical instances", plan.cost_s(len(labels)))
    spec = BlockSpec(
        phase="aa",
        index=0,
        arms=tuple(Arm(label, bench.baseline) for label in labels),
        plan=plan,
        mode=bench.goals.mode,
        rate_per_s=rate_per_s,
        needs_all=True,
    )
    return run_block(bench, spec)


def _sigma(bench: Bench, block: Block, plan: BlockPlan) -> float:
    seen = pooled_sigma(aa_differences([block], bench.objective)).sigma_d
    of_windows = _expected_sigma(bench, block)
    fewer = (_ROUNDS * _WINDOW_S) / (plan.rounds * plan.window_s)
    of_starts = max(0.0, seen**2 - of_windows**2)
    return math.sqrt(of_starts + of_windows**2 * min(1.0, fewer))


def _expected_sigma(bench: Bench, block: Block) -> float:
    """Return the expected noise of a block's difference, from the windows of one block.

    The standard deviation of the pseudomedian of R rounds, √(π/3)·s/√R, with s from the median
    absolute deviation of differences within rounds, which a few disturbed ones do not move. 0 for a
    capacity, which has no spread within one block.
    """
    if bench.objective.slo:
        return 0.0
    logs = np.array(
        [
            [bench.objective.ln(window) for window in counted_windows(block, i.instance)]
            for i in block.instances
        ]
    )
    between = logs[1:] - logs[:-1]
    spread = between - np.median(between, axis=1, keepdims=True)
    s = 1.4826 * float(np.median(np.abs(spread)))
    return s * math.sqrt(math.pi / 3 / logs.shape[1])
