"""Figures of a window and of an arm: latency, throughput, CPU, memory, errors.

Objectives and constraints share them, so their names have the same meaning.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tuner.errors import quoted
from tuner.measurement.window import Measurement
from tuner.stats.paired import pseudomedians

OTHERS = ("throughput", "cpu", "memory", "errors")
ALLOWED = f"a percentile such as p50, p99 or p99.9, or {', '.join(OTHERS[:-1])} or {OTHERS[-1]}"

PERCENTILE = re.compile(r"p([0-9]{1,2}(?:\.[0-9]{1,3})?)")


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure that every window has."""

    name: str
    """``p`` and a percentage, or one of ``OTHERS``."""

    @classmethod
    def parse(cls, text: str) -> Metric:
        """Parse a name; raise ValueError for an unknown one."""
        if text not in OTHERS and quantile_of(text) is None:
            raise ValueError(f"unknown figure {quoted(text)}; allowed: {ALLOWED}")
        return cls(text)

    @property
    def quantile(self) -> float | None:
        """Quantile of a percentile, 0.99 for ``p99``; None for other figures."""
        return quantile_of(self.name)

    @property
    def larger_is_better(self) -> bool:
        """True for throughput."""
        return self.name == "throughput"

    @property
    def unit(self) -> str:
        """Unit of ``value``."""
        return _UNITS.get(self.name, "µs")

    @property
    def samples_needed(self) -> int:
        """Requests that a window needs: 100 beyond the quantile, so 10,000 for p99.

        With 10,000 samples the order-statistic interval of p99 spans p98.8 to p99.2.
        """
        if self.quantile is None:
            return 1_000
        return max(2_000, round(100 / (1 - self.quantile)))

    @property
    def samples_least(self) -> int:
        """Requests below which a window has no figure: 4 beyond the quantile, so 400 for p99.

        With fewer than 368 the order-statistic interval of p99 has no upper end at 95 %.
        """
        return 100 if self.quantile is None else max(100, round(4 / (1 - self.quantile)))

    def value(self, window: Measurement) -> float:
        """The figure of one window, stall-free where the stall rule applies; NaN if unknown."""
        if self.name in _VALUES:
            return _VALUES[self.name](window)
        return window.stall_free.value_us(self.name)


def quantile_of(name: str) -> float | None:
    """Return 0.995 for ``p99.5``; None for other names."""
    match = PERCENTILE.fullmatch(name)
    share = float(match[1]) / 100 if match else 0.0
    return share if share > 0 else None


def typical_ln(windows: Sequence[Measurement], metric: Callable[[Measurement], float]) -> float:
    """Return the logarithm of an arm's typical window in a block, the median over rounds.

    A host that loses a tenth of its speed for a fifth of a second makes one window's p99 ten or a
    hundred times what it is elsewhere; a mean of logarithms follows such a window, the median
    does not. Rare effects of the configuration itself remain visible: p99.9 and the spread over
    windows are reported. ``difference_ln`` is the difference of two arms.

    Returns:
        NaN without windows, or if a value is not positive and finite.
    """
    values = [metric(window) for window in windows]
    if not values or not all(math.isfinite(value) and value > 0 for value in values):
        return math.nan
    return statistics.median(map(math.log, values))


def difference_ln(
    own: Sequence[Measurement],
    other: Sequence[Measurement],
    metric: Callable[[Measurement], float],
) -> float:
    """Return the log ratio of two arms in a block: the pseudomedian of its rounds' log ratios.

    The windows of a round are a second or two apart, so the host's state at that time (a neighbour
    on the same core, a lower clock) affects both and cancels; in the medians of whole arms it does
    not. In recorded confirmations on a host with two speeds, the difference of a block was a fifth
    less noisy by rounds, for latency, CPU and throughput. Chance decides which arm of a round is
    disturbed, so without a difference the sign stays random.

    Returns:
        ln(own / other); NaN if no round has both, or if a value is not positive and finite.
    """
    values = {window.round: metric(window) for window in other}
    pairs = [(metric(window), values[window.round]) for window in own if window.round in values]
    if not pairs or not all(math.isfinite(v) and v > 0 for pair in pairs for v in pair):
        return math.nan
    return float(pseudomedians([math.log(mine / theirs) for mine, theirs in pairs]))


def cpu_us_per_request(window: Measurement) -> float:
    """Return CPU time of the server's processes per answered request, µs; NaN if unreadable."""
    if window.server_cpu_s is None or not window.completed:
        return math.nan
    return window.server_cpu_s / window.completed * 1e6


def memory_mib(window: Measurement) -> float:
    """Return total resident memory of the server's processes, MiB; NaN if unreadable.

    Pages that processes share count for each of them (``statm``, proc(5)).
    """
    return math.nan if window.server_rss_bytes is None else window.server_rss_bytes / 2**20


def error_share(window: Measurement) -> float:
    """Return the share of the offered requests that failed or timed out."""
    failed = sum(window.errors.values()) + window.timeouts
    return failed / window.offered if window.offered else math.nan


_VALUES: dict[str, Callable[[Measurement], float]] = {
    "throughput": lambda window: window.completed_per_s,
    "cpu": cpu_us_per_request,
    "memory": memory_mib,
    "errors": error_share,
}
_UNITS = {"throughput": "requests/s", "memory": "MiB", "errors": "share"}
