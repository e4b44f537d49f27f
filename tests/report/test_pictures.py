"""Charts as files of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

from tuner.judge.results import StudyResult
from tuner.report.charts import charts, titles
from tuner.report.pictures import standalone, write_pictures

Studies = Callable[..., StudyResult]
_SVG = "{http://www.w3.org/2000/svg}"


def test_every_chart_becomes_a_file(study: Studies, tmp_path: Path) -> None:
    """SVG with marks and a title, PNG of twice the size; no colour is left to a page."""
    found = study()
    every = charts(found)
    wanted = {name: every[name] for name in ("effect", "blocks", "spectra", "slice-1")}
    written = write_pictures(wanted, titles(found), tmp_path, ["svg", "png"])
    assert sorted(path.name for path in written) == sorted(
        f"{name}.{kind}" for name in wanted for kind in ("svg", "png")
    )
    for name in wanted:
        text = (tmp_path / f"{name}.svg").read_text(encoding="utf-8")
        assert "var(--" not in text
        root = ET.fromstring(text)  # noqa: S314 - our own drawing
        assert root.tag == f"{_SVG}svg"
        assert len(root.findall(f".//{_SVG}path")) > 5
        assert titles(found)[name] in "".join(root.itertext())
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_arms_have_a_legend_of_their_own(study: Studies) -> None:
    """In the page a list says which colour is whose; a file has to say it itself."""
    spec = standalone(charts(study())["spectra"], "x")
    layers = spec["layer"]
    assert any(layer["encoding"]["color"].get("legend") for layer in layers)
    assert spec["width"] > 0
