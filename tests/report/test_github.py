"""The Markdown report as a renderer of GitHub's kind reads it."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser

from markdown_it import MarkdownIt

from tuner.judge.results import StudyResult, evaluate
from tuner.record.model import Record
from tuner.report.markdown import render_markdown

Studies = Callable[..., StudyResult]


class _Shape(HTMLParser):
    """Open and closed tags, and the number of cells in each row of each table."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tables: list[list[int]] = []
        self.wrong: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.seen.add(tag)
        if tag in {"br", "hr", "img"}:
            return
        self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append(0)
        elif tag in {"td", "th"}:
            self.tables[-1][-1] += 1

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def shape(text: str) -> _Shape:
    """Render by CommonMark with tables and HTML blocks, as GitHub does, and look at the result."""
    found = _Shape()
    found.feed(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))
    return found


def test_it_renders_as_it_was_meant(study: Studies) -> None:
    """Every table has rows of one width, every folded part is closed, nothing is left over."""
    found = shape(render_markdown(study()))
    assert found.wrong == []
    assert found.open == []
    assert len(found.tables) >= 6
    for rows in found.tables:
        assert len(rows) >= 2
        assert len(set(rows)) == 1
    assert {"details", "summary", "strong", "code", "pre"} <= found.seen


def test_hostile_text_opens_nothing(hostile_record: Record, study: Studies) -> None:
    """Names, messages and settings of a study add no element and break no table."""
    tame, wild = (shape(render_markdown(found)) for found in (study(), evaluate(hostile_record)))
    assert wild.seen == tame.seen
    assert wild.wrong == []
    assert all(len(set(rows)) == 1 for rows in wild.tables)
