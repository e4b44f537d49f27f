"""The charts of the HTML report, as Vega-Lite specifications made with Altair.

Colours are CSS variables of the page, so one specification serves light, dark and print. Text in
tooltips is written here, with the same words as in the tables.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import altair as alt

from tuner.goals.objective import Objective
from tuner.judge.arms import block_labels
from tuner.judge.results import StudyResult
from tuner.judge.scoring import BASELINE
from tuner.report.charts_of_contests import contest_charts
from tuner.report.charts_of_goals import front_chart, rates_chart
from tuner.report.charts_of_history import (
    aa_chart,
    importance_chart,
    load_points_chart,
    search_chart,
)
from tuner.report.charts_of_parameters import Slice, parallel_chart, slice_chart, slices
from tuner.report.charts_of_usage import (
    behind_chart,
    cpu_chart,
    disk_chart,
    memory_chart,
    network_chart,
    switches_chart,
)
from tuner.report.contest_sections import contest_titles
from tuner.report.embed import MUTED, Spec
from tuner.report.shown_trials import for_charts
from tuner.report.vega import (
    BAND,
    INK,
    NINES_LABELS,
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
    specification,
    tooltips,
    value_axis,
)
from tuner.words.figures import figure, interval, ratio

TITLES: Mapping[str, str] = {
    "effect": "Ratio of tuned to baseline, with its interval and the margin",
    "blocks": "Both arms of every block, in order of time",
    "stalls": "Requests that stalls of the host touched",
    "spectra": "Latency by percentile (dashed: raw, stalls of the host included)",
    "load-points": "Both arms by offered rate",
    "rates": "Latency of every window by the rate that was offered",
    "search": "Every trial of the search, and the best so far",
    "front": "Every trial by both objectives",
    "importance": "Share of the variation that each parameter explains",
    "parallel": "Every trial through its values (blue: better)",
    "usage-cpu": "CPU of the server, by window",
    "usage-backend": "CPU of the backend, by window",
    "usage-memory": "Memory of the server, by window",
    "usage-network": "What the host sent, by window",
    "usage-switches": "Context switches of the server, by window",
    "usage-disk": "What the host wrote to its disks, by window",
    "aa": "Identical instances side by side (A/A)",
}
"""Short title of each chart."""


def charts(study: StudyResult) -> dict[str, Spec]:
    """Return every chart that the study has data for, by its name."""
    if study.contest is not None:
        return contest_charts(study.contest)
    makers: dict[str, Callable[[StudyResult], alt.LayerChart | None]] = {
        "effect": _effect,
        "blocks": _blocks,
        "stalls": _stalls,
        "spectra": _spectra,
        "load-points": load_points_chart,
        "rates": rates_chart,
        "search": search_chart,
        "front": front_chart,
        "importance": importance_chart,
        **{place: partial(slice_chart, name=name) for place, name in slices(study)},
        "parallel": parallel_chart,
        "usage-cpu": cpu_chart,
        "usage-backend": behind_chart,
        "usage-memory": memory_chart,
        "usage-network": network_chart,
        "usage-switches": switches_chart,
        "usage-disk": disk_chart,
        "aa": aa_chart,
    }
    made = {name: maker(study) for name, maker in makers.items()}
    return {name: specification(chart) for name, chart in made.items() if chart is not None}


def for_page(studies: Sequence[StudyResult]) -> tuple[dict[str, Spec], list[Slice]]:
    """Return all that the page asks of Altair: the charts, and which of them are slices.

    Args:
        studies: a study, or a run's contests; the names of a contest's charts end with its number.
    """
    if studies[0].contest is None:
        return charts(studies[0]), slices(studies[0])
    numbered = enumerate(map(charts, studies))
    return {f"{name}-{n}": spec for n, found in numbered for name, spec in found.items()}, []


def for_files(studies: Sequence[StudyResult]) -> tuple[dict[str, Spec], dict[str, str]]:
    """Return charts and titles by file name, which names the case of a contest."""
    specs: dict[str, Spec] = {}
    names: dict[str, str] = {}
    for study in map(for_charts, studies):
        ending = file_ending(study)
        specs |= {f"{name}{ending}": spec for name, spec in charts(study).items()}
        names |= {f"{name}{ending}": title for name, title in titles(study).items()}
    return specs, names


def file_ending(study: StudyResult) -> str:
    """Return what the names of a contest's charts end with; empty for a study."""
    case = study.contest.contest.case if study.contest else ""
    # A user can choose any name for a case.
    return f"-{_UNSAFE.sub('-', case.lower())}" if case else ""


