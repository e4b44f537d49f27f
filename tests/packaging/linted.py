"""Run actionlint on workflows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.go_tools import go_tool, ran

ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"


def actionlint(*workflows: Path) -> str:
    """Return the complaints of actionlint; without it, the test is skipped."""
    command = go_tool(ACTIONLINT, "-version")
    if command is None:
        pytest.skip(f"no actionlint on the PATH, and Go did not run {ACTIONLINT} here")
    done = ran([*command, "-no-color", *map(str, workflows)])
    return done.stdout + done.stderr
