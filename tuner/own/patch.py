"""A patch of the user's own files, as ``patch -p0`` and ``git apply -p0`` take it."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath

_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_NO_END = "\\ No newline at end of file\n"


def common_folder(files: Iterable[str], main: str) -> Path:
    """What names in a patch count from: the main file's folder, or one above that holds all."""
    folders = [str(PurePath(file).parent) for file in (main, *files)]
    return Path(os.path.commonpath(folders))


def patch(before: Mapping[str, str], after: Mapping[str, str], folder: Path) -> str:
    """The difference of some files; empty if nothing changes.

    Args:
        before: text by path.
        after: text by path, of the files that change.
        folder: what the names in the patch count from. ``patch`` refuses absolute ones.
    """
    return "".join(
        _one(PurePath(file).relative_to(folder).as_posix(), before[file], after[file])
        for file in after
    )


def _one(name: str, before: str, after: str) -> str:
    # At line feeds alone, as `patch` counts lines; Python knows ten more ends of a line.
    texts = (_LINES.findall(before), _LINES.findall(after))
    found = difflib.unified_diff(*texts, name, name)
    return "".join(line if line.endswith("\n") else f"{line}\n{_NO_END}" for line in found)
