"""The wrk2 that the tests run: the real one from the PATH, or a stand-in that prints the same."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

FAKE = Path(__file__).parent / "fake_wrk2.py"


def wrk2(folder: Path) -> Path:
    """Return the real wrk2 if it is installed, and otherwise a stand-in made in this folder."""
    found = shutil.which("wrk2")
    if found is not None:
        return Path(found)
    made = folder / "wrk2"
    made.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
    made.chmod(0o755)
    return made
