"""The outcome in the terminal and in a pull request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tuner.judge.results import StudyResult, evaluate
from tuner.record.model import Record
from tuner.report.markdown import render_markdown
from tuner.report.text import result_lines
from tuner.testing.sample_record import STAGES, Stage

Studies = Callable[..., StudyResult]
Records = Callable[..., Record]
Golden = Callable[[str, str], None]


def test_markdown_of_a_better_study(study: Studies, golden: Golden) -> None:
    """Verdict, table and changed settings come first, the rest is folded."""
    golden("better.md", render_markdown(study()))


@pytest.mark.parametrize("stage", STAGES)
def test_terminal_summary(study: Studies, golden: Golden, stage: Stage) -> None:
    """The summary of a study that ended at each stage."""
    golden(f"{stage}.txt", "\n".join(result_lines(study(stage=stage))) + "\n")


def test_the_summary_is_advice_only_when_better(study: Studies) -> None:
    """Changed settings are called what to change for a better study, and never otherwise."""
    assert "What to change" in result_lines(study())
    for outcome in ("worse", "equivalent", "inconclusive"):
        assert "What to change" not in result_lines(study(outcome))


def test_markdown_shows_hostile_text_as_text(record: Records) -> None:
    """A study name, message or setting cannot open markup, mention anyone, or break the table."""
    original = record()
    hostile = "</details><img src=x onerror=alert(1)> [x](http://x) @team | `a` **b**"
    configurations = {
        digest: replace(entry, values={**entry.values, "a`|b": f"{digest}``|"})
        for digest, entry in original.configurations.items()
    }
    text = render_markdown(
        evaluate(replace(original, name=hostile, notes=(hostile,), configurations=configurations))
    )
    assert "<img" not in text
    assert "@team" not in text
    assert "[x](" not in text
    heading = text.splitlines()[0]
    assert heading.startswith("# &lt;/details\\>&lt;img")
    rows = [line for line in text.splitlines() if line.startswith("| ``")]
    assert rows
    assert all(line.count("|") - line.count("\\|") == 4 for line in rows)


def test_a_difference_cannot_close_its_fence(record: Records) -> None:
    """The fence around the configuration is longer than any run of backticks in it."""
    original = record()
    assert original.protocol is not None
    candidate = original.configurations[original.protocol.candidate]
    changed = replace(candidate, text=candidate.text + "# ````` five\n")
    text = render_markdown(
        evaluate(
            replace(original, configurations={**original.configurations, changed.digest: changed})
        )
    )
    assert text.splitlines().count("``````") == 1


def test_the_same_record_gives_the_same_markdown(record: Records) -> None:
    """No clock, no order of a set, no counter enters the text."""
    assert render_markdown(evaluate(record())) == render_markdown(evaluate(record()))
