"""The ratios of a contest with their intervals: a picture for each figure, a line for each pair."""

from __future__ import annotations

from tuner.goals.objective import Objective
from tuner.judge.contest_results import ContestResult
from tuner.report.charts_of_ladders import ladder_charts, usage_charts
from tuner.report.charts_of_ratios import RatioStyle, ratio_layers, ratio_row
from tuner.report.contest_tables import chart_name, compared_figures, pair_name
from tuner.report.embed import Spec
from tuner.report.vega import layered, specification

_STYLE = RatioStyle(
    title="second ÷ first, log scale",
    tooltip={"pair": "second ÷ first", "kind": "verdict", "text": "ratio"},
    ticks=5,
    size=80,
)


def ratio_charts(result: ContestResult) -> dict[str, Spec]:
    """Charts by the id of their place in the page; empty where nothing is compared yet."""
    return {chart_name(figure): _chart(result, figure) for figure in compared_figures(result)}


def contest_charts(result: ContestResult) -> dict[str, Spec]:
    """Return the charts of a contest by name: ratios, ladder, and resource use on the ladder."""
    return {**ratio_charts(result), **ladder_charts(result), **usage_charts(result)}


def _chart(result: ContestResult, figure: Objective) -> Spec:
    rows = [
        ratio_row("pair", pair_name(row), row.verdict.estimate, row.verdict.kind.value)
        for row in result.compared
        if row.objective == figure
    ]
    return specification(layered(ratio_layers(rows, "pair", _STYLE), 26 * len(rows) + 46))