_UNSAFE = re.compile(r"[^a-z0-9]+")


def titles(study: StudyResult) -> dict[str, str]:
    """Return the title of each chart by its name."""
    if study.contest is not None:
        return contest_titles(study.contest)
    shown = f"{study.objective.name}, ratio to the baseline, by"
    return {**TITLES, **{place: f"{shown} {name}" for place, name in slices(study)}}


def _effect(study: StudyResult) -> alt.LayerChart | None:
    """Return the ratio with its intervals against the margin band, and every block beneath."""
    estimate, protocol = study.estimate, study.record.protocol
    if estimate is None or protocol is None:
        return None
    goal = study.objective
    blocks: list[ChartRow] = []
    for block in study.used:
        first, second = block.values(goal)
        change = math.exp(block.difference(goal.difference_ln))
        blocks.append(
            {
                "block": block.index + 1,
                "ratio": change,
                "baseline": figure(first, goal.unit),
                "tuned": figure(second, goal.unit),
                "change": ratio(change),
            }
        )
    inner = study.verdict.interval90 if study.verdict else (math.nan, math.nan)
    low, high = protocol.band.low, protocol.band.high
    ends = [float(row["ratio"] or 1) for row in blocks]
    ends += [end for end in (estimate.low, estimate.high, *inner) if _drawable(end)]
    domain = padded([*ends, low, high, 2 - low, 2 - high])
    left = estimate.low if _drawable(estimate.low) else domain[0]
    right = estimate.high if _drawable(estimate.high) else domain[1]
    row: ChartRow = {
        "ratio": estimate.ratio,
        "low": left,
        "high": right,
        "low90": inner[0],
        "high90": inner[1],
        "text": f"{ratio(estimate.ratio)} (95 %: {interval(estimate)})",
        "shown": f"{ratio(estimate.ratio)}, 95 % interval {interval(estimate)}",
    }
    axis = alt.X(
        "ratio:Q",
        title=f"{goal.words}: tuned ÷ baseline",
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=log_axis(domain, grid=False, format=".3~f"),
    )
    one = data([row])
    tooltip = [alt.Tooltip("shown:N", title="ratio")]
    band = data([{"ratio": low, "high": high}])
    layers = [
        alt.Chart(band).mark_rect(color=BAND).encode(axis, x2="high"),
        alt.Chart(data([{"ratio": 1.0}])).mark_rule(color=MUTED, strokeDash=[3, 3]).encode(axis),
        alt.Chart(one)
        .mark_rule(color=TUNED_COLOUR, strokeWidth=2)
        .encode(alt.X("low:Q"), x2="high", y=alt.value(34)),
        alt.Chart(one)
        .mark_rule(color=TUNED_COLOUR, strokeWidth=7)
        .encode(alt.X("low90:Q"), x2="high90", y=alt.value(34)),
        alt.Chart(one)
        .mark_point(color=TUNED_COLOUR, fill=SURFACE, size=110, strokeWidth=2.5, opacity=1)
        .encode(axis, y=alt.value(34), tooltip=tooltip),
        alt.Chart(one)
        .mark_text(
            color=INK, fontSize=13, fontWeight=600, dy=-18, **_text_place(estimate.ratio, domain)
        )
        .encode(axis, y=alt.value(34), text="text:N"),
        alt.Chart(data(blocks))
        .mark_tick(color=TUNED_COLOUR, thickness=2, size=16, opacity=0.55, orient="vertical")
        .encode(
            axis,
            y=alt.value(66),
            tooltip=tooltips(block="block", change="ratio", baseline="baseline", tuned="tuned"),
        ),
    ]
    return layered(layers, 136)


