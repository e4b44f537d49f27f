"""Figures of each arm by block: the pairs of a comparison.

In a block the baseline and the candidate are measured in the same few seconds. The r-th window of
one arm and the r-th window of the other form round r.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from tuner.goals.goals import Goals
from tuner.goals.metric import cpu_us_per_request, difference_ln, memory_mib, typical_ln
from tuner.goals.objective import Objective
from tuner.judge.scoring import BASELINE, counted_windows, windows_of
from tuner.judge.whole import WholeArms
from tuner.measurement.latency import merge
from tuner.measurement.window import Measurement
from tuner.record.model import Block, BlockState, Phase, Record
from tuner.stats.paired import PairedEstimate, estimate, pseudomedians
from tuner.stats.words import counted

INTERRUPTED = "interrupted"
"""Reason of a block that the user stopped."""

Reading = Callable[[Sequence[Measurement]], float]
"""Logarithm of an arm's figure in a block, from its windows there; NaN where unknown."""
BlockDifference = Callable[[Sequence[Measurement], Sequence[Measurement]], float]
"""Log ratio of two arms' figures in a block, likewise."""


@dataclass(frozen=True, slots=True)
class PairedBlock:
    """One block of baseline and candidate, with the windows of each in the order of rounds."""

    number: int
    index: int
    phase: Phase
    started_unix_s: float
    state: BlockState
    reason: str
    """Why the block does not count; empty if it does."""
    baseline: tuple[Measurement, ...]
    candidate: tuple[Measurement, ...]
    """Windows of the rounds that are valid for both arms."""
    measured: tuple[int, int]
    """Windows of baseline and candidate, valid or not."""
    invalid: tuple[int, int]
    """Invalid ones of these windows."""
    failed: int
    """Windows of both that are invalid because the server failed the load."""
    places: tuple[tuple[int, int], ...]
    """For each round, the places of baseline and candidate in the order of measurement."""
    slots: tuple[int, int] | None = None
    """Slots of baseline and candidate in the deployment; None where the record lacks them."""

    @property
    def used(self) -> bool:
        """True if the block counts."""
        return not self.reason

    def values(self, objective: Objective) -> tuple[float, float]:
        """Return the figures of baseline and candidate; NaN for an arm without one.

        The candidate's is the baseline's times the block's ratio, so that they agree with it. In a
        block without a ratio it is that of the candidate's own windows.
        """
        baseline, candidate = objective.arm_ln(self.baseline), objective.arm_ln(self.candidate)
        difference = self.difference(objective.difference_ln)
        if math.isfinite(baseline + difference):
            candidate = baseline + difference
        return math.exp(baseline), math.exp(candidate)

    def excluded(self) -> tuple[float, float]:
        """Return the shares of excluded requests of baseline and candidate."""
        return excluded_share(self.baseline), excluded_share(self.candidate)

    def difference(self, of: BlockDifference) -> float:
        """Return the log ratio candidate / baseline; NaN if an arm has no figure."""
        return of(self.candidate, self.baseline)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of both arms over the confirmation."""

    name: str
    unit: str
    """``µs``, ``/s``, ``MiB``, ``s``, ``share`` or empty."""
    baseline: float
    """Pseudomedian over blocks of the baseline's value in logarithms; NaN where unknown."""
    candidate: float
    """``baseline`` times the ratio of ``change``. Without one, both are medians over blocks."""
    change: PairedEstimate | None
    """Ratio with its 95 % interval; None where an arm's figure is zero or unknown."""
    whole: bool = False
    """True for a figure of all requests or of the worst starts, which has no interval."""

    @property
    def ratio(self) -> float:
        """Ratio candidate / baseline; NaN where an arm's figure is zero or unknown."""
        if self.change is not None:
            return self.change.ratio
        known = self.baseline > 0 and self.candidate > 0
        return self.candidate / self.baseline if known else math.nan

    def claimed(self, change: PairedEstimate) -> Figure:
        """Return the figure with another estimate of its ratio."""
        return replace(self, candidate=self.baseline * change.ratio, change=change)


