"""Everything that a page needs for its charts: Vega's code, its configuration, the charts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from tuner.reading.printable import printable_data

Spec = dict[str, Any]
"""A chart in Vega-Lite."""
MUTED = "var(--muted)"

CONFIG: Mapping[str, object] = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "domainColor": "var(--line)",
        "tickColor": "var(--line)",
        "gridColor": "var(--grid)",
        "labelColor": MUTED,
        "titleColor": MUTED,
        "titleFontWeight": "normal",
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titlePadding": 8,
        "labelLimit": 220,
    },
    "legend": {
        "labelColor": MUTED,
        "labelFontSize": 11,
        "symbolBaseFillColor": MUTED,
        "symbolBaseStrokeColor": MUTED,
    },
}


@cache
def bundle() -> str:
    """Return the JavaScript of Vega, Vega-Lite and Vega-Embed, safe inside a ``script`` element."""
    script = files("tuner.report").joinpath("page", "vega.js").read_text(encoding="utf-8")
    # Only inside strings and regular expressions, where the backslash changes nothing.
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def embedded_json(value: object) -> str:
    """JSON that is inert inside a ``script`` element, with any strings."""
    text = json.dumps(
        printable_data(value), ensure_ascii=True, allow_nan=False, separators=(",", ":")
    )
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
