"""The HTML report in a real browser: everything is drawn, nothing complains, nothing runs."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.phases.rig import rig
from tuner.judge.results import StudyResult, evaluate
from tuner.record.model import Record
from tuner.report.html import render_html
from tuner.testing.sample_record import Stage

Studies = Callable[..., StudyResult]

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]

# Touches every mark of every chart and keeps what the tooltips then hold.
_TOUCH = """
const watch = setInterval(() => {
  if (document.documentElement.dataset.charts !== "drawn") return;
  clearInterval(watch);
  const kept = new Set();
  for (const mark of document.querySelectorAll(".chart svg path, .chart svg text")) {
    const { left, top, width, height } = mark.getBoundingClientRect();
    const at = { bubbles: true, clientX: left + width / 2, clientY: top + height / 2 };
    for (const kind of ["pointerover", "pointermove", "mousemove"]) {
      mark.dispatchEvent(new MouseEvent(kind, at));
    }
    const tooltip = document.getElementById("vg-tooltip-element");
    if (tooltip) kept.add(tooltip.innerText.replace(/\\s+/g, " "));
  }
  const list = document.createElement("pre");
  list.id = "tooltips";
  list.textContent = [...kept].join("\\n");
  document.body.append(list);
}, 20);
"""


@dataclass(frozen=True, slots=True)
class Visit:
    """A page as a browser rendered it."""

    dom: str
    complaints: list[str]

    @property
    def drawn(self) -> list[str]:
        """The charts that hold a drawing."""
        return re.findall(r'id="chart-([a-z0-9-]+)"[^>]*>(?:<[^>]*>)*?<svg', self.dom)

    @property
    def title(self) -> str:
        """The title, as HTML."""
        match = re.search(r"<title>(.*?)</title>", self.dom, re.DOTALL)
        return match[1] if match else ""


def visit(page: str, folder: Path) -> Visit:
    """Open a page in a browser of its own, without any network."""
    assert CHROMIUM is not None
    file = folder / "report.html"
    file.write_text(page, encoding="utf-8")
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--proxy-server=127.0.0.1:9",
            f"--user-data-dir={folder / 'profile'}",
            "--enable-logging=stderr",
            "--v=0",
            "--window-size=1280,900",
            "--virtual-time-budget=10000",
            "--dump-dom",
            file.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    return Visit(done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line])


@pytest.mark.parametrize("stage", ["started", "searching", "confirming", "confirmed"])
def test_every_chart_is_drawn(study: Studies, tmp_path: Path, stage: Stage) -> None:
    """The browser draws every chart of a report of any stage, without a message in its console."""
    page = render_html(study(stage=stage))
    seen = visit(page, tmp_path)
    assert seen.complaints == []
    assert 'data-charts="drawn"' in seen.dom
    assert seen.drawn == re.findall(r'id="chart-([a-z0-9-]+)" role', page)


@pytest.mark.parametrize("objective", ["p50", "throughput"])
def test_other_objectives_are_drawn_too(study: Studies, tmp_path: Path, objective: str) -> None:
    """Quantiles and throughput give charts without complaint; a closed loop has no load points."""
    seen = visit(render_html(study(objective=objective)), tmp_path)
    assert seen.complaints == []
    assert "blocks" in seen.drawn
    assert ("load-points" in seen.drawn) == (objective != "throughput")


@pytest.mark.parametrize(
    ("objective", "wanted", "chart"),
    [
        (("p50", "memory"), {"constraint": ["errors <= 1%"]}, "front"),
        ("capacity", {"slo": "p99<1ms"}, "rates"),
    ],
)
def test_what_is_wanted_is_drawn(
    tmp_path: Path, objective: str, wanted: dict[str, Any], chart: str
) -> None:
    """The front of two objectives, and the windows that seek a capacity, against its limit."""
    made = rig(objective=objective, wanted=wanted, time_s=400.0)
    page = render_html(evaluate(made.run()))
    seen = visit(page, tmp_path)
    assert seen.complaints == []
    assert chart in seen.drawn
    assert seen.drawn == re.findall(r'id="chart-([a-z0-9-]+)" role', page)


def test_hostile_text_does_not_run(hostile_record: Record, tmp_path: Path) -> None:
    """Neither the page nor a tooltip lets markup of the study become an element."""
    page = render_html(evaluate(hostile_record))
    digest = base64.b64encode(hashlib.sha256(_TOUCH.encode()).digest()).decode()
    allowed = page.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    # The last one: Vega-Embed's own code holds the text too.
    body, end, rest = allowed.rpartition("</body>")
    touched = f"{body}<script>{_TOUCH}</script>{end}{rest}"
    seen = visit(touched, tmp_path)
    assert seen.complaints == []
    assert not seen.title.startswith("pwned")
    assert "<img" not in re.sub(r"<script.*?</script>", "", seen.dom, flags=re.DOTALL)
    tooltips = seen.dom.partition('<pre id="tooltips">')[2]
    assert "message &lt;/script&gt;&lt;img" in tooltips
    assert "ratio 0.509, 95 % interval" in tooltips
