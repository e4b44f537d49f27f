"""The forest plot: the ratios of several studies with their intervals, on one axis."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.judge.results import StudyResult
from tuner.report.charts_of_ratios import RatioStyle, ratio_layers, ratio_row
from tuner.report.embed import Spec
from tuner.report.vega import ChartRow, layered, specification

_STYLE = RatioStyle(
    title="tuned ÷ baseline, log scale",
    tooltip={"study": "study", "kind": "verdict", "text": "ratio", "objective": "objective"},
    ticks=6,
    size=110,
    labelled=True,
)


def forest_chart(studies: Sequence[StudyResult]) -> Spec | None:
    """Return a line per study; None if none has a ratio."""
    rows: list[ChartRow] = []
    for place, study in enumerate(studies, 1):
        if study.estimate is None:
            continue
        # Two studies may have one name; the place distinguishes them.
        name = f"{place}  {study.record.name}"
        kind = study.verdict.kind.value if study.verdict else "none"
        row = ratio_row("study", name, study.estimate, kind)
        rows.append({**row, "objective": study.goals.words})
    if not rows:
        return None
    return specification(layered(ratio_layers(rows, "study", _STYLE), 52 * len(rows) + 20))
