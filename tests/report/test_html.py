"""The HTML report: complete, inert, and the same for the same record."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tuner.judge.results import StudyResult, evaluate
from tuner.record.model import Record
from tuner.report.embed import embedded_json
from tuner.report.html import render_html
from tuner.report.section import Picture, Section, Table
from tuner.report.study_tables import p_column
from tuner.testing.sample_record import STAGES, Stage
from tuner.words.figures import UNKNOWN

Studies = Callable[..., StudyResult]
Records = Callable[..., Record]
Golden = Callable[[str, str], None]


class _Text(HTMLParser):
    """The visible text, one line per piece, and every tag with its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._hidden = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._hidden = tag in {"script", "style"}

    def handle_endtag(self, tag: str) -> None:
        if tag in {"script", "style"}:
            self._hidden = False

    def handle_data(self, data: str) -> None:
        text = " ".join(data.split())
        if text and not self._hidden:
            self.lines.append(text)


def parsed(page: str) -> _Text:
    """Parse a page."""
    parser = _Text()
    parser.feed(page)
    parser.close()
    return parser


def test_text_of_a_better_study(study: Studies, golden: Golden) -> None:
    """Everything that a report must state stands on the page, in its order."""
    golden("better.html.txt", "\n".join(parsed(render_html(study())).lines) + "\n")


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_has_a_report(study: Studies, stage: Stage) -> None:
    """A record of any stage gives a page that opens with its sentence and holds no NaN."""
    result = study(stage=stage)
    text = "\n".join(parsed(render_html(result)).lines)
    kind = result.sentence.partition(": ")[0]
    assert kind in text
    assert not re.search(r"\b(nan|NaN|inf|None|Undefined)\b", text)


def test_the_page_names_the_kind_of_p(study: Studies) -> None:
    """An always-valid p is not called exact."""
    made = study("better")
    assert made.verdict is not None
    watched = replace(made.verdict.estimate, p_kind="always-valid")
    for estimate, kind in ((made.verdict.estimate, "exact"), (watched, "always-valid")):
        page = render_html(replace(made, verdict=replace(made.verdict, estimate=estimate)))
        assert any(line.startswith(f"{kind} p ") for line in parsed(page).lines)


def test_the_table_of_figures_names_the_kinds_of_its_p(study: Studies) -> None:
    """In a study that may stop early only the objective's p is always-valid."""
    made = study("better")
    assert p_column(made.figures)[0] == "exact p"
    first, *others = made.figures
    assert first.change is not None
    watched = first.claimed(replace(first.change, p_kind="always-valid"))
    head, cells = p_column([watched, *others])
    assert head == "p"
    assert cells[0].startswith("always-valid ")
    assert {cell.split()[0] for cell in cells[1:]} == {"exact", UNKNOWN}


def test_the_page_names_the_files_that_were_measured(record: Records) -> None:
    """A reader can compare them with the files of another host; older records have none."""
    code = {"/usr/sbin/nginx": "a" * 64, "/usr/lib/</pre>.so": "b" * 64}
    known = parsed(render_html(evaluate(replace(record(), code=code))))
    lines = "\n".join(known.lines)
    assert f"{'b' * 64} /usr/lib/</pre>.so {'a' * 64} /usr/sbin/nginx" in lines
    assert "SHA-256 of the files" in lines
    assert "SHA-256 of the files" not in render_html(evaluate(record()))


@pytest.mark.parametrize("outcome", ["worse", "equivalent", "inconclusive"])
def test_no_advice_without_a_gain(study: Studies, outcome: str) -> None:
    """A study without a gain advises no change."""
    lines = parsed(render_html(study(outcome))).lines
    assert "What to change" not in lines
    assert "What was tried (no advice)" in lines


