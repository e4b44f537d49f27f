"""Parts that the charts share: data, axes and colours.

Colours are CSS variables of the page, so one specification serves light, dark and print.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt

from tuner.goals.objective import Objective
from tuner.judge.scoring import BASELINE
from tuner.report.embed import Spec

ChartRow = dict[str, str | float | None]

INK, SURFACE, BAND = "var(--ink)", "var(--surface)", "var(--band)"
BASELINE_COLOUR, TUNED_COLOUR = "var(--baseline)", "var(--tuned)"
_ARMS = [BASELINE, "tuned"]

KIND_COLOURS: Mapping[str, str] = {
    "better": "var(--good)",
    "worse": "var(--bad)",
    "violated": "var(--bad)",
    "equivalent": "var(--calm)",
    "inconclusive": "var(--open)",
    "none": "var(--open)",
}
"""By the verdict, or that there is none."""

_LATENCY_LABELS = (
    "datum.value >= 1e6 ? format(datum.value / 1e6, '~g') + ' s'"
    " : datum.value >= 1e3 ? format(datum.value / 1e3, '~g') + ' ms'"
    " : format(datum.value, '~g') + ' µs'"
)
NINES_LABELS = (
    "datum.value < 0.1 ? 'min' : datum.value < 0.5 ? 'p50' : datum.value < 1.5 ? 'p90'"
    " : datum.value < 2.5 ? 'p99' : 'p99.' + slice('999999', 0, datum.value - 2)"
)
"""Labels of an axis of −log10(1 − q), at log10(2) and the whole numbers."""


def data(rows: Sequence[Mapping[str, str | float | None]]) -> alt.InlineData:
    """Return rows as inline data; what is not finite becomes null, which is not drawn.

    They are JSON text until `specification`. Altair checks and copies each value of a list several
    times, 5 s for a search of 1,000 trials.
    """
    plain = [{k: _plain(v) for k, v in row.items()} for row in rows]
    return alt.InlineData(values=json.dumps(plain))


def layered(layers: Sequence[alt.Chart], height: int) -> alt.LayerChart:
    """Layers on common axes, as wide as their place in the page."""
    return alt.LayerChart(
        layer=list(layers),
        width="container",
        height=height,
        autosize=alt.AutoSizeParams(type="fit", contains="padding"),
    )


def specification(chart: alt.LayerChart) -> Spec:
    """A chart as Vega-Lite, without Altair's own default size, which would override the page's.

    Not held against Vega-Lite's schema, which takes most of a second: the tests do that.
    """
    spec: Spec = chart.to_dict(validate=False)
    spec.pop("config", None)
    spec["datasets"] = {name: json.loads(rows) for name, rows in spec["datasets"].items()}
    return spec


def log_ticks(ends: Sequence[float], most: int) -> list[float]:
    """Return round values for the ticks of a log scale.

    Vega chooses ticks that it has no room to label, and then leaves out the powers of ten.

    Args:
        ends: values that the scale holds; only finite positive ones count.
        most: limit for the number of ticks.
    """
    known = [end for end in ends if math.isfinite(end) and end > 0]
    if not known:
        return []
    low, high = min(known), max(known)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    if high / low >= 5:
        inside: list[float] = []
        for digits in ((1, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
            found = [d * 10.0**power for power in decades for d in digits]
            inside = [tick for tick in found if low <= tick <= high]
            if len(inside) <= most:
                return inside
        return inside[:: math.ceil(len(inside) / most)]
    step = 10.0 ** math.floor(math.log10(max(high - low, 1e-3 * high) / most))
    step = next(step * d for d in (1, 2, 5, 10, 20) if (high - low) / (step * d) < most)
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 12) for n in range(first, math.floor(high / step + 1e-9) + 1)]


def log_axis(ends: Sequence[float], most: int = 6, **options: Any) -> alt.Axis:
    """Return the axis of a log scale, with a label at each tick; see ``log_ticks``."""
    return alt.Axis(values=log_ticks(ends, most), labelOverlap=False, **options)


def value_axis(objective: Objective, field: str, ends: Iterable[float], title: str = "") -> alt.Y:
    """Return the objective's figure on a log scale that need not reach zero.

    Args:
        objective: the objective.
        field: field of the rows with its figure.
        ends: the figures that the axis must hold.
        title: title of the axis; by default the objective's.
    """
    latency = objective.unit == "µs"
    return alt.Y(
        f"{field}:Q",
        title=title or f"{objective.words}, {objective.unit}, log scale",
        scale=alt.Scale(type="log", nice=False, padding=12),
        axis=log_axis(
            list(ends), most=8, labelExpr=_LATENCY_LABELS if latency else "format(datum.value, ',')"
        ),
    )


def padded(values: Sequence[float]) -> list[float]:
    """Return a domain on a log scale with a little room at both ends."""
    low, high = min(values), max(values)
    room = (high / low) ** 0.06
    return [low / room, high * room]


def arm_colour() -> alt.Color:
    """Blue and vermilion of Okabe and Ito, which colour-blind readers distinguish."""
    scale = alt.Scale(domain=_ARMS, range=[BASELINE_COLOUR, TUNED_COLOUR])
    return alt.Color("arm:N", scale=scale, legend=None)


def arm_fill() -> alt.Fill:
    """Return the baseline is hollow, so that the arms differ without colour too."""
    return alt.Fill(
        "arm:N", scale=alt.Scale(domain=_ARMS, range=[SURFACE, TUNED_COLOUR]), legend=None
    )


def arm_shape() -> alt.Shape:
    """Circle and diamond."""
    return alt.Shape(
        "arm:N", scale=alt.Scale(domain=_ARMS, range=["circle", "diamond"]), legend=None
    )


def tooltips(**titles: str) -> list[alt.Tooltip]:
    """Tooltips of ready-made text, field to title."""
    return [alt.Tooltip(f"{field}:N", title=title) for field, title in titles.items()]


def _plain(value: str | float | None) -> str | float | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value
