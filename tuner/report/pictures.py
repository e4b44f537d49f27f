"""Each chart as a file of its own, PNG or SVG, for a page that is not the report.

On white, with the light colours of the page's style sheet and with a title and a legend, which in
the page stand next to the chart.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from tuner.errors import HostError
from tuner.paths import inside
from tuner.reading.printable import printable, printable_data
from tuner.report.embed import CONFIG, Spec

Format = Literal["svg", "png"]

_WIDTH = 760
_SCALE = 2.0
"""Pixels of a PNG by unit of the drawing."""
_DRAW = r"""
import json, re, sys, vl_convert
# Marks that nobody sees carry the page's tooltips, which a picture has none of.
UNSEEN = re.compile(r'<path[^<>]* opacity="0"[^<>]*/>')
for job in json.load(sys.stdin):
    if job["path"].endswith(".png"):
        made = vl_convert.vegalite_to_png(job["spec"], scale=job["scale"])
    else:
        made = UNSEEN.sub("", vl_convert.vegalite_to_svg(job["spec"])).encode()
    with open(job["path"], "wb") as file:
        file.write(made)
"""


def write_pictures(
    specs: Mapping[str, Spec], titles: Mapping[str, str], folder: Path, formats: Sequence[Format]
) -> list[Path]:
    """Write every chart in every format; the paths written.

    Drawn in a process of its own: the engine takes 100 MB and never gives them back.

    Raises:
        HostError: the engine is not installed or does not run here.
    """
    require_engine()
    folder.mkdir(parents=True, exist_ok=True)
    jobs = [
        {
            "path": str(inside(folder, f"{name}.{kind}")),
            "spec": standalone(spec, titles.get(name, "")),
            "scale": _SCALE,
        }
        for name, spec in specs.items()
        for kind in formats
    ]
    done = subprocess.run(
        [sys.executable, "-c", _DRAW],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        # The engine's traceback ends with the reason.
        reason = done.stderr.strip().rpartition("\n")[2][-400:]
        raise HostError(f"the charts could not be drawn: {reason}")
    return [Path(str(job["path"])) for job in jobs]


def require_engine() -> None:
    """Raise HostError if charts cannot be drawn as files here."""
    if find_spec("vl_convert") is None:
        raise HostError(
            "vl-convert, which draws charts as files, is not installed;"
            " run: pip install 'servertune[png]' (report.html has the charts without it)"
        )


def standalone(spec: Spec, title: str) -> Spec:
    """Return a specification that needs no page around it."""
    colours = _light_colours()
    text = json.dumps(printable_data({**spec, "config": CONFIG}))
    text = re.sub(r"var\((--[a-z-]+)\)", lambda match: colours[match[1]], text)
    alone: Spec = json.loads(text)
    alone["config"]["background"] = colours["--surface"]
    alone["config"]["font"] = "sans-serif"
    # Browsers may have a wider font than the one that the places of labels were measured with.
    alone["config"]["padding"] = {"left": 44, "top": 16, "right": 24, "bottom": 16}
    if alone.get("width") == "container":
        alone["width"] = _WIDTH
    alone.pop("autosize", None)
    if title:
        alone["title"] = {
            "text": printable(title),
            "anchor": "start",
            "color": colours["--ink"],
            "fontSize": 15,
            "fontWeight": 600,
            "offset": 12,
        }
    _show_legend(alone, colours)
    return alone


def _show_legend(spec: Spec, colours: Mapping[str, str]) -> None:
    """Return the legend of the colours; in the page a list next to the chart has it."""
    legend = {
        "title": None,
        "orient": "top",
        "labelColor": colours["--muted"],
        "symbolFillColor": "transparent",
        "symbolStrokeWidth": 2,
    }
    for layer in spec.get("layer", []):
        encoding: dict[str, Any] = layer.get("encoding", {})
        colour = encoding.get("color", {})
        if colour.get("field") == "arm" and "legend" in colour:
            colour["legend"] = legend
            return


def _light_colours() -> dict[str, str]:
    css = files("tuner.report").joinpath("page", "report.css").read_text(encoding="utf-8")
    return dict(re.findall(r"(--[a-z-]+):\s*([^;]+);", css.partition("}")[0]))
