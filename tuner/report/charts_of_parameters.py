"""Places of the search: a slice per parameter, and all of them side by side."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import altair as alt

from tuner.judge.history import TrialFigure
from tuner.judge.importance import shown_importance
from tuner.judge.results import StudyResult
from tuner.report.embed import MUTED
from tuner.report.vega import (
    BASELINE_COLOUR,
    SURFACE,
    TUNED_COLOUR,
    ChartRow,
    data,
    layered,
    log_axis,
    padded,
    tooltips,
)
from tuner.space.configuration import Value
from tuner.words.figures import ratio, setting

MOST_SLICES = 8
"""Parameters that get a slice: the most important ones."""
MOST_AXES = 10
_LOG_SPAN = 30.0
"""Largest over smallest value from which a parameter is drawn on a log scale."""

Slice = tuple[str, str]
"""Id of the chart, and the parameter that it is of."""


def slices(study: StudyResult) -> list[Slice]:
    """Return the parameters that get a slice, the most important first."""
    names = _ranked(study)[:MOST_SLICES]
    return [(f"slice-{place}", name) for place, name in enumerate(names, 1)]


def slice_chart(study: StudyResult, name: str) -> alt.LayerChart | None:
    """Return every measured trial by one parameter's value; inactive values are left out."""
    rows: list[ChartRow] = []
    values: list[Value] = []
    baseline = study.record.configurations.get(study.record.baseline)
    if baseline and name in baseline.values:
        values.append(baseline.values[name])
        rows.append(_baseline_row(baseline.values[name]))
    for trial, chosen in _measured(study):
        if name not in chosen or trial.origin == "baseline":
            continue
        values.append(chosen[name])
        rows.append(
            {
                "value": _plain(chosen[name]),
                "ratio": trial.ratio,
                "trial": trial.number,
                "chosen": str(trial.digest == study.candidate),
                "origin": "searched",
                "setting": setting(chosen[name]),
                "shown": ratio(trial.ratio),
            }
        )
    if not rows:
        return None
    domain = padded([1.0, *(trial.ratio for trial, _ in _measured(study))])
    y = alt.Y(
        "ratio:Q",
        title=None,
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=log_axis(domain, most=5, format=".3~f"),
    )
    fill = alt.condition("datum.chosen == 'True'", alt.value(TUNED_COLOUR), alt.value(SURFACE))
    colour = alt.Color(
        "origin:N",
        scale=alt.Scale(domain=["baseline", "searched"], range=[BASELINE_COLOUR, TUNED_COLOUR]),
        legend=None,
    )
    layers = [
        alt.Chart(data([{"ratio": 1.0}])).mark_rule(color=MUTED, strokeDash=[3, 3]).encode(y),
        alt.Chart(data(rows))
        .mark_point(size=44, strokeWidth=1.5, opacity=0.85)
        .encode(
            _values_axis(values),
            y,
            colour,
            fill=fill,
            tooltip=tooltips(trial="trial", setting=name, shown="ratio"),
        ),
    ]
    return layered(layers, 150)


def _baseline_row(value: Value) -> ChartRow:
    return {
        "value": _plain(value),
        "ratio": 1.0,
        "trial": "baseline",
        "chosen": "False",
        "origin": "baseline",
        "setting": setting(value),
        "shown": ratio(1.0),
    }


def parallel_chart(study: StudyResult) -> alt.LayerChart | None:
    """Return every measured trial as a line through its values; the colour is its ratio."""
    names = _ranked(study)[:MOST_AXES]
    measured = _measured(study)
    if len(names) < 2 or len(measured) < 3:
        return None
    axes = [_axis(name, [chosen.get(name) for _, chosen in measured]) for name in names]
    rows: list[ChartRow] = []
    # The confirmed one last, so that no other line is drawn over it.
    for trial, chosen in sorted(measured, key=lambda seen: seen[0].digest == study.candidate):
        rows += [
            {
                "trial": trial.number,
                "axis": axis.name,
                "place": axis.place(chosen.get(axis.name)),
                "setting": setting(chosen.get(axis.name)),
                "ratio": trial.ratio,
                "chosen": str(trial.digest == study.candidate),
                "shown": ratio(trial.ratio),
            }
            for axis in axes
        ]
    ends: list[ChartRow] = [
        {"axis": axis.name, "place": place, "text": text}
        for axis in axes
        for place, text in ((1.0, axis.top), (0.0, axis.bottom))
    ]
    x = alt.X(
        "axis:N",
        sort=None,
        title=None,
        axis=alt.Axis(
            labelAngle=-25, grid=True, domain=False, ticks=False, labelPadding=18, labelLimit=210
        ),
        scale=alt.Scale(padding=0.35),
    )
    y = alt.Y("place:Q", axis=None, scale=alt.Scale(domain=[-0.1, 1.1], nice=False))
    low, high = min(t.ratio for t, _ in measured), max(t.ratio for t, _ in measured)
    scale = alt.Scale(type="log", domain=[low, high], range=_ramp(study), interpolate="lab")
    colour = alt.Color("ratio:Q", scale=scale, legend=None)
    chosen_first = alt.condition("datum.chosen == 'True'", alt.value(3.0), alt.value(1.2))
    seen = alt.condition("datum.chosen == 'True'", alt.value(1.0), alt.value(0.6))
    base = alt.Chart(data(rows)).encode(x, y)
    layers = [
        base.mark_line(interpolate="monotone").encode(
            colour, detail="trial:N", strokeWidth=chosen_first, opacity=seen
        ),
        base.mark_point(size=50, filled=True, opacity=0).encode(
            tooltip=tooltips(trial="trial", axis="parameter", setting="value", shown="ratio")
        ),
        alt.Chart(data(ends))
        .mark_text(color=MUTED, fontSize=10, dy=alt.ExprRef("datum.place > 0.5 ? -9 : 9"))
        .encode(x, y, text="text:N"),
    ]
    return layered(layers, 300)


