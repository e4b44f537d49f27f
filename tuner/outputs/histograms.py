"""HdrHistogram's own formats: percentile text (.hgrm) and interval log (.hlog), by arm.

Both formats have milliseconds; the histograms in a log have nanoseconds. An arm ``X`` has the
latencies that the verdict uses, without requests that stalls touched; ``X.raw`` has those of all
requests.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import quote

import numpy as np

from tuner.errors import DefinitionError, StoreError, quoted
from tuner.judge.results import StudyResult
from tuner.measurement.latency import HistogramCounts, merge, slot_midpoints
from tuner.measurement.window import Measurement
from tuner.outputs.observed import observed_arms

RAW = ".raw"
"""End of the label of an arm with all requests."""
_NS_PER_MS = 1e6
_TICKS_PER_HALF_DISTANCE = 5


def chosen_arms(studies: Sequence[StudyResult], arm: str | None, *, one: bool) -> list[str]:
    """Return the labels of the arms of a document.

    Args:
        studies: a study, or several.
        arm: label of an arm; None for all of them, without their raw latencies if ``one``.
        one: True if the document holds one arm.

    Raises:
        DefinitionError: the arm does not exist, or one of several must be named.
    """
    found = list(arm_windows(studies))
    plain = [label for label in found if not label.endswith(RAW)]
    if arm is None and not (one and len(plain) > 1):
        return plain if one else found
    if arm in found:
        return [arm]
    wrong = "name one of several arms" if arm is None else f"unknown arm {quoted(arm)}"
    raise DefinitionError(f"{wrong}; the arms: {', '.join(found) or 'none'}", path="--arm")


def render_hgrm(studies: Sequence[StudyResult], arms: Sequence[str]) -> str:
    """Return the percentile text of an arm's merged windows.

    Args:
        studies: a study, or several.
        arms: the label of one arm, as `chosen_arms` returns it; none without any measurement.

    Raises:
        StoreError: the record has no histogram of it.
    """
    found = arm_windows(studies)
    texts = [text for arm in arms for _, text in _histograms(found, arm)]
    return percentile_text(HistogramCounts(*merge(texts)))


def render_hlog(studies: Sequence[StudyResult], arms: Sequence[str]) -> str:
    """Return the interval log: a line for each window, tagged with its arm.

    Args:
        studies: a study, or several.
        arms: labels of the arms, as `chosen_arms` returns them.

    Raises:
        StoreError: the record has no histogram of an arm.
    """
    found = arm_windows(studies)
    lines = sorted(
        (window.started_unix_s, _interval(arm, window, text))
        for arm in arms
        for window, text in _histograms(found, arm)
    )
    started = min((instant for instant, _ in lines), default=0.0)
    date = datetime.fromtimestamp(started, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
    head = [
        "#[Histogram log format version 1.3]",
        f"#[StartTime: {started:.3f} (seconds since epoch), {date}]",
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
    ]
    return "\n".join([*head, *(line for _, line in lines)]) + "\n"


def arm_windows(studies: Sequence[StudyResult]) -> dict[str, list[Measurement]]:
    """Return the windows that count by the label of the arm, each label also with ``.raw``.

    Labels of several studies begin with the study's name.
    """
    found: dict[str, list[Measurement]] = {}
    for study in studies:
        for arm in observed_arms(study):
            label = arm.label if len(studies) == 1 else f"{arm.study}/{arm.label}"
            windows = [window for block in arm.blocks for window in block]
            found |= {label: windows, f"{label}{RAW}": windows}
    return found


def _histograms(
    found: Mapping[str, Sequence[Measurement]], arm: str
) -> list[tuple[Measurement, str]]:
    """Return the windows of an arm with the histogram that its label means."""
    raw = arm.endswith(RAW)
    texts = ((each, each.raw.hdr if raw else each.stall_free.hdr) for each in found[arm])
    kept = [(window, text) for window, text in texts if text]
    if not kept:
        raise StoreError(
            f"the record has no histograms of {quoted(arm)}: an exported record has only those of"
            " the confirmation; use the study's own record"
        )
    return kept


def _interval(arm: str, window: Measurement, text: str) -> str:
    # A tag ends at the first comma, and a line at a line feed.
    tag = quote(arm, safe="@:+./")
    raw = arm.endswith(RAW)
    largest_us = window.raw.max_us if raw else window.stall_free.max_us
    return (
        f"Tag={tag},{window.started_unix_s:.3f},{window.duration_s:.3f},"
        f"{largest_us / 1e3:.6f},{text}"
    )


def percentile_text(found: HistogramCounts) -> str:
    """Return HdrHistogram's percentile text, with values in milliseconds.

    The levels become denser towards the maximum: five up to 50 %, five from there to 75 %, and so
    on (``outputPercentileDistribution`` of HdrHistogram).
    """
    values_ns, counts = found.values_ns, found.counts
    total = int(counts.sum())
    lines = [f"{'Value':>12} {'Percentile':>12} {'TotalCount':>12} {'1/(1-Percentile)':>12}", ""]
    for value_ns, level, count in _levels(found):
        inverse = 1 / (1 - level) if level < 1 else math.inf
        lines.append(f"{value_ns / _NS_PER_MS:>12.6f} {level:>12.6f} {count:>12} {inverse:>12.2f}")
    middle = slot_midpoints(values_ns) / _NS_PER_MS
    mean = float(middle @ counts) / total if total else 0.0
    deviation = math.sqrt(float((middle - mean) ** 2 @ counts) / total) if total else 0.0
    largest = float(values_ns[-1]) / _NS_PER_MS if total else 0.0
    return "\n".join(
        [
            *lines,
            f"#[Mean    = {mean:>12.6f}, StdDeviation   = {deviation:>12.6f}]",
            f"#[Max     = {largest:>12.6f}, Total count    = {total:>12}]",
            f"#[Buckets = {32:>12}, SubBuckets     = {2048:>12}]",
            "",
        ]
    )


def _levels(found: HistogramCounts) -> Iterator[tuple[int, float, int]]:
    """Yield value in ns, level, and count up to the value."""
    below = np.cumsum(found.counts)
    total = int(below[-1]) if len(below) else 0
    level = 0.0
    for value_ns, count in zip(found.values_ns.tolist(), below.tolist(), strict=True):
        while level <= count / total:
            yield value_ns, level, count
            if count == total:
                break
            halvings = math.floor(math.log2(1 / (1 - level))) + 1
            level += 1 / (_TICKS_PER_HALF_DISTANCE * 2**halvings)
        if count == total:
            yield value_ns, 1.0, count
