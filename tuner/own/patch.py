"""A patch of the user's own files, as ``patch -p0``, ``patch -p1`` and ``git apply`` take it.

Names begin with ``./``: with or without this part they are the files below the folder.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath

PATCH = "own.patch"
APPLIED = "own"
"""Folder of an export with the changed files."""
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_HERE = "./"
_NO_END = "\\ No newline at end of file\n"


def exported(
    digest: str, before: Mapping[str, str], after: Mapping[str, str], main: str, check: str
) -> dict[str, str]:
    """Return the patch and the changed files, by name in an export; empty without changes.

    Args:
        digest: of the configuration.
        before: text by path.
        after: text by path, of the files that change.
        main: the configuration's main file.
        check: command that says whether the server takes it.
    """
    if not after:
        return {}
    folder = common_folder(after, main)
    head = (
        f"Configuration {digest}. To apply it:\n"
        f"  patch -p0 -d {folder} < {PATCH}    (or in that folder: git apply)\n"
        f"and then: {check}\n\n"
    )
    copies = {
        f"{APPLIED}/{PurePath(file).relative_to(folder).as_posix()}": plain(text)
        for file, text in after.items()
    }
    return {PATCH: head + plain(patch(before, after, folder)), **copies}


def folder_of(text: str) -> Path:
    """Return the folder that the names in an exported patch count from, as its head says it."""
    found = re.search(r"^  patch -p0 -d (.*) < ", text, re.MULTILINE)
    return Path(found[1]) if found else Path()


def plain(text: str) -> str:
    """Return text that any file and record can hold; what was no UTF-8 is shown as a mark."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def lines_of(text: str) -> list[str]:
    """Return the lines with their ends, as ``patch`` counts them: at line feeds alone.

    Python knows ten more ends of a line.
    """
    return _LINES.findall(text)


def before_patch(text: str, after: Mapping[str, str]) -> dict[str, str]:
    """Return the files as they were before an exported patch.

    Args:
        text: the patch.
        after: the patched texts, by name in the patch.

    Raises:
        ValueError: the patch does not lead to these texts.
    """
    found = dict(after)
    rows = iter(_without_marks(text))
    name, lines, shift = "", [""], 0
    for row in rows:
        if row.startswith("+++ "):
            # Patches of earlier versions have no dot in their names.
            name, shift = row[4:].rstrip("\n").removeprefix(_HERE), 0
            if name not in after:
                raise ValueError(f"{name!r} is in the patch, and no file")
            lines = lines_of(after[name])
        head = _HUNK.match(row)
        if head is None:
            continue
        old, new = _hunk(rows, int(head[1] or 1), int(head[3] or 1))
        # An empty range is named by the line before it (POSIX, diff -u).
        start = int(head[2]) - bool(new) + shift
        if lines[start : start + len(new)] != new:
            raise ValueError(f"the patch does not lead to {name!r}")
        lines[start : start + len(new)] = old
        shift += len(old) - len(new)
        found[name] = "".join(lines)
    return found


def _without_marks(text: str) -> list[str]:
    """Return the patch's lines; one that has no line feed in its file has none here."""
    rows: list[str] = []
    for row in lines_of(text):
        if row == _NO_END and rows:
            rows[-1] = rows[-1].removesuffix("\n")
        else:
            rows.append(row)
    return rows


def _hunk(rows: Iterator[str], old_count: int, new_count: int) -> tuple[list[str], list[str]]:
    """Read a hunk: its lines before and after."""
    old: list[str] = []
    new: list[str] = []
    while len(old) < old_count or len(new) < new_count:
        row = next(rows, "")
        if row[:1] not in (" ", "-", "+"):
            raise ValueError("the patch ends within a hunk")
        if row[0] != "+":
            old.append(row[1:])
        if row[0] != "-":
            new.append(row[1:])
    return old, new


def common_folder(files: Iterable[str], main: str) -> Path:
    """Return the base folder of a patch: the main file's, or one above that holds all files."""
    folders = [str(PurePath(file).parent) for file in (main, *files)]
    return Path(os.path.commonpath(folders))


def patch(before: Mapping[str, str], after: Mapping[str, str], folder: Path) -> str:
    """Return the difference of some files; empty if nothing changes.

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
    texts = (lines_of(before), lines_of(after))
    found = difflib.unified_diff(*texts, f"{_HERE}{name}", f"{_HERE}{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n{_NO_END}" for line in found)
