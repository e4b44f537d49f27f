"""Several studies side by side: one row each, and what makes them different questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.report.test_browser import CHROMIUM, visit
from tests.report.test_html import parsed
from tuner.judge.results import StudyResult, evaluate
from tuner.record.model import Record
from tuner.report.charts_of_studies import forest_chart
from tuner.report.side import (
    differences,
    render_side_html,
    render_side_markdown,
    rows,
    side_lines,
)

Studies = Callable[..., StudyResult]
Records = Callable[..., Record]


def test_a_row_for_every_study(study: Studies) -> None:
    """Verdict, ratio and interval of each; one without a verdict says how far it came."""
    found = rows([study(), study("worse"), study(stage="searching")])
    assert [row[1] for row in found] == ["better", "worse", "none: unconfirmed"]
    assert found[0][2] != found[1][2]
    assert found[2][2] == "–"
    assert len(side_lines([study(), study("worse")])) == 3


def test_what_differs_is_said(record: Records) -> None:
    """Another host or objective is another question; equal ones are passed over in silence."""
    one = record()
    other = replace(one, host=replace(one.host, hostname="elsewhere"))
    assert differences([evaluate(one), evaluate(one)]) == []
    (line,) = differences([evaluate(one), evaluate(other)])
    assert line == f"The host differs: {one.host.hostname}, elsewhere."


def test_nothing_to_draw(study: Studies) -> None:
    """Studies without any ratio give a page without a picture."""
    early = [study(stage="searching"), study(stage="started")]
    assert forest_chart(early) is None
    assert 'class="chart"' not in render_side_html(early)


def test_hostile_names_stay_text(hostile_record: Record, record: Records) -> None:
    """Neither page lets markup of a study's name become an element."""
    studies = [evaluate(hostile_record), evaluate(record())]
    tags = [tag for tag, _ in parsed(render_side_html(studies)).tags]
    assert "img" not in tags
    assert "<img" not in render_side_markdown(studies)


@pytest.mark.integration
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_the_picture_is_drawn(study: Studies, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Every study has its mark, and the console stays silent."""
    page = render_side_html([study(), study("worse"), study("equivalent")])
    seen = visit(page, tmp_path_factory.mktemp("side"))
    assert seen.complaints == []
    assert seen.drawn == ["forest"]
    assert seen.dom.count("1  proxy-p99") >= 1