def test_every_chart_has_its_place(study: Studies) -> None:
    """Each specification names an element of the page, and each place has a specification."""
    page = render_html(study())
    match = re.search(r'<script type="application/json" id="chart-data">(.*?)</script>', page)
    assert match
    charts = json.loads(match[1])["charts"]
    places = {
        str(attributes["id"]).removeprefix("chart-")
        for _, attributes in parsed(page).tags
        if attributes.get("class") == "chart"
    }
    expected = [
        "effect",
        "blocks",
        "stalls",
        "spectra",
        "load-points",
        "search",
        "importance",
        "parallel",
        "aa",
    ]
    expected += [f"slice-{place}" for place in range(1, 9)]
    expected += [
        f"usage-{what}" for what in ("cpu", "backend", "memory", "network", "switches", "disk")
    ]
    assert set(charts) == places == set(expected)


@pytest.mark.parametrize("stage", ["started", "confirmed"])
def test_every_link_leads_somewhere(study: Studies, stage: Stage) -> None:
    """Each anchor that the page names is an element of it, and no id is given twice."""
    tags = parsed(render_html(study(stage=stage))).tags
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    links = {str(attributes["href"])[1:] for tag, attributes in tags if tag == "a"}
    assert links
    assert links <= set(ids)
    assert len(ids) == len(set(ids))


def test_a_further_section_has_its_place(study: Studies) -> None:
    """A further section's charts and tables are in the page and its navigation."""
    spec = {"mark": "point", "data": {"values": [{"x": 1}]}, "encoding": {}}
    ladder = Section(
        anchor="ladders",
        title="Ladders",
        lead="Latency against <rate>",
        legend=(("l-tuned", "tuned"),),
        pictures=(Picture("ladder-p99", "p99 by rate", spec),),
        tables=(Table(("Rate", "p99"), (("1,000/s", "1 ms"),)),),
    )
    page = render_html(study(), further=[ladder])
    assert 'id="chart-ladder-p99"' in page
    assert '<a href="#ladders">Ladders</a>' in page
    assert "Latency against &lt;rate&gt;" in page
    assert '"ladder-p99":' in page


def test_the_page_asks_for_nothing_from_outside(study: Studies) -> None:
    """No address to load, no inline handler, and a policy that forbids both."""
    tags = parsed(render_html(study())).tags
    for tag, attributes in tags:
        assert "src" not in attributes, tag
        assert tag != "link"
        assert str(attributes.get("href", "#")).startswith("#")
        assert not any(name.startswith("on") for name in attributes)
        assert "style" not in attributes
    policy = next(
        str(attributes["content"])
        for _, attributes in tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy


def test_hostile_text_stays_text(record: Records, hostile_record: Record) -> None:
    """Markup in names, messages, settings or files adds no element and ends no script."""
    tame, wild = (parsed(render_html(evaluate(version))) for version in (record(), hostile_record))
    extra = [tag for tag, _ in wild.tags if tag in {"img", "script"}]
    assert extra == [tag for tag, _ in tame.tags if tag in {"img", "script"}]
    assert any("{{ 7 * 7 }}" in line for line in wild.lines)


def test_json_is_inert_inside_a_script() -> None:
    """No character that HTML reads survives, what is hidden is shown, and the rest comes back."""
    value = {"a": "</script><!--", "b": "&lt;\u2028"}
    text = embedded_json(value)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {**value, "b": r"&lt;\u2028"}
    with pytest.raises(ValueError, match="not JSON compliant"):
        embedded_json(math.nan)


def test_the_same_record_gives_the_same_bytes(record: Records) -> None:
    """Rendered twice in one process, charts included, the pages are equal."""
    first, second = (render_html(evaluate(record())) for _ in range(2))
    assert first == second
    assert len(first.encode()) < 3_000_000


def test_chart_libraries_are_loaded_for_html_alone() -> None:
    """Importing every report, and writing text, leaves Altair and vl-convert unloaded."""
    program = (
        "import sys, tuner.report.html, tuner.report.markdown, tuner.report.text;"
        "sys.exit(any(name in sys.modules for name in ('altair', 'vl_convert', 'jinja2')))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
