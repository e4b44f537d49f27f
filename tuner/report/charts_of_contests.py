"""The ratios of a contest with their intervals: a picture for each figure, a line for each pair."""

from __future__ import annotations

import math
from collections.abc import Sequence

import altair as alt

from tuner.report.contest import ContestResult, chart_name, compared_figures, pair_name
from tuner.report.embed import MUTED, Spec
from tuner.report.ladder import ladder_charts
from tuner.report.vega import (
    KIND_COLOURS,
    SURFACE,
    Row,
    data,
    layered,
    padded,
    specification,
    tooltips,
)
from tuner.report.words import interval, ratio


def ratio_charts(result: ContestResult) -> dict[str, Spec]:
    """Charts by the id of their place in the page; empty where nothing is compared yet."""
    return {chart_name(name): _chart(result, name) for name in compared_figures(result)}


def contest_charts(results: Sequence[ContestResult]) -> list[tuple[dict[str, Spec], ...]]:
    """Of each contest the charts of ratios, and those of its ladder."""
    return [(ratio_charts(result), ladder_charts(result)) for result in results]


def _chart(result: ContestResult, name: str) -> Spec:
    rows: list[Row] = []
    for row in result.compared:
        if row.figure != name:
            continue
        found = row.verdict.estimate
        drawable = found.is_finite and found.low > 0 and math.isfinite(found.high)
        rows.append(
            {
                "pair": pair_name(row),
                "ratio": found.ratio,
                "low": found.low if drawable else None,
                "high": found.high if drawable else None,
                "kind": row.verdict.kind.value,
                "text": f"{ratio(found.ratio)} ({interval(found)})",
            }
        )
    every = [float(row[key] or 1) for row in rows for key in ("ratio", "low", "high")]
    x = alt.X(
        "ratio:Q",
        title="second ÷ first, log scale",
        scale=alt.Scale(type="log", domain=padded([0.9, 1.1, *every]), nice=False),
        axis=alt.Axis(grid=True, format=".3~f", tickCount=5),
    )
    y = alt.Y("pair:N", sort=None, title=None, axis=alt.Axis(ticks=False, domain=False))
    colour = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=list(KIND_COLOURS), range=list(KIND_COLOURS.values())),
        legend=None,
    )
    base = alt.Chart(data(rows)).encode(y, colour)
    layers = [
        alt.Chart(data([{"ratio": 1.0}])).mark_rule(color=MUTED, strokeDash=[3, 3]).encode(x),
        base.mark_rule(strokeWidth=2.5).encode(alt.X("low:Q"), x2="high"),
        base.mark_point(size=80, strokeWidth=2.5, fill=SURFACE, opacity=1).encode(
            x, tooltip=tooltips(pair="second ÷ first", kind="verdict", text="ratio")
        ),
    ]
    return specification(layered(layers, 26 * len(rows) + 46))
