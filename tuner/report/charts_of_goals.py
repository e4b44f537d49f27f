"""Charts of what is wanted: the front of two objectives, the windows that seek a capacity."""

from __future__ import annotations

import math

import altair as alt

from tuner.goals.objective import Objective
from tuner.judge.results import StudyResult
from tuner.judge.scoring import BASELINE
from tuner.report.embed import MUTED
from tuner.report.vega import (
    BASELINE_COLOUR,
    SURFACE,
    TUNED_COLOUR,
    ChartRow,
    arm_colour,
    arm_fill,
    arm_shape,
    data,
    layered,
    log_axis,
    padded,
    tooltips,
    value_axis,
)
from tuner.words.figures import figure, ratio


def front_chart(study: StudyResult) -> alt.LayerChart | None:
    """Return every trial by its mean ratios in the search, with the front and the chosen point."""
    first, second = study.objective, study.goals.second
    seen = [t for t in study.trials if math.isfinite(t.ratio) and math.isfinite(t.second)]
    if second is None or not seen:
        return None
    rows: list[ChartRow] = [
        {
            "trial": trial.number,
            "x": trial.ratio,
            "y": trial.second,
            "kind": _kind(front=trial.front, violates=trial.violates),
            "chosen": str(trial.digest == study.candidate),
            "blocks": trial.blocks,
            "shown": f"{ratio(trial.ratio)} and {ratio(trial.second)}",
        }
        for trial in seen
    ]
    across, up = padded([1.0, *(t.ratio for t in seen)]), padded([1.0, *(t.second for t in seen)])
    x = alt.X(
        "x:Q",
        title=_title(first),
        scale=alt.Scale(type="log", domain=across, nice=False),
        axis=log_axis(across, format=".3~f"),
    )
    y = alt.Y(
        "y:Q",
        title=_title(second),
        scale=alt.Scale(type="log", domain=up, nice=False),
        axis=log_axis(up, format=".3~f"),
    )
    colour = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=list(_KINDS), range=[TUNED_COLOUR, MUTED, MUTED]),
        legend=None,
    )
    shape = alt.Shape(
        "kind:N",
        scale=alt.Scale(domain=list(_KINDS), range=["circle", "circle", "cross"]),
        legend=None,
    )
    fill = alt.condition("datum.chosen == 'True'", alt.value(TUNED_COLOUR), alt.value(SURFACE))
    ahead = [row for row in rows if row["kind"] == _KINDS[0]]
    base = alt.Chart(data(rows))
    layers = [
        alt.Chart(data([{"x": 1.0}])).mark_rule(color=BASELINE_COLOUR, opacity=0.5).encode(x),
        alt.Chart(data([{"y": 1.0}])).mark_rule(color=BASELINE_COLOUR, opacity=0.5).encode(y),
        alt.Chart(data(ahead))
        .mark_line(color=TUNED_COLOUR, strokeWidth=1.5, interpolate="step-after", opacity=0.7)
        .encode(x, y),
        base.mark_point(size=60, strokeWidth=1.5, opacity=1).encode(
            x,
            y,
            colour,
            shape,
            fill=fill,
            tooltip=tooltips(trial="trial", shown="ratios", blocks="blocks", kind="standing"),
        ),
    ]
    return layered(layers, 280)


def rates_chart(study: StudyResult) -> alt.LayerChart | None:
    """Return every window of the confirmation at its rate, against the limit of the capacity."""
    slo = study.goals.seek
    if slo is None or not study.used:
        return None
    latency = Objective(slo.metric.name)
    rows: list[ChartRow] = [
        {
            "arm": arm,
            "rate": window.rate_per_s,
            "value": slo.metric.value(window),
            "offered": figure(window.rate_per_s, "/s"),
            "shown": figure(slo.metric.value(window), "µs"),
        }
        for block in study.used
        for arm, windows in ((BASELINE, block.baseline), ("tuned", block.candidate))
        for window in windows
    ]
    x = alt.X(
        "rate:Q",
        title="offered rate, requests/s",
        scale=alt.Scale(zero=False, padding=24),
        axis=alt.Axis(format=",d", tickCount=5),
    )
    y = value_axis(latency, "value", [slo.limit, *(float(row["value"] or 0.0) for row in rows)])
    layers = [
        alt.Chart(data([{"value": slo.limit}])).mark_rule(color=MUTED, strokeDash=[4, 3]).encode(y),
        alt.Chart(data(rows))
        .mark_point(size=40, strokeWidth=1.5)
        .encode(
            x,
            y,
            arm_colour(),
            arm_fill(),
            arm_shape(),
            tooltip=tooltips(arm="arm", offered="offered", shown=latency.name),
        ),
    ]
    return layered(layers, 260)


_KINDS = ("on the front", "behind it", "beyond a limit")


def _kind(*, front: bool, violates: bool) -> str:
    return _KINDS[2] if violates else _KINDS[0] if front else _KINDS[1]


def _title(objective: Objective) -> str:
    better = "larger" if objective.larger_is_better else "smaller"
    # Short: on its side it has the height of the chart.
    return f"{objective.words} ÷ baseline, {better} is better"
