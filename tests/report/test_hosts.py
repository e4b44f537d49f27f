"""The report of a study on several hosts: each of them by itself, and whose figures are shown."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import optuna
import pytest

from tests.report.test_browser import CHROMIUM, visit
from tests.scale.workers import begin, simulated, whole, work
from tuner.report.html import render_html
from tuner.report.markdown import render_markdown
from tuner.report.result import StudyResult, evaluate


@cache
def shared() -> StudyResult:
    """Three hosts, one after the other."""
    storage = optuna.storages.InMemoryStorage()
    begin(storage, "a")
    for seed, host in enumerate(("a", "b<b>", "c"), 1):
        work(storage, host, simulated(seed))
    return evaluate(whole(storage))


def test_every_host_has_a_row_and_figures_say_whose_they_are() -> None:
    """Verdict, ratio and blocks of each, escaped; the claim counts hosts and not blocks."""
    text = render_markdown(shared())
    assert "By its own blocks it is better on each of 3 hosts." in text
    assert "All figures but the claim are of host a." in text
    for host in ("a", "b&lt;b\\>", "c"):
        assert re.search(rf"^\| {re.escape(host)} \| better \| 0\.\d+ \|", text, re.MULTILINE)
    page = render_html(shared())
    assert "<dd>3 hosts<small>" in page
    assert page.count('id="hosts"') == 1
    assert "All figures but the claim are of host a." in page
    assert "<b>" not in page.partition('<section id="hosts">')[2].partition("</section>")[0]


@pytest.mark.integration
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_the_page_is_drawn(tmp_path: Path) -> None:
    """With a silent console; the navigation leads to the hosts."""
    seen = visit(render_html(shared()), tmp_path)
    assert seen.complaints == []
    assert 'href="#hosts"' in seen.dom
    assert 'id="hosts"' in seen.dom
    assert "effect" in seen.drawn
