"""The report of a study on several hosts: each of them by itself, and whose figures are shown."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import optuna
import pytest

from tests.report.test_browser import CHROMIUM, visit
from tests.store.workers import begin, simulated, whole, work
from tuner.judge.results import StudyResult, evaluate
from tuner.record.model import Record
from tuner.report.html import render_html
from tuner.report.markdown import render_markdown


@cache
def recorded() -> Record:
    """Three hosts, one after the other."""
    storage = optuna.storages.InMemoryStorage()
    begin(storage, "a")
    for seed, host in enumerate(("a", "b<b>", "c"), 1):
        work(storage, host, simulated(seed))
    return whole(storage)


@cache
def shared() -> StudyResult:
    """Return the result of the hosts."""
    return evaluate(recorded())


def test_every_host_has_a_row_and_figures_name_their_host() -> None:
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


def test_a_host_without_a_claim_does_not_count_in_that_of_all() -> None:
    """A host with too many invalid blocks is left out of the claim over all, with the reason."""
    record = recorded()
    first = next(b for b in record.blocks if b.host == "a" and b.phase == "confirm")
    windows = tuple(replace(w, invalid=("the host stalled",)) for w in first.windows * 9)
    spoilt = replace(first, number=len(record.blocks), state="invalid", windows=windows)
    result = evaluate(replace(record, blocks=(*record.blocks, spoilt)))
    assert result.hosts is not None
    assert result.hosts.across is not None
    assert [host.name for host in result.hosts.across.hosts] == ["b<b>", "c"]
    assert "inconclusive on a" in result.hosts.everywhere
    assert any(note.startswith("host a is left out: Incon") for note in result.hosts.notes)


def test_over_hosts_nothing_is_better_while_a_limit_is_open_on_one_of_them() -> None:
    """An open limit on one host makes the verdict over all hosts inconclusive."""
    record = recorded()
    ratio = next(f.change.ratio for f in shared().figures if f.name == "p90" and f.change)

    def within(factor: float) -> StudyResult:
        limit = f"p90 <= {factor:.5f}x baseline"
        return evaluate(replace(record, definition={**record.definition, "constraint": [limit]}))

    assert within(2.0).sentence.startswith("Better over 3 hosts: ")
    assert within(ratio).sentence.startswith("Inconclusive over 3 hosts: ")
    assert "all else that is wanted holds is open on a" in within(ratio).sentence