@dataclass(frozen=True, slots=True)
class SpectrumPoint:
    """One point of a percentile spectrum."""

    quantile: float
    value_us: float


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The percentiles of one arm over all windows of the confirmation, for charts only."""

    arm: str
    stall_free: bool
    count: int
    points: tuple[SpectrumPoint, ...]


def paired_blocks(
    record: Record, phase: Phase, candidate: str, reading: Reading
) -> tuple[PairedBlock, ...]:
    """Return the blocks of a phase with both arms, in order of time, used or with a reason.

    Args:
        candidate: digest of the candidate.
        reading: the objective's figure; a block in which an arm has none is not used.
    """
    blocks = [block for block in record.blocks if block.phase == phase]
    return tuple(_pair(block, candidate, reading) for block in blocks)


def block_labels(blocks: Sequence[PairedBlock]) -> tuple[str, ...]:
    """Return a distinct name for every block of a phase: ``4``, or ``4 ✕`` if it is not used."""
    seen: Counter[str] = Counter()
    labels = []
    for block in blocks:
        label = str(block.index + 1) if block.used else f"{block.index + 1} ✕"
        seen[label] += 1
        labels.append(label if seen[label] == 1 else f"{label}{seen[label]}")
    return tuple(labels)


def figures(blocks: Sequence[PairedBlock], goals: Goals) -> tuple[Figure, ...]:
    """Return all figures of both arms over the used blocks, objectives first."""
    used = [block for block in blocks if block.used]
    own = [
        _figure(used, o.words, o.unit, reading=o.arm_ln, change=o.difference_ln)
        for o in goals.objectives
    ]
    shown = {o.words for o in goals.objectives} | {_SAME.get(o.name, "") for o in goals.objectives}
    limited = {c.metric.name: c.metric for c in goals.limits if c.metric.quantile is not None}
    known = {name for name, _, _ in _METRICS}
    further = [(m.name, m.unit, m.value) for m in limited.values() if m.name not in known]
    # Windows of a capacity search have different rates, so their latencies are not comparable.
    apart = _AT_ONE_RATE if goals.seek else frozenset()
    for name, unit, metric in (*further, *_METRICS):
        if name not in shown and name not in apart:
            own.append(figure_of(used, name, unit, metric))
    return tuple(f for f in own if f.name != _FIRST_BYTE or math.isfinite(f.baseline + f.candidate))


def figure_of(
    used: Sequence[PairedBlock], name: str, unit: str, metric: Callable[[Measurement], float]
) -> Figure:
    """Return one figure of every window, of both arms over the used blocks."""
    reading, change = partial(typical_ln, metric=metric), partial(difference_ln, metric=metric)
    return _figure(used, name, unit, reading=reading, change=change, metric=metric)


def whole_figures(objective: Objective, whole: WholeArms) -> tuple[Figure, ...]:
    """Return an objective's figures of all requests and of the worst starts; known ones only."""
    name, unit = objective.words, objective.unit
    rows = (
        (f"{name} of all requests", whole.pooled),
        (f"{name} of all requests, raw", whole.pooled_raw),
        (f"{name} of the worst {counted(whole.worst, 'start')}", whole.worst_starts),
    )
    return tuple(
        Figure(row, unit, baseline, candidate, None, whole=True)
        for row, (baseline, candidate) in rows
        if math.isfinite(baseline + candidate)
    )


def spectra(blocks: Sequence[PairedBlock]) -> tuple[Spectrum, ...]:
    """Return percentile spectra of both arms, stall-free and raw, merged over the used blocks."""
    used = [block for block in blocks if block.used]
    baseline = [window for block in used for window in block.baseline]
    candidate = [window for block in used for window in block.candidate]
    drawn = (
        _spectrum(arm, windows, stall_free=stall_free)
        for arm, windows in ((BASELINE, baseline), ("tuned", candidate))
        for stall_free in (True, False)
    )
    return tuple(spectrum for spectrum in drawn if spectrum.points)


def stalled_share(windows: Sequence[Measurement]) -> float:
    """Return the share of the arm's time in stalls; 0 without windows."""
    measured_s = sum(window.duration_s for window in windows)
    stalled_s = sum((window.stalled_share or 0.0) * window.duration_s for window in windows)
    return stalled_s / measured_s if measured_s else 0.0


def excluded_share(windows: Sequence[Measurement]) -> float:
    """Return the share of excluded requests over all windows; NaN without requests."""
    offered = sum(window.raw.count for window in windows)
    if not offered:
        return math.nan
    return sum(window.excluded_share * window.raw.count for window in windows) / offered


def _pair(block: Block, candidate: str, reading: Reading) -> PairedBlock:
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
        reason=_unused(block, ours, theirs, reading),
        baseline=tuple(ours),
        candidate=tuple(theirs),
        measured=(len(every[0]), len(every[1])),
        invalid=(
            sum(not window.valid for window in every[0]),
            sum(not window.valid for window in every[1]),
        ),
        failed=sum(window.bad for windows in every for window in windows),
        places=places,
        slots=_slots(block, (BASELINE, label)),
    )


