"""Files of the kernel below /proc and /sys, of which any may be missing: see proc(5), sysfs(5).

The agent runs this file on other hosts, so it needs only the standard library of Python 3.8.
"""

from __future__ import annotations

from pathlib import Path


def text_of(path: Path) -> str:
    """Return a file's text; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def entries_of(folder: Path) -> list[Path]:
    """Return what is in a folder, in the order of the names; nothing if it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
