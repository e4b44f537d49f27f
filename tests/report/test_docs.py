"""The examples of docs/report.md work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "report.md"


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The Python example prints a verdict and makes a page."""
    example = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    exec(example[0], names)  # noqa: S102 - the documentation is ours
    assert capsys.readouterr().out.startswith("Better: p99 is ")
    assert str(names["page"]).startswith("<!doctype html>")
