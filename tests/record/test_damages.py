"""Two hundred damaged records, 25 of each kind; `make fuzz` makes 2,000 of each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.record.damages import KINDS

TOP = Path(__file__).parents[2]


def test_a_damaged_record_is_refused_in_one_line_or_gives_a_report() -> None:
    """Truncated, flipped, of other types, with garbled pages; in 2 s of CPU and 300 MiB each."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.record.damages", "--inputs", "25"],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(KINDS)
    assert all(" 25 inputs: " in line and " 0 failed" in line for line in lines)
    # Nothing of a damaged record reaches the terminal past the message.
    assert done.stderr == ""
    # Not every damage can be seen, and not every one is refused.
    assert any(" 0 reported" not in line for line in lines)
