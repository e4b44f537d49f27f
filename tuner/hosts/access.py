"""Access checks for the unprivileged account of the instances.

The agent runs this file on other hosts, so it needs only the standard library of Python 3.8.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path


def is_enterable(path: str) -> bool:
    """Return whether the account may enter a folder."""
    if os.geteuid() != 0:
        return os.access(path, os.X_OK)
    folder = Path(path).resolve()
    try:
        return all(each.stat().st_mode & stat.S_IXOTH for each in (folder, *folder.parents))
    except OSError:
        return False


def is_readable(path: str) -> bool:
    """Return whether the account may read a file."""
    if os.geteuid() != 0:
        return os.access(path, os.R_OK)
    try:
        parents = all(p.stat().st_mode & stat.S_IXOTH for p in Path(path).resolve().parents)
        return parents and bool(Path(path).stat().st_mode & stat.S_IROTH)
    except OSError:
        return False
