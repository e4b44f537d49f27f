"""A line for each ratio with its interval, on one log axis: what other charts are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt

from tuner.report.embed import MUTED
from tuner.report.vega import KIND_COLOURS, SURFACE, ChartRow, data, log_axis, padded, tooltips
from tuner.stats.paired import PairedEstimate
from tuner.words.figures import interval, ratio


def ratio_row(field: str, name: str, estimate: PairedEstimate, kind: str) -> ChartRow:
    """One line: its name in ``field``, ratio, ends where they can be drawn, verdict, words."""
    ends = (estimate.low, estimate.high)
    drawable = all(math.isfinite(end) and end > 0 for end in ends)
    return {
        field: name,
        "ratio": estimate.ratio,
        "low": estimate.low if drawable else None,
        "high": estimate.high if drawable else None,
        "kind": kind,
        "text": f"{ratio(estimate.ratio)} ({interval(estimate)})",
    }


@dataclass(frozen=True, slots=True)
class RatioStyle:
    """The look of a chart of ratios."""

    title: str
    """Title of the axis."""
    tooltip: Mapping[str, str]
    """Tooltip of a point: field to title."""
    ticks: int
    """Wanted on the axis."""
    size: int
    """Size of a point, square pixels."""
    labelled: bool = False
    """True if the ratio stands above its point."""


def ratio_layers(rows: Sequence[ChartRow], field: str, style: RatioStyle) -> list[alt.Chart]:
    """The line of one, the intervals, the points; ``field`` of the rows names their lines."""
    every = [float(row[key] or 1) for row in rows for key in ("ratio", "low", "high")]
    domain = padded([0.9, 1.1, *every])
    x = alt.X(
        "ratio:Q",
        title=style.title,
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=log_axis(domain, style.ticks, grid=True, format=".3~f"),
    )
    y = alt.Y(f"{field}:N", sort=None, title=None, axis=alt.Axis(ticks=False, domain=False))
    colour = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=list(KIND_COLOURS), range=list(KIND_COLOURS.values())),
        legend=None,
    )
    base = alt.Chart(data(rows)).encode(y, colour)
    layers = [
        alt.Chart(data([{"ratio": 1.0}])).mark_rule(color=MUTED, strokeDash=[3, 3]).encode(x),
        base.mark_rule(strokeWidth=2.5).encode(alt.X("low:Q"), x2="high"),
        base.mark_point(size=style.size, strokeWidth=2.5, fill=SURFACE, opacity=1).encode(
            x, tooltip=tooltips(**style.tooltip)
        ),
    ]
    if style.labelled:
        layers.append(base.mark_text(dy=-13, fontSize=12).encode(x, text="text:N"))
    return layers