def _blocks(study: StudyResult) -> alt.LayerChart | None:
    """Return both arms of every block in order of time, joined; windows as small ticks."""
    if not study.confirm:
        return None
    goal = study.objective
    links: list[ChartRow] = []
    points: list[ChartRow] = []
    windows: list[ChartRow] = []
    for block, label in zip(study.confirm, block_labels(study.confirm), strict=True):
        first, second = block.values(goal)
        about: ChartRow = {"label": label, "used": str(block.used), "note": block.reason or "used"}
        links.append(about | {"baseline": first, "tuned": second})
        for arm, value, measured in (
            (BASELINE, first, block.baseline),
            ("tuned", second, block.candidate),
        ):
            shown = {"arm": arm, "shown": figure(value, goal.unit)}
            points.append(about | shown | {"value": value})
            values = [goal.value(window) for window in measured]
            windows += [about | {"arm": arm, "value": v} for v in values if math.isfinite(v)]
    x = alt.X(
        "label:N",
        sort=None,
        title="block, in order of time",
        axis=alt.Axis(labelAngle=0, labelOverlap=True),
    )
    ends = [float(row["value"] or 0.0) for row in (*points, *windows)]
    y = value_axis(goal, "value", ends)
    fade = alt.condition("datum.used == 'True'", alt.value(1.0), alt.value(0.35))
    tooltip = tooltips(label="block", arm="arm", shown=goal.name, note="state")
    layers = [
        alt.Chart(data(links))
        .mark_rule(color="var(--line)", strokeWidth=2)
        .encode(x, alt.Y("baseline:Q"), y2="tuned", opacity=fade),
    ]
    if windows:
        ticks = alt.Chart(data(windows)).mark_tick(thickness=1, size=12, opacity=0.45)
        layers.append(ticks.encode(x, y, arm_colour()))
    layers.append(
        alt.Chart(data(points))
        .mark_point(size=70, strokeWidth=2)
        .encode(x, y, arm_colour(), arm_fill(), arm_shape(), opacity=fade, tooltip=tooltip)
    )
    return layered(layers, 280)


def _stalls(study: StudyResult) -> alt.LayerChart | None:
    """Return the share of requests that the stall rule left out, per block and arm."""
    rows: list[ChartRow] = []
    for block, label in zip(study.confirm, block_labels(study.confirm), strict=True):
        for arm, share in zip((BASELINE, "tuned"), block.excluded(), strict=True):
            rows.append(
                {"label": label, "arm": arm, "share": share, "shown": figure(share, "share")}
            )
    if not any(row["share"] for row in rows):
        return None
    bars = (
        alt.Chart(data(rows))
        .mark_bar(opacity=0.85)
        .encode(
            alt.X("label:N", sort=None, title=None, axis=alt.Axis(labelAngle=0, labelOverlap=True)),
            alt.Y("share:Q", title="excluded", axis=alt.Axis(format="%", tickCount=3)),
            arm_colour(),
            alt.XOffset("arm:N", sort=[BASELINE, "tuned"]),
            tooltip=tooltips(label="block", arm="arm", shown="excluded"),
        )
    )
    return layered([bars], 110)


def _spectra(study: StudyResult) -> alt.LayerChart | None:
    """Percentile spectra of both arms on an axis of nines; raw latency dashed."""
    rows: list[ChartRow] = [
        {
            "arm": spectrum.arm,
            "kind": "stall-free" if spectrum.stall_free else "raw",
            "nines": -math.log10(1 - point.quantile) if point.quantile else 0.0,
            "value": point.value_us,
            "shown": figure(point.value_us, "µs"),
            "percentile": f"p{100 * point.quantile:.6g}",
        }
        for spectrum in study.spectra
        for point in spectrum.points
    ]
    if not rows:
        return None
    values = [point.value_us for spectrum in study.spectra for point in spectrum.points]
    last = max(float(row["nines"] or 0.0) for row in rows)
    ticks = [tick for tick in (0, math.log10(2), 1, 2, 3, 4, 5, 6) if tick <= last + 0.01]
    x = alt.X(
        "nines:Q",
        title="percentile, on an axis of nines",
        scale=alt.Scale(domain=[0, last], nice=False),
        axis=alt.Axis(values=ticks, labelExpr=NINES_LABELS),
    )
    y = value_axis(Objective("p99"), "value", values, title="latency, log scale")
    dash = alt.StrokeDash(
        "kind:N", scale=alt.Scale(domain=["stall-free", "raw"], range=[[1, 0], [4, 3]]), legend=None
    )
    base = alt.Chart(data(rows)).encode(x, y, arm_colour())
    layers = [
        base.mark_line(strokeWidth=2).encode(dash, detail=["arm:N", "kind:N"]),
        base.mark_point(size=90, filled=True, opacity=0).encode(
            tooltip=tooltips(arm="arm", kind="latency", percentile="percentile", shown="value")
        ),
    ]
    return layered(layers, 320)


def _text_place(at: float, domain: Sequence[float]) -> dict[str, Any]:
    """Keep a text inside the axis: it hangs to the side where there is room."""
    share = math.log(at / domain[0]) / math.log(domain[1] / domain[0])
    if share < 0.3:
        return {"align": "left", "dx": -10}
    return {"align": "right", "dx": 10} if share > 0.7 else {}


def _drawable(end: float) -> bool:
    return math.isfinite(end) and end > 0
