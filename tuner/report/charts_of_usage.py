"""Charts of what was used: every window of the confirmation in order of time, as sar draws it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import altair as alt

from tuner.judge import usage
from tuner.judge.arms import block_labels
from tuner.judge.results import StudyResult
from tuner.judge.scoring import BASELINE
from tuner.judge.usage import UsageMetric
from tuner.measurement.window import Measurement
from tuner.report.vega import (
    ChartRow,
    arm_colour,
    arm_fill,
    arm_shape,
    data,
    layered,
    tooltips,
)
from tuner.words.figures import figure


def cpu_chart(study: StudyResult) -> alt.LayerChart | None:
    """Cores that the server kept busy."""
    return _chart(study, "server, cores busy", "", usage.cores("server"))


def behind_chart(study: StudyResult) -> alt.LayerChart | None:
    """Cores that the backend kept busy."""
    return _chart(study, "backend, cores busy", "", usage.cores("backend"))


def memory_chart(study: StudyResult) -> alt.LayerChart | None:
    """Resident memory of the server."""
    return _chart(study, "server, memory, MiB", "MiB", usage.memory_mib("server"))


def network_chart(study: StudyResult) -> alt.LayerChart | None:
    """Return the chart of the bytes that the host's interfaces sent."""
    return _chart(study, "host, sent, MiB/s", "MiB/s", usage.sent_mib_per_s)


def disk_chart(study: StudyResult) -> alt.LayerChart | None:
    """Return the chart of the bytes that the host wrote to its disks."""
    return _chart(study, "host, written, MiB/s", "MiB/s", usage.written_mib_per_s)


def switches_chart(study: StudyResult) -> alt.LayerChart | None:
    """Context switches of the server."""
    return _chart(study, "server, context switches/s", "/s", usage.switches_per_s)


def _chart(study: StudyResult, title: str, unit: str, metric: UsageMetric) -> alt.LayerChart | None:
    rows: list[ChartRow] = []
    start = min((block.started_unix_s for block in study.confirm), default=0.0)
    for block, label in zip(study.confirm, block_labels(study.confirm), strict=True):
        for arm, windows in ((BASELINE, block.baseline), ("tuned", block.candidate)):
            rows += [
                {
                    "arm": arm,
                    "block": label,
                    "at": (window.started_unix_s - start) / 60,
                    "value": value,
                    "shown": figure(value, unit),
                }
                for window, value in _values(windows, metric)
            ]
    if not rows:
        return None
    x = alt.X(
        "at:Q",
        title="minutes since the confirmation began",
        scale=alt.Scale(nice=False, padding=8),
        axis=alt.Axis(grid=False, tickCount=6, format="~g"),
    )
    y = alt.Y(
        "value:Q",
        title=None,
        scale=alt.Scale(zero=True, nice=True),
        axis=alt.Axis(tickCount=4, format=",.3~r"),
    )
    base = alt.Chart(data(rows)).encode(x, y, arm_colour())
    layers = [
        base.mark_line(strokeWidth=1, opacity=0.35),
        base.mark_point(size=24, strokeWidth=1.3, opacity=0.9).encode(
            arm_fill(), arm_shape(), tooltip=tooltips(block="block", arm="arm", shown=title)
        ),
    ]
    return layered(layers, 150)


def _values(windows: Sequence[Measurement], metric: UsageMetric) -> list[tuple[Measurement, float]]:
    found = ((window, metric(window)) for window in windows)
    return [(window, value) for window, value in found if math.isfinite(value)]
