"""Tests of the modules that a report needs: a study's process does not load them."""

from __future__ import annotations

import json
import subprocess
import sys

import altair as alt
import pytest

from tests.report.test_contest_pages import met
from tuner.errors import HostError
from tuner.judge.results import evaluate
from tuner.report import apart
from tuner.report.charts import charts
from tuner.report.charts_of_contests import contest_charts
from tuner.report.charts_of_studies import forest_chart
from tuner.report.shown_trials import for_charts
from tuner.testing.sample_record import sample_record

_PAGE = """
import sys
from tuner.report.html import render_html
from tuner.judge.results import evaluate
from tuner.testing.sample_record import sample_record
page = render_html(evaluate(sample_record("better")))
print("altair" in sys.modules, 'id="chart-spectra"' in page)
"""


def test_a_page_is_made_without_altair_in_its_own_process() -> None:
    """Altair's 30 MB are loaded in another process, so a running study does not hold them."""
    done = subprocess.run([sys.executable, "-c", _PAGE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_what_fails_there_is_reported_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the other process's own words."""
    monkeypatch.delitem(sys.modules, "altair")
    with pytest.raises(HostError, match="No module named 'nowhere'"):
        apart.apart("nowhere", "nothing")


def test_every_chart_keeps_to_vega_lites_schema() -> None:
    """Held against it here, so that no report has to be."""
    study = evaluate(sample_record("better"))
    pair = contest_charts(met())
    forest = forest_chart([study])
    assert forest is not None
    specs = [forest, *charts(study).values(), *pair.values()]
    assert len(specs) > 20
    for spec in specs:
        alt.LayerChart.from_json(json.dumps(spec), validate=True)


@pytest.mark.parametrize("objective", ["p99", "throughput"])
def test_no_chart_shows_the_windows_of_the_search(objective: str) -> None:
    """They are most of a long record, and are not handed to the other process."""
    study = evaluate(sample_record("better", objective=objective, trials=6))
    assert any(block.windows for block in study.record.blocks if block.phase == "search")
    assert charts(for_charts(study)) == charts(study)
