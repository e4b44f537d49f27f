"""What each arm gave, block by block: the pairs that a comparison rests on.

In a block the baseline and the candidate are measured in the same few seconds. The r-th window of
one arm and the r-th window of the other form round r.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from tuner.latency import merge
from tuner.measurement import Measurement
from tuner.objective import Objective
from tuner.record import Block, BlockState, Phase, Record
from tuner.scoring import BASELINE, counted_windows, typical_ln, windows_of
from tuner.stats.paired import PairedEstimate, estimate

INTERRUPTED = "interrupted"
"""Why a block does not count that the user stopped."""

Metric = Callable[[Measurement], float]


@dataclass(frozen=True, slots=True)
class PairedBlock:
    """One block of baseline and candidate, with the windows of each in the order of rounds."""

    number: int
    index: int
    phase: Phase
    started_unix_s: float
    state: BlockState
    reason: str
    """Why it does not count; empty if it does."""
    baseline: tuple[Measurement, ...]
    candidate: tuple[Measurement, ...]
    """Windows of the rounds that count: those that were valid for both arms."""
    measured: tuple[int, int]
    """Windows of baseline and candidate, valid or not."""
    invalid: tuple[int, int]
    """Those of them that were not valid."""
    places: tuple[tuple[int, int], ...]
    """For each round, the places of baseline and candidate in the order of measurement."""

    @property
    def used(self) -> bool:
        """Whether the block counts."""
        return not self.reason

    def values(self, metric: Metric) -> tuple[float, float]:
        """Typical windows of baseline and candidate; NaN for an arm without one."""
        return block_value(self.baseline, metric), block_value(self.candidate, metric)

    def excluded(self) -> tuple[float, float]:
        """Shares of requests that the stall rule excluded, of baseline and candidate."""
        return excluded_share(self.baseline), excluded_share(self.candidate)

    def difference(self, metric: Metric) -> float:
        """Log ratio candidate / baseline of their typical windows; NaN if an arm has none."""
        return typical_ln(self.candidate, metric) - typical_ln(self.baseline, metric)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of both arms over the confirmation: what changed, and what was traded."""

    name: str
    unit: str
    """``µs``, ``/s``, ``MiB``, ``s``, ``share`` or empty."""
    baseline: float
    """Median over blocks of the block's value; NaN where unknown."""
    candidate: float
    change: PairedEstimate | None
    """Ratio with its 95 % interval; None where an arm's figure is zero or unknown."""


@dataclass(frozen=True, slots=True)
class SpectrumPoint:
    """One point of a percentile spectrum."""

    quantile: float
    value_us: float


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The percentiles of one arm over all windows of the confirmation, for the eye alone."""

    arm: str
    stall_free: bool
    count: int
    points: tuple[SpectrumPoint, ...]


def pairs(record: Record, phase: Phase, candidate: str, metric: Metric) -> tuple[PairedBlock, ...]:
    """The blocks of a phase that hold both arms, in order of time, each used or with a reason.

    Args:
        candidate: digest of the candidate.
        metric: the objective's figure; a block in which it is not positive is not used.
    """
    blocks = [block for block in record.blocks if block.phase == phase]
    return tuple(_pair(block, candidate, metric) for block in blocks)


def block_labels(blocks: Sequence[PairedBlock]) -> tuple[str, ...]:
    """A distinct name for every block of a phase: ``4``, or ``4 ✕`` if it is not used."""
    seen: Counter[str] = Counter()
    labels = []
    for block in blocks:
        label = str(block.index + 1) if block.used else f"{block.index + 1} ✕"
        seen[label] += 1
        labels.append(label if seen[label] == 1 else f"{label}{seen[label]}")
    return tuple(labels)


def block_value(windows: Sequence[Measurement], metric: Metric) -> float:
    """An arm's value in a block, its typical window: the median over rounds, or NaN."""
    return math.exp(typical_ln(windows, metric))


def figures(blocks: Sequence[PairedBlock], objective: Objective) -> tuple[Figure, ...]:
    """Every figure of both arms over the used blocks; the objective's own comes first."""
    used = [block for block in blocks if block.used]
    metrics: list[tuple[str, str, Metric]] = [(objective.name, _unit(objective), objective.value)]
    metrics += [entry for entry in _METRICS if entry[0] != objective.name]
    return tuple(_figure(used, name, unit, metric) for name, unit, metric in metrics)


def spectra(blocks: Sequence[PairedBlock]) -> tuple[Spectrum, ...]:
    """Percentile spectra of both arms, stall-free and raw, merged over the used blocks."""
    used = [block for block in blocks if block.used]
    baseline = [window for block in used for window in block.baseline]
    candidate = [window for block in used for window in block.candidate]
    drawn = (
        _spectrum(arm, windows, stall_free=stall_free)
        for arm, windows in ((BASELINE, baseline), ("tuned", candidate))
        for stall_free in (True, False)
    )
    return tuple(spectrum for spectrum in drawn if spectrum.points)


