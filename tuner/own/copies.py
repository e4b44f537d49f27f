"""Copied folders: a configuration that is read somewhere else than where its server has it.

A copy is complete in itself. This machine's own files, such as its ``/etc/nginx``, never take the
place of those that a copy lacks.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from tuner.own.files import Files

_SYSTEM = ("/etc", "/usr", "/opt", "/config")
"""Folders in which packages and containers have their configuration."""
_INSTALLED = ("/etc", "/usr")
"""Folders in which a main file is the one that this machine's server reads."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Folders by the paths that a configuration has for them."""

    folders: tuple[tuple[str, str], ...] = ()
    """Path and folder; the first that fits counts."""
    is_copy: bool = False
    """True if the main file is part of a copy."""
    folder: str = ""
    """Folder of the main file, if that is part of a copy."""

    def located(self, path: str) -> str:
        """Return where a file of the configuration is."""
        for named, folder in self.folders:
            if PurePosixPath(path).is_relative_to(named):
                return str(PurePosixPath(folder) / PurePosixPath(path).relative_to(named))
        return path

    def covers(self, path: str) -> bool:
        """Return whether a folder stands for a path."""
        return any(PurePosixPath(path).is_relative_to(named) for named, _ in self.folders)

    def is_foreign(self, path: str) -> bool:
        """Return whether a path is this machine's own, which a copy does not have."""
        if not self.is_copy or not is_of_system(path) or self.covers(path):
            return False
        copied = (self.folder, *(folder for _, folder in self.folders))
        return not any(PurePosixPath(path).is_relative_to(folder) for folder in copied if folder)

    def followed(self, path: str) -> str:
        """Return the file of a copy that a link leads to; links have the paths of their server."""
        if not self.is_copy or not os.path.islink(path):  # noqa: PTH114 - the path is a text
            return path
        target = os.readlink(path)  # noqa: PTH115 - the same
        return self.located(target) if os.path.isabs(target) else path  # noqa: PTH117 - the same


def copy_notes(main: str, read: Copies, given: Copies) -> list[str]:
    """Return a note on each folder that stands for a path and that the user did not name."""
    return [
        f"{main} is a copy: {folder} is read for {path} (--prefix {path}=FOLDER names another"
        " folder)"
        for path, folder in read.folders
        if (path, folder) not in given.folders
    ]


NO_COPIES = Copies()
"""Nothing is copied: the server itself reads the files."""


def is_installed(main: str) -> bool:
    """Return whether a main file is one that this machine's server reads."""
    return any(PurePosixPath(main).is_relative_to(folder) for folder in _INSTALLED)


def is_of_system(path: str) -> bool:
    """Return whether a path lies where packages and containers have their configuration."""
    return any(PurePosixPath(path).is_relative_to(folder) for folder in _SYSTEM)


def named(pairs: Sequence[str]) -> Copies:
    """Return the folders of ``/etc/nginx=FOLDER``, longest path first."""
    split = (pair.partition("=") for pair in pairs)
    folders = [(path, os.path.abspath(folder)) for path, _, folder in split]  # noqa: PTH100 - text
    return Copies(tuple(sorted(folders, key=lambda pair: -len(pair[0]))), is_copy=bool(pairs))


def guessed(main: str, includes: Sequence[str], files: Files, given: Copies) -> Copies:
    """Return the given folders, with the path for which the folder of a main file stands.

    The path is the one under which most of its includes are found in the folder, and the shortest
    of several.

    Args:
        main: absolute path of the main file.
        includes: absolute paths and masks of its includes.
        files: files of the host.
        given: folders that the user names. An include below one of them says nothing about the
            main file's folder.
    """
    folder = PurePosixPath(main).parent
    if is_installed(main) or any(str(folder) == one for _, one in given.folders):
        return given
    wide = Copies(tuple(pair for pair in given.folders if pair[0] not in includes))
    system = [PurePosixPath(path) for path in includes if is_of_system(path)]
    outside = [
        path for path in system if not (path.is_relative_to(folder) or wide.covers(str(path)))
    ]
    # The root and the first folder below it stand for no configuration.
    candidates = {above for path in outside for above in path.parents if len(above.parts) > 2}

    def rank(path: PurePosixPath) -> tuple[int, int, int, str]:
        below = [str(each.relative_to(path)) for each in outside if each.is_relative_to(path)]
        there = [files.matches(str(folder / each)) for each in below]
        # No file includes itself.
        hits = -1 if any(main in found for found in there) else sum(map(bool, there))
        return hits, len(below), -len(path.parts), str(path)

    best = max(map(rank, candidates), default=None)
    if best is None or (wide.folders and best[0] < 1):
        return Copies(given.folders, given.is_copy or bool(outside), str(folder))
    return Copies((*given.folders, (best[-1], str(folder))), is_copy=True, folder=str(folder))
