"""A patch of the user's own files, as ``patch -p0`` and ``git apply -p0`` take it."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath

PATCH = "own.patch"
APPLIED = "own"
"""Folder of an export with the changed files."""
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_NO_END = "\\ No newline at end of file\n"


def exported(
    digest: str, before: Mapping[str, str], after: Mapping[str, str], main: str, check: str
) -> dict[str, str]:
    """The patch, and the changed files beside it, by name in an export; nothing if none changes.

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
        f"  patch -p0 -d {folder} < {PATCH}    (or in that folder: git apply -p0)\n"
        f"and then: {check}\n\n"
    )
    copies = {
        f"{APPLIED}/{PurePath(file).relative_to(folder).as_posix()}": plain(text)
        for file, text in after.items()
    }
    return {PATCH: head + plain(patch(before, after, folder)), **copies}


def folder_of(text: str) -> Path:
    """The folder that the names in an exported patch count from, as its head says it."""
    found = re.search(r"^  patch -p0 -d (.*) < ", text, re.MULTILINE)
    return Path(found[1]) if found else Path()


def plain(text: str) -> str:
    """Text that any file and record can hold; what was no UTF-8 is shown as a mark."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


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
