"""Figures of whole arms, which a claim about the typical block must not contradict.

The verdict rests on the typical block: the pseudomedian over blocks of a typical difference between
rounds. A user gets all requests, from every start. A configuration with a few very slow windows, or
with a start in five that is slow, may be better in the typical block and worse for the user.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.goals.metric import difference_ln
from tuner.goals.objective import Objective
from tuner.measurement.latency import Nanoseconds, merge, merge_decoded
from tuner.measurement.window import Measurement
from tuner.stats.margin import Margin
from tuner.stats.paired import PairedEstimate, estimate
from tuner.stats.words import counted, percent
from tuner.words.figures import figure, interval

WORST_SHARE = 0.10
"""Share of the starts that are the worst ones, rounded up to a whole start."""

Arms = tuple[Sequence[Measurement], Sequence[Measurement]]
"""Windows of baseline and candidate in one block."""


@dataclass(frozen=True, slots=True)
class WholeArms:
    """Both arms over all blocks together, for one objective."""

    pooled: tuple[float, float]
    """Figure of all requests of baseline and candidate; NaN if unknown, as for a capacity."""
    pooled_raw: tuple[float, float]
    """The same with the requests that stalls touched; NaN unless the objective is a percentile."""
    worst_start: tuple[float, float]
    """Figure of the worst start of baseline and candidate."""
    worst_starts: tuple[float, float]
    """Geometric mean of the worst tenth of the starts, rounded up."""
    raw: PairedEstimate | None
    """Ratio with the requests that stalls touched, from typical blocks; None if unknown."""
    starts: int
    """Number of starts of each arm: one per block, and the further ones."""

    @property
    def worst(self) -> int:
        """Number of starts in ``worst_starts``."""
        return math.ceil(WORST_SHARE * self.starts)

    @property
    def most_hidden_share(self) -> float:
        """Largest share of bad starts that all starts miss with a probability of 5 %."""
        return hidden_share(self.starts)


def hidden_share(starts: int) -> float:
    """Return the share of a kind of start that these all miss with a probability of 5 %."""
    return 1 - math.pow(0.05, 1 / starts)


def whole_arms(
    objective: Objective, blocks: Sequence[Arms], more: Sequence[Arms] = ()
) -> WholeArms:
    """Return the figures of both arms over all blocks that count.

    Args:
        objective: the figure.
        blocks: of each block the windows of baseline and candidate; at least one block.
        more: the same of further starts, which belong to the worst starts alone.
    """
    arms = [[list(block[place]) for block in blocks] for place in (0, 1)]
    starts = [*blocks, *more]
    levels = [
        sorted((objective.loss(objective.arm_ln(pair[place])) for pair in starts), reverse=True)
        for place in (0, 1)
    ]
    worst = math.ceil(WORST_SHARE * len(starts))

    def mean(count: int) -> tuple[float, float]:
        first, second = (math.exp(objective.loss(statistics.fmean(x[:count]))) for x in levels)
        return first, second

    return WholeArms(
        pooled=(_pooled(objective, arms[0]), _pooled(objective, arms[1])),
        pooled_raw=(_pooled_raw(objective, arms[0]), _pooled_raw(objective, arms[1])),
        worst_start=mean(1),
        worst_starts=mean(worst),
        raw=_raw(objective, blocks),
        starts=len(starts),
    )


def contradiction(
    objective: Objective,
    whole: WholeArms,
    margin: Margin,
    *,
    loss: bool = False,
    other: str = "the baseline",
) -> str:
    """Return why whole arms contradict a gain in the typical block; empty if they do not.

    All requests together and the worst starts must not be worse beyond the margin. Raw latencies
    are too noisy for that: they contradict if they are shown to be worse.

    Args:
        objective: the figure.
        whole: the figures of both arms.
        margin: smallest difference worth having.
        loss: True for a loss in the typical block, which better whole arms contradict.
        other: the arm that is compared with, in words.
    """
    name, unit = objective.words, objective.unit
    against = 1 if objective.larger_is_better == loss else -1
    for what, (baseline, candidate) in (
        (f"{name} of all requests together", whole.pooled),
        (
            f"{name} of the worst {counted(whole.worst, 'start')} of {whole.starts}",
            whole.worst_starts,
        ),
    ):
        if not (baseline > 0 and candidate > 0):
            continue
        ratio = candidate / baseline
        if margin.side(ratio, ratio) == against:
            return (
                f"{what} is {_compared(ratio, other)}"
                f" ({figure(baseline, unit)} → {figure(candidate, unit)})"
            )
    if whole.raw is not None and margin.side(whole.raw.low, whole.raw.high) == against:
        return (
            f"{name} with the requests that stalls touched is {_compared(whole.raw.ratio, other)}"
            f" (95 % interval {interval(whole.raw)})"
        )
    return ""


def _compared(ratio: float, other: str) -> str:
    """Return ``4.0 % higher than the baseline's``; from 2 on ``2.5 times the baseline's``."""
    if ratio >= 2:
        return f"{ratio:.3g} times {other}'s"
    return f"{percent(abs(ratio - 1))} {'higher' if ratio > 1 else 'lower'} than {other}'s"


def _pooled(objective: Objective, blocks: Sequence[Sequence[Measurement]]) -> float:
    if objective.quantile is not None:
        texts = [tuple(window.stall_free.hdr for window in windows) for windows in blocks]
        return _quantile_us(texts, objective.quantile)
    windows = [window for found in blocks for window in found]
    if objective.name == "throughput":
        return _over(windows, lambda w: float(w.completed), lambda w: w.duration_s)
    if objective.name == "cpu":
        return 1e6 * _over(windows, lambda w: w.server_cpu_s, lambda w: float(w.completed))
    if objective.name == "memory":
        return _over(windows, objective.value, lambda _: 1.0)
    return math.nan


def _pooled_raw(objective: Objective, blocks: Sequence[Sequence[Measurement]]) -> float:
    if objective.quantile is None:
        return math.nan
    texts = [tuple(window.raw.hdr for window in windows) for windows in blocks]
    return _quantile_us(texts, objective.quantile)


def _raw(objective: Objective, blocks: Sequence[Arms]) -> PairedEstimate | None:
    if objective.quantile is None:
        return None

    def raw_us(window: Measurement) -> float:
        return window.raw.value_us(objective.name)

    found = [difference_ln(candidate, baseline, raw_us) for baseline, candidate in blocks]
    return estimate(found) if all(map(math.isfinite, found)) else None


def _over(
    windows: Sequence[Measurement],
    above: Callable[[Measurement], float | None],
    below: Callable[[Measurement], float],
) -> float:
    """Return the sum of one figure by the sum of another; NaN if a window lacks it."""
    found = [above(window) for window in windows]
    total = sum(below(window) for window in windows)
    known = [value for value in found if value is not None]
    return sum(known) / total if len(known) == len(found) and total > 0 else math.nan


def _quantile_us(blocks: Sequence[tuple[str, ...]], quantile: float) -> float:
    """Return a quantile of merged histograms, to their 3 significant digits; NaN without any."""
    if not all(text for block in blocks for text in block):
        return math.nan
    values_ns, counts = merge_decoded([_of_block(block) for block in blocks])
    total = int(counts.sum())
    if not total:
        return math.nan
    rank = max(1, math.ceil(quantile * total - 1e-9))
    return float(values_ns[int(counts.cumsum().searchsorted(rank))]) / 1e3


# A sequential confirmation looks at the same blocks after every block.
@functools.lru_cache(maxsize=512)
def _of_block(histograms: tuple[str, ...]) -> tuple[Nanoseconds, NDArray[np.int64]]:
    return merge(list(histograms))
