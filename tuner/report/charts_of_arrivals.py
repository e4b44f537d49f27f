"""A chart of a log's arrivals, and of those that a workload made of it sends."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from tuner.report.embed import Spec
from tuner.report.vega import BASELINE_COLOUR, TUNED_COLOUR, ChartRow, data, layered, specification

LOG, WORKLOAD = "log", "workload"


def arrivals_chart(log: Sequence[int], workload: Sequence[int]) -> Spec:
    """Return the requests in each second of a stretch of the log, and of the workload."""
    rows: list[ChartRow] = [
        {"arm": arm, "second": float(second), "requests": float(count)}
        for arm, counts in ((LOG, log), (WORKLOAD, workload))
        for second, count in enumerate(counts)
    ]
    colour = alt.Color(
        "arm:N",
        legend=None,
        scale=alt.Scale(domain=[LOG, WORKLOAD], range=[BASELINE_COLOUR, TUNED_COLOUR]),
    )
    line = alt.Chart(data(rows)).mark_line(interpolate="step-after", strokeWidth=1.5)
    encoded = line.encode(
        alt.X("second:Q", title="second of the busiest stretch"),
        alt.Y("requests:Q", title="requests in a second"),
        colour,
    )
    return specification(layered([encoded], 240))