@dataclass(frozen=True, slots=True)
class _Axis:
    """One parameter's place for every value, from 0 to 1."""

    name: str
    top: str
    bottom: str
    places: Mapping[str, float]

    def place(self, value: Value | None) -> float:
        """Return the position of a value; unset lies below all others."""
        return self.places.get(setting(value), 0.0)


def _axis(name: str, values: Sequence[Value | None]) -> _Axis:
    unset = any(value is None for value in values)
    known = [value for value in values if value is not None]
    floor = 0.15 if unset else 0.0
    numbers = sorted({float(v) for v in known if _is_number(v)})
    if known and len(numbers) > 1 and all(map(_is_number, known)):
        scale = _scaled(numbers)
        places = {setting(v): floor + (1 - floor) * scale(float(v)) for v in known if _is_number(v)}
        bottom = _short(_number(numbers[0]))
        return _Axis(name, _number(numbers[-1]), "no effect" if unset else bottom, places)
    distinct = sorted({setting(value) for value in known}, key=_natural)
    steps = max(1, len(distinct) - 1)
    places = {text: floor + (1 - floor) * place / steps for place, text in enumerate(distinct)}
    if len(distinct) == 1:
        places = dict.fromkeys(distinct, 1.0)
    top = _short(distinct[-1]) if distinct else ""
    bottom = _short(distinct[0]) if len(distinct) > 1 else ""
    return _Axis(name, top, "no effect" if unset else bottom, places)


def _scaled(numbers: Sequence[float]) -> Callable[[float], float]:
    low, high = numbers[0], numbers[-1]
    if low > 0 and high / low >= _LOG_SPAN:
        return lambda value: math.log(value / low) / math.log(high / low)
    return lambda value: (value - low) / (high - low)


def _values_axis(values: Sequence[Value]) -> alt.X:
    numbers = sorted({float(value) for value in values if _is_number(value)})
    if len(numbers) == len(set(map(setting, values))) and len(numbers) > 4:
        kind = _scale_type(numbers)
        # Vega-Lite complains of a zero where the scale cannot have one.
        scale = (
            alt.Scale(type="log", nice=False, padding=12)
            if kind == "log"
            else alt.Scale(type=kind, nice=False, padding=12, zero=False)
        )
        axis = alt.Axis(format="~s", tickCount=4)
        if kind == "log":
            axis = log_axis(numbers, most=5, format="~s")
        return alt.X("value:Q", title=None, scale=scale, axis=axis)
    # Few numbers stand in their order, everything else in the alphabet's.
    few = len(numbers) == len(set(map(setting, values)))
    return alt.X(
        "value:O" if few else "setting:N",
        sort="ascending" if few else sorted(set(map(setting, values)), key=_natural),
        title=None,
        axis=alt.Axis(labelAngle=0, labelLimit=80, labelOverlap=True),
    )


def _scale_type(numbers: Sequence[float]) -> Literal["log", "symlog", "linear"]:
    """Powers apart belong on a log scale; where zero is one of them, on one that has a zero."""
    positive = [number for number in numbers if number > 0]
    if numbers[0] < 0 or not positive or positive[-1] / positive[0] < _LOG_SPAN:
        return "linear"
    return "log" if numbers[0] > 0 else "symlog"


def _natural(text: str) -> tuple[float, str]:
    """Order of settings: ``4k`` before ``16k``, ``15s`` before ``2m``; words behind all numbers."""
    match = _QUANTITY.fullmatch(text.strip().lower())
    return (float(match[1]) * _WEIGHTS[match[2]], text) if match else (math.inf, text)


_WEIGHTS = {"ms": 1e-3, "": 1.0, "s": 1.0, "k": 2e3, "m": 2e6, "g": 2e9, "h": 2e9, "d": 2e12}
"""For the order alone: of one setting the suffixes are sizes or times, never both."""
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[skmghd]?)")


def _measured(study: StudyResult) -> list[tuple[TrialFigure, Mapping[str, Value]]]:
    known = study.record.configurations
    return [
        (trial, known[trial.digest].values)
        for trial in study.trials
        if trial.blocks and math.isfinite(trial.ratio) and trial.digest in known
    ]


def _ranked(study: StudyResult) -> list[str]:
    """Return parameters that the search varied: by importance, then by name."""
    seen: dict[str, set[str]] = {}
    measured = _measured(study)
    for _, chosen in measured:
        for name in chosen:
            seen.setdefault(name, set())
    for name, found in seen.items():
        found |= {setting(chosen.get(name)) for _, chosen in measured}
    varied = [name for name, found in seen.items() if len(found) > 1]
    shares = shown_importance(study.record)
    return sorted(varied, key=lambda name: (-shares.get(name, 0.0), name))


def _ramp(study: StudyResult) -> list[str]:
    """From the better end to the worse one; fixed colours, since only those can be mixed."""
    ends = ["#1a7fc4", "#8f98a3", "#cc6420"]
    return ends[::-1] if study.objective.larger_is_better else ends


def _is_number(value: Value | None) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain(value: Value) -> str | float:
    return float(value) if _is_number(value) else setting(value)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def _short(text: str, most: int = 14) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
