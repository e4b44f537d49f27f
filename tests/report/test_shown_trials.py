"""A page of a very long search shows a part of its trials, and says which."""

from __future__ import annotations

import itertools
import re

import pytest

from tuner.judge.results import evaluate
from tuner.report import shown_trials
from tuner.report.html import render_html
from tuner.report.shown_trials import shown_words
from tuner.testing.sample_record import sample_record

STUDY = evaluate(sample_record("better", trials=32))
"""32 trials: the baseline, one by hand, and proposed ones."""


def test_all_trials_are_shown_as_a_rule() -> None:
    """And no word is lost on it."""
    assert shown_trials.shown_trials(STUDY) == STUDY.trials
    assert shown_words(STUDY) == ""
    assert f"All {len(STUDY.trials)} trials" in render_html(STUDY)


def test_of_a_very_long_search_the_best_and_others_over_time_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit is 12 here: six best, those that are always shown, and the others evenly."""
    monkeypatch.setattr(shown_trials, "MOST", 12)
    monkeypatch.setattr(shown_trials, "_BEST", 6)
    shown = shown_trials.shown_trials(STUDY)
    numbers = [trial.number for trial in shown]
    assert len(shown) == 12
    assert numbers == sorted(set(numbers))
    by_score = sorted((t for t in STUDY.trials if t.score == t.score), key=lambda t: t.score)
    always = {t.number for t in by_score[:6]} | {
        t.number for t in STUDY.trials if t.origin != "proposed" or t.digest == STUDY.candidate
    }
    assert always <= set(numbers)
    others = [t.number for t in STUDY.trials if t.number not in always]
    places = [others.index(number) for number in numbers if number not in always]
    gaps = {after - before for before, after in itertools.pairwise(places)}
    assert max(gaps) - min(gaps) <= 1
    page = re.sub(r"\s+", " ", render_html(STUDY))
    assert f"12 of {len(STUDY.trials)} trials" in page
    assert "the best 6, and others at equal distances in time." in page
