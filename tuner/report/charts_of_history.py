"""Charts of the way to the result: load points, search, parameter importance, A/A."""

from __future__ import annotations

import math

import altair as alt

from tuner.judge.importance import shown_importance
from tuner.judge.results import StudyResult
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


def load_points_chart(study: StudyResult) -> alt.LayerChart | None:
    """Return both arms against the offered rate, with the range of their windows."""
    goal = study.objective
    rows: list[ChartRow] = [
        {
            "arm": point.arm,
            "rate": point.rate_per_s,
            "value": point.value,
            "low": point.low,
            "high": point.high,
            "offered": figure(point.rate_per_s, "/s"),
            "shown": figure(point.value, goal.unit),
            "range": f"{figure(point.low, goal.unit)} to {figure(point.high, goal.unit)}",
        }
        for point in study.load_points
        if math.isfinite(point.value)
    ]
    if not rows:
        return None
    x = alt.X(
        "rate:Q",
        title="offered rate, requests/s",
        scale=alt.Scale(zero=False, padding=24),
        axis=alt.Axis(format=",d", tickCount=5),
    )
    y = value_axis(goal, "value", [e for p in study.load_points for e in (p.low, p.high)])
    base = alt.Chart(data(rows)).encode(x, arm_colour())
    layers = [
        base.mark_rule(strokeWidth=1.5, opacity=0.6).encode(alt.Y("low:Q"), y2="high"),
        base.mark_line(strokeWidth=2).encode(y),
        base.mark_point(size=70, strokeWidth=2, opacity=1).encode(
            y,
            arm_fill(),
            arm_shape(),
            tooltip=tooltips(arm="arm", offered="offered", shown=goal.name, range="windows"),
        ),
    ]
    return layered(layers, 240)


def search_chart(study: StudyResult) -> alt.LayerChart | None:
    """Return each trial's mean ratio with the range over its blocks, and the best so far."""
    measured: list[ChartRow] = []
    refused: list[ChartRow] = []
    for trial in study.trials:
        row: ChartRow = {
            "trial": trial.number,
            "origin": trial.origin,
            "state": trial.state,
            "blocks": trial.blocks,
            "message": trial.message or "–",
            "chosen": str(trial.digest == study.candidate),
        }
        if trial.blocks:
            measured.append(
                row
                | {
                    "ratio": trial.ratio,
                    "low": trial.low,
                    "high": trial.high,
                    "best": trial.best_so_far,
                    "shown": f"{ratio(trial.ratio)} ({ratio(trial.low)} to {ratio(trial.high)})",
                }
            )
        elif trial.state == "infeasible":
            refused.append(row)
    if not measured:
        return None
    x = alt.X(
        "trial:Q",
        title="trial",
        scale=alt.Scale(domain=[-0.5, max(t.number for t in study.trials) + 0.5], nice=False),
        axis=alt.Axis(format="d", tickMinStep=1, grid=False),
    )
    domain = padded([1.0, *(end for t in study.trials if t.blocks for end in (t.low, t.high))])
    y = alt.Y(
        "ratio:Q",
        title=f"{study.objective.name}, ratio to baseline, log scale",
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=log_axis(domain, format=".3~f"),
    )
    shape = alt.Shape(
        "origin:N",
        scale=alt.Scale(
            domain=["baseline", "hand", "proposed"], range=["square", "diamond", "circle"]
        ),
        legend=None,
    )
    colour = alt.Color(
        "state:N",
        scale=alt.Scale(
            domain=["complete", "dropped", "racing"], range=[TUNED_COLOUR, MUTED, MUTED]
        ),
        legend=None,
    )
    fill = alt.condition("datum.chosen == 'True'", alt.value(TUNED_COLOUR), alt.value(SURFACE))
    base = alt.Chart(data(measured)).encode(x)
    layers = [
        alt.Chart(data([{"ratio": 1.0}]))
        .mark_rule(color=BASELINE_COLOUR, strokeWidth=1.5)
        .encode(y),
        base.mark_line(color=TUNED_COLOUR, strokeWidth=1.5, interpolate="step-after", opacity=0.7)
        .encode(alt.Y("best:Q"))
        .transform_filter("isValid(datum.best)"),
        base.mark_rule(strokeWidth=1.5, opacity=0.6).encode(alt.Y("low:Q"), colour, y2="high"),
        base.mark_point(size=60, strokeWidth=1.5, opacity=1).encode(
            y,
            colour,
            shape,
            fill=fill,
            tooltip=tooltips(
                trial="trial",
                origin="origin",
                state="state",
                blocks="blocks",
                shown="ratio (range)",
                message="message",
            ),
        ),
    ]
    if refused:
        layers.append(
            alt.Chart(data(refused))
            .mark_point(shape="cross", angle=45, size=60, color=MUTED, filled=True)
            .encode(
                x,
                y=alt.value(4),
                tooltip=tooltips(trial="trial", origin="origin", state="state", message="message"),
            )
        )
    return layered(layers, 280)


def importance_chart(study: StudyResult) -> alt.LayerChart | None:
    """Return the share of the variation in the search that each parameter explains, if known."""
    shares = shown_importance(study.record)
    rows: list[ChartRow] = [
        {"parameter": name, "share": share, "shown": figure(share, "share")}
        for name, share in sorted(shares.items(), key=lambda item: (-item[1], item[0]))
        if math.isfinite(share)
    ]
    if not rows:
        return None
    y = alt.Y("parameter:N", sort=None, title=None, axis=alt.Axis(ticks=False, domain=False))
    x = alt.X("share:Q", title=None, axis=None, scale=alt.Scale(domainMin=0))
    base = alt.Chart(data(rows)).encode(
        y, x, tooltip=tooltips(parameter="parameter", shown="share")
    )
    layers = [
        base.mark_bar(color=TUNED_COLOUR, opacity=0.8, height=14),
        base.mark_text(color=MUTED, align="left", dx=6).encode(text="shown:N"),
    ]
    return layered(layers, 24 * len(rows))


def aa_chart(study: StudyResult) -> alt.LayerChart | None:
    """Identical instances side by side: what a ratio looks like where nothing differs."""
    rows: list[ChartRow] = [
        {
            "block": str(spread.block + 1),
            "instance": spread.instance,
            "ratio": spread.ratio,
            "shown": ratio(spread.ratio),
        }
        for spread in study.aa
    ]
    if not rows:
        return None
    # At least ±3 %, so that little noise looks little.
    domain = padded([0.97, 1.03, *(spread.ratio for spread in study.aa)])
    y = alt.Y(
        "ratio:Q",
        title="ratio to the block's mean",
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=log_axis(domain, format=".3~f"),
    )
    x = alt.X(
        "block:N", sort=None, title="A/A block", axis=alt.Axis(labelAngle=0, labelOverlap=True)
    )
    layers = [
        alt.Chart(data([{"ratio": 1.0}])).mark_rule(color=MUTED, strokeDash=[3, 3]).encode(y),
        alt.Chart(data(rows))
        .mark_point(color=BASELINE_COLOUR, size=60, strokeWidth=2, opacity=1)
        .encode(x, y, tooltip=tooltips(block="block", instance="instance", shown="ratio")),
    ]
    return layered(layers, 180)
