"""Charts of a contest against offered rate, all arms in one: latency, availability, resources."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping

import altair as alt

from tuner.goals.constraint import Constraint
from tuner.goals.objective import Objective
from tuner.judge import usage
from tuner.judge.contest_results import ContestResult
from tuner.measurement.window import Measurement
from tuner.report.embed import MUTED, Spec
from tuner.report.vega import (
    BASELINE_COLOUR,
    TUNED_COLOUR,
    ChartRow,
    data,
    layered,
    log_axis,
    specification,
    tooltips,
    value_axis,
)
from tuner.words.figures import figure

_COLOURS = (TUNED_COLOUR, BASELINE_COLOUR, MUTED)
"""By server; configurations of one server differ in their strokes and shapes."""
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
_SHAPES = ("circle", "square", "diamond", "triangle-up")


def ladder_charts(result: ContestResult) -> dict[str, Spec]:
    """Charts by the id of their place in the page; empty without a ladder."""
    rows = _rows(result)
    if not rows:
        return {}
    charts = {"ladder-latency": _latency(result, rows), "ladder-availability": _share(result, rows)}
    return {name: specification(chart) for name, chart in charts.items()}


def _server_cores(window: Measurement) -> float:
    return math.nan if window.server_cpu_s is None else window.server_cpu_s / window.duration_s


def _all_the_time(metric: usage.UsageMetric) -> usage.UsageMetric:
    """By the time between the readings: beyond its capacity a server works on in the drain."""

    def value(window: Measurement) -> float:
        found = window.resources
        return metric(window) * found.loaded_s / found.span_s if found else math.nan

    return value


_USED: Mapping[str, tuple[usage.UsageMetric, str]] = {
    "used-cpu": (_server_cores, ""),
    "used-backend-cpu": (_all_the_time(usage.cores("backend")), ""),
    "used-memory": (usage.memory_mib("server"), "MiB"),
    "used-network": (_all_the_time(usage.sent_mib_per_s), "MiB/s"),
    "used-switches": (_all_the_time(usage.switches_per_s), "/s"),
}
"""By the id of the chart: what of a window it shows, and its unit."""


def usage_charts(result: ContestResult) -> dict[str, Spec]:
    """Return the charts of resource use against rate, by id; unknown ones are left out."""
    found = {name: _used(result, metric, unit) for name, (metric, unit) in _USED.items()}
    return {name: specification(chart) for name, chart in found.items() if chart is not None}


def _used(result: ContestResult, metric: usage.UsageMetric, unit: str) -> alt.LayerChart | None:
    by_rung: dict[tuple[str, float], list[float]] = {}
    for block in result.record.blocks:
        for window in block.windows if block.phase == "ladder" else ():
            value = metric(window)
            if window.valid and math.isfinite(value):
                by_rung.setdefault((window.instance, window.rate_per_s), []).append(value)
    rows: list[ChartRow] = [
        {
            "arm": arm,
            "server": result.contender(arm).server,
            "kind": result.contender(arm).kind,
            "rate": rate,
            "value": statistics.median(values),
            "offered": figure(rate, "/s"),
            "shown": figure(statistics.median(values), unit),
        }
        for (arm, rate), values in sorted(by_rung.items())
    ]
    if not rows:
        return None
    y = alt.Y(
        "value:Q",
        title=None,
        scale=alt.Scale(zero=True, nice=True),
        axis=alt.Axis(tickCount=4, format=",.3~r"),
    )
    lines = alt.Chart(data(rows)).encode(
        _x(result),
        y,
        _colour(result),
        _dash(result),
        tooltip=tooltips(arm="arm", offered="offered", shown="used"),
    )
    return layered([lines.mark_line(strokeWidth=1.5, point=True)], 160)


def _rows(result: ContestResult) -> list[ChartRow]:
    rows: list[ChartRow] = []
    for climb in result.climbs:
        contender = result.contender(climb.arm)
        rows += [
            {
                "arm": climb.arm,
                "server": contender.server,
                "kind": contender.kind,
                "rate": rung.rate_per_s,
                "p99": rung.p99_us,
                "available": rung.availability,
                "offered": figure(rung.rate_per_s, "/s"),
                "shown": figure(rung.p99_us, "µs"),
                "share": figure(rung.availability, "share"),
                "starved": f"{rung.starved} left out: the generator's limit"
                if rung.starved
                else "",
            }
            for rung in climb.rungs
        ]
    return rows


def _latency(result: ContestResult, rows: list[ChartRow]) -> alt.LayerChart:
    limit = Constraint.parse(result.contest.limit)
    marks: list[ChartRow] = [
        {
            "rate": reach.per_s,
            "arm": climb.arm,
            "server": result.contender(climb.arm).server,
            "kind": result.contender(climb.arm).kind,
            "shown": figure(reach.per_s, "/s"),
        }
        for climb in result.climbs
        if (reach := climb.knee) is not None and reach.side == "found"
    ]
    ends = [limit.limit, *(rung.p99_us for climb in result.climbs for rung in climb.rungs)]
    y = value_axis(Objective("p99"), "p99", ends, title="p99, log scale")
    lines = alt.Chart(data(rows)).encode(_x(result), y, _colour(result), _dash(result))
    layers = [
        alt.Chart(data([{"p99": limit.limit}])).mark_rule(color=MUTED, strokeDash=[4, 3]).encode(y),
        lines.mark_line(strokeWidth=2),
        _points(result, rows, y),
    ]
    if marks:
        layers.append(
            alt.Chart(data(marks))
            .mark_rule(strokeWidth=1, opacity=0.5)
            .encode(_x(result), _colour(result), tooltip=tooltips(arm="arm", shown="knee"))
        )
    return layered(layers, 340)


def _share(result: ContestResult, rows: list[ChartRow]) -> alt.LayerChart:
    y = alt.Y(
        "available:Q",
        title="answered in time",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format="%", tickCount=5),
    )
    lines = alt.Chart(data(rows)).encode(_x(result), y, _colour(result), _dash(result))
    return layered([lines.mark_line(strokeWidth=2), _points(result, rows, y)], 180)


def _points(result: ContestResult, rows: list[ChartRow], y: alt.Y) -> alt.Chart:
    points: alt.Chart = (
        alt.Chart(data(rows))
        .mark_point(size=55, filled=True, opacity=1)
        .encode(
            _x(result),
            y,
            _colour(result),
            alt.Shape(
                "kind:N",
                scale=alt.Scale(domain=_kinds(result), range=list(_SHAPES)),
                # The same as the strokes', so that both are one legend.
                legend=alt.Legend(orient="top", title=None),
            ),
            tooltip=tooltips(
                arm="arm", offered="offered", shown="p99", share="in time", starved="note"
            ),
        )
    )
    return points


def _x(result: ContestResult) -> alt.X:
    rates = [rung.rate_per_s for climb in result.climbs for rung in climb.rungs]
    return alt.X(
        "rate:Q",
        title="offered rate, requests/s, log scale",
        scale=alt.Scale(type="log", nice=False, padding=16),
        axis=log_axis(rates, most=8, format="~s"),
    )


def _colour(result: ContestResult) -> alt.Color:
    """By server; by configuration where there is one server only, and by arm with its programs."""
    servers = list(dict.fromkeys(c.server for c in result.contest.contenders))
    field, values = ("server", servers) if len(servers) > 1 else ("kind", _kinds(result))
    if any(arm.program for arm in result.contest.contenders):
        field, values = "arm", [arm.label for arm in result.contest.contenders]
    legend = alt.Legend(orient="top", title=None)
    if len(values) > len(_COLOURS):
        return alt.Color(f"{field}:N", sort=values, legend=legend)
    scale = alt.Scale(domain=values, range=list(_COLOURS[: len(values)]))
    return alt.Color(f"{field}:N", scale=scale, legend=legend)


def _dash(result: ContestResult) -> alt.StrokeDash:
    kinds = _kinds(result)
    scale = alt.Scale(domain=kinds, range=list(_DASHES[: len(kinds)]))
    return alt.StrokeDash("kind:N", scale=scale, legend=alt.Legend(orient="top", title=None))


def _kinds(result: ContestResult) -> list[str]:
    return list(dict.fromkeys(c.kind for c in result.contest.contenders))
