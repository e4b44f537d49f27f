"""The example of docs/testing.md runs, and says what the page promises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def test_the_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    """In order, as a reader would paste them; the study finds what its truth has in store."""
    names: dict[str, object] = {}
    for example in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(example, str(PAGE), "exec"), names)  # noqa: S102 - our own page
    sentence = capsys.readouterr().out
    assert sentence.startswith("Better: p99 is ")
    assert names["study"].changes  # type: ignore[attr-defined]
    assert "sendfile" in {change.name for change in names["study"].changes}  # type: ignore[attr-defined]
