"""The forest plot: the ratios of several studies with their intervals, on one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

import altair as alt

from tuner.report.embed import MUTED, Spec
from tuner.report.result import StudyResult
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


def forest_chart(studies: Sequence[StudyResult]) -> Spec | None:
    """A line per study; None if none has a ratio."""
    found: list[Row] = []
    for place, study in enumerate(studies):
        estimate = study.estimate
        if estimate is None:
            continue
        ends = (estimate.low, estimate.high)
        drawable = all(math.isfinite(end) and end > 0 for end in ends)
        found.append(
            {
                # Two studies may have one name; the place tells them apart.
                "study": f"{place + 1}  {study.record.name}",
                "ratio": estimate.ratio,
                "low": estimate.low if drawable else None,
                "high": estimate.high if drawable else None,
                "kind": study.verdict.kind.value if study.verdict else "none",
                "text": f"{ratio(estimate.ratio)} ({interval(estimate)})",
                "objective": study.goals.words,
            }
        )
    if not found:
        return None
    every = [float(row[key] or 1) for row in found for key in ("ratio", "low", "high")]
    x = alt.X(
        "ratio:Q",
        title="tuned ÷ baseline, log scale",
        scale=alt.Scale(type="log", domain=padded([0.9, 1.1, *every]), nice=False),
        axis=alt.Axis(grid=True, format=".3~f", tickCount=6),
    )
    y = alt.Y("study:N", sort=None, title=None, axis=alt.Axis(ticks=False, domain=False))
    colour = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=list(KIND_COLOURS), range=list(KIND_COLOURS.values())),
        legend=None,
    )
    base = alt.Chart(data(found)).encode(y, colour)
    layers = [
        alt.Chart(data([{"ratio": 1.0}])).mark_rule(color=MUTED, strokeDash=[3, 3]).encode(x),
        base.mark_rule(strokeWidth=2.5).encode(alt.X("low:Q"), x2="high"),
        base.mark_point(size=110, strokeWidth=2.5, fill=SURFACE, opacity=1).encode(
            x, tooltip=tooltips(study="study", kind="verdict", text="ratio", objective="objective")
        ),
        base.mark_text(dy=-13, fontSize=12).encode(x, text="text:N"),
    ]
    return specification(layered(layers, 52 * len(found) + 20))