def _slots(block: Block, labels: tuple[str, str | None]) -> tuple[int, int] | None:
    known = {i.instance: i.slot for i in block.instances}
    baseline, candidate = (known.get(label) if label else None for label in labels)
    return None if baseline is None or candidate is None else (baseline, candidate)


def _unused(
    block: Block, ours: Sequence[Measurement], theirs: Sequence[Measurement], reading: Reading
) -> str:
    if block.state == "running":
        return INTERRUPTED
    if block.state != "complete":
        return block.reason or block.state
    if not math.isfinite(reading(ours) + reading(theirs)):
        return "an arm has no figure"
    return ""


def _figure(
    used: Sequence[PairedBlock],
    name: str,
    unit: str,
    *,
    reading: Reading,
    change: BlockDifference,
    metric: Callable[[Measurement], float] | None = None,
) -> Figure:
    """Return a figure of both arms, by ``metric`` if it may be 0."""
    changes = [block.difference(change) for block in used]
    levels = [reading(block.baseline) for block in used]
    if changes and all(map(math.isfinite, (*changes, *levels))):
        found, baseline = estimate(changes), math.exp(float(pseudomedians(levels)))
        return Figure(name, unit, baseline, baseline * found.ratio, found)
    return Figure(
        name=name,
        unit=unit,
        baseline=_typical([block.baseline for block in used], reading, metric),
        candidate=_typical([block.candidate for block in used], reading, metric),
        change=None,
    )


def _typical(
    blocks: Sequence[Sequence[Measurement]],
    reading: Reading,
    metric: Callable[[Measurement], float] | None,
) -> float:
    """Return the median over blocks of each block's figure."""
    values = []
    for windows in blocks:
        value = math.exp(reading(windows))
        if math.isnan(value) and metric and windows:
            value = median(map(metric, windows))
        values.append(value)
    return median(values) if values and all(map(math.isfinite, values)) else math.nan


def _spectrum(arm: str, windows: Sequence[Measurement], *, stall_free: bool) -> Spectrum:
    texts = [window.stall_free.hdr if stall_free else window.raw.hdr for window in windows]
    values_ns, counts = merge([text for text in texts if text])
    total = int(counts.sum())
    points = []
    if total:
        cumulative = counts.cumsum()
        # Even steps on the axis of nines, to the last percentile with ten requests.
        nines = math.log10(max(10.0, total / 10))
        for step in range(_STEPS + 1):
            quantile = 1 - 10 ** (-nines * step / _STEPS)
            slot = int(cumulative.searchsorted(max(1, math.ceil(quantile * total))))
            points.append(SpectrumPoint(quantile, float(values_ns[slot]) / 1e3))
    return Spectrum(arm, stall_free, total, tuple(points))


_STEPS = 80


def _failures(window: Measurement) -> float:
    return float(sum(window.errors.values()) + window.timeouts)


def _first_byte_p99_us(window: Measurement) -> float:
    return window.first_byte.p99_us if window.first_byte else math.nan


_SAME = {"cpu": "server CPU per request", "memory": "server memory (RSS)"}
"""Objectives with a longer name in the table as well."""
_FIRST_BYTE = "time to first byte p99"
"""A figure that not every generator and not every record has."""
_AT_ONE_RATE = frozenset(
    {"p50", "p90", "p99", "p99.9", "max", "p99, raw", "p99.9, raw", "service time p99"}
    | {_FIRST_BYTE, "send lag p99", "throughput"}
)
_METRICS: tuple[tuple[str, str, Callable[[Measurement], float]], ...] = (
    ("p50", "µs", lambda window: window.stall_free.p50_us),
    ("p90", "µs", lambda window: window.stall_free.p90_us),
    ("p99", "µs", lambda window: window.stall_free.p99_us),
    ("p99.9", "µs", lambda window: window.stall_free.p999_us),
    ("max", "µs", lambda window: window.stall_free.max_us),
    ("p99, raw", "µs", lambda window: window.raw.p99_us),
    ("p99.9, raw", "µs", lambda window: window.raw.p999_us),
    (_FIRST_BYTE, "µs", _first_byte_p99_us),
    ("service time p99", "µs", lambda window: window.service.p99_us),
    ("send lag p99", "µs", lambda window: window.send_lag.p99_us),
    ("throughput", "/s", lambda window: window.completed_per_s),
    ("server CPU per request", "µs", cpu_us_per_request),
    ("server memory (RSS)", "MiB", memory_mib),
    ("excluded by the stall rule", "share", lambda window: window.excluded_share),
    ("CPU time stolen per window", "s", lambda window: window.steal_s),
    ("errors and timeouts per window", "", _failures),
    ("reconnects per window", "", lambda window: float(window.reconnects)),
)