def excluded_share(windows: Sequence[Measurement]) -> float:
    """Share of requests that the stall rule excluded, over all windows; NaN without requests."""
    offered = sum(window.raw.count for window in windows)
    if not offered:
        return math.nan
    return sum(window.excluded_share * window.raw.count for window in windows) / offered


def _pair(block: Block, candidate: str, metric: Metric) -> PairedBlock:
    label = next(
        (
            instance.instance
            for instance in block.instances
            if instance.instance != BASELINE and instance.digest == candidate
        ),
        None,
    )
    ours = counted_windows(block, BASELINE)
    theirs = counted_windows(block, label) if label else []
    every = (windows_of(block, BASELINE), windows_of(block, label) if label else [])
    order = {id(window): place for place, window in enumerate(block.windows)}
    places = tuple(
        (0, 1) if order[id(first)] < order[id(second)] else (1, 0)
        for first, second in zip(ours, theirs, strict=False)
    )
    return PairedBlock(
        number=block.number,
        index=block.index,
        phase=block.phase,
        started_unix_s=block.started_unix_s,
        state=block.state,
        reason=_unused(block, ours, theirs, metric),
        baseline=tuple(ours),
        candidate=tuple(theirs),
        measured=(len(every[0]), len(every[1])),
        invalid=(
            sum(not window.valid for window in every[0]),
            sum(not window.valid for window in every[1]),
        ),
        places=places,
    )


def _unused(
    block: Block, ours: Sequence[Measurement], theirs: Sequence[Measurement], metric: Metric
) -> str:
    if block.state == "running":
        return INTERRUPTED
    if block.state != "complete":
        return block.reason or block.state
    if not math.isfinite(typical_ln(ours, metric) + typical_ln(theirs, metric)):
        return "an arm has no figure"
    return ""


def _figure(used: Sequence[PairedBlock], name: str, unit: str, metric: Metric) -> Figure:
    changes = [block.difference(metric) for block in used]
    return Figure(
        name=name,
        unit=unit,
        baseline=_typical([block.baseline for block in used], metric),
        candidate=_typical([block.candidate for block in used], metric),
        change=estimate(changes) if changes and all(map(math.isfinite, changes)) else None,
    )


def _typical(blocks: Sequence[Sequence[Measurement]], metric: Metric) -> float:
    """Median over blocks of each block's median over windows."""
    values = []
    for windows in blocks:
        value = block_value(windows, metric)
        plain = [metric(window) for window in windows]
        values.append(median(plain) if math.isnan(value) and plain else value)
    return median(values) if values and all(map(math.isfinite, values)) else math.nan


def _spectrum(arm: str, windows: Sequence[Measurement], *, stall_free: bool) -> Spectrum:
    texts = [window.stall_free.hdr if stall_free else window.raw.hdr for window in windows]
    values_ns, counts = merge([text for text in texts if text])
    total = int(counts.sum())
    points = []
    if total:
        cumulative = counts.cumsum()
        # Even steps on the axis of nines, to the last percentile that holds ten requests.
        nines = math.log10(max(10.0, total / 10))
        for step in range(_STEPS + 1):
            quantile = 1 - 10 ** (-nines * step / _STEPS)
            slot = int(cumulative.searchsorted(max(1, math.ceil(quantile * total))))
            points.append(SpectrumPoint(quantile, float(values_ns[slot]) / 1e3))
    return Spectrum(arm, stall_free, total, tuple(points))


_STEPS = 80


def _unit(objective: Objective) -> str:
    return "µs" if objective.quantile is not None else "/s"


def _cpu_us_per_request(window: Measurement) -> float:
    if window.server_cpu_s is None or not window.completed:
        return math.nan
    return window.server_cpu_s / window.completed * 1e6


def _memory_mib(window: Measurement) -> float:
    return math.nan if window.server_rss_bytes is None else window.server_rss_bytes / 2**20


def _failures(window: Measurement) -> float:
    return float(sum(window.errors.values()) + window.timeouts)


_METRICS: tuple[tuple[str, str, Metric], ...] = (
    ("p50", "µs", lambda window: window.stall_free.p50_us),
    ("p90", "µs", lambda window: window.stall_free.p90_us),
    ("p99", "µs", lambda window: window.stall_free.p99_us),
    ("p99.9", "µs", lambda window: window.stall_free.p999_us),
    ("max", "µs", lambda window: window.stall_free.max_us),
    ("p99, raw", "µs", lambda window: window.raw.p99_us),
    ("p99.9, raw", "µs", lambda window: window.raw.p999_us),
    ("service time p99", "µs", lambda window: window.service.p99_us),
    ("send lag p99", "µs", lambda window: window.send_lag.p99_us),
    ("throughput", "/s", lambda window: window.completed_per_s),
    ("server CPU per request", "µs", _cpu_us_per_request),
    ("server memory (RSS)", "MiB", _memory_mib),
    ("excluded by the stall rule", "share", lambda window: window.excluded_share),
    ("CPU time stolen per window", "s", lambda window: window.steal_s),
    ("errors and timeouts per window", "", _failures),
    ("reconnects per window", "", lambda window: float(window.reconnects)),
)
