"""Everything that a page needs for its charts: Vega's code, its configuration, the charts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
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

_GLOBALS = "window.vegaEmbed = vegaEmbed;"
"""Global names that the bundle defines."""
_PACK = (
    "import sys, vl_convert;"
    f"sys.stdout.buffer.write(vl_convert.javascript_bundle({_GLOBALS!r}).encode())"
)


@cache
def bundle() -> str:
    """Return the JavaScript of Vega, Vega-Lite and Vega-Embed, safe inside a ``script`` element.

    Made in a process of its own: the engine that packs it takes 100 MB and never gives them back.
    """
    made = subprocess.run([sys.executable, "-c", _PACK], capture_output=True, check=True)
    script = made.stdout.decode()
    # Only inside strings and regular expressions, where the backslash changes nothing.
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def embedded_json(value: object) -> str:
    """JSON that is inert inside a ``script`` element, with any strings."""
    text = json.dumps(
        printable_data(value), ensure_ascii=True, allow_nan=False, separators=(",", ":")
    )
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
