"""Copied folders: a configuration that is read somewhere else than where its server has it.

A copy is complete in itself. This machine's own files, such as its ``/etc/nginx``, never take the
place of those that a copy lacks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
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
        return self.is_copy and is_of_system(path) and not self.covers(path)

    def followed(self, path: str) -> str:
        """Return the file of a copy that a link leads to; links have the paths of their server."""
        if not self.is_copy or not os.path.islink(path):  # noqa: PTH114 - the path is a text
            return path
        target = os.readlink(path)  # noqa: PTH115 - the same
        return self.located(target) if os.path.isabs(target) else path  # noqa: PTH117 - the same


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


def guessed(main: str, includes: Iterable[str], files: Files) -> Copies:
    """Return the path for which the folder of a main file stands, from the includes in it.

    The path is the shortest one under which most of them are found in the folder.

    Args:
        main: absolute path of the main file.
        includes: absolute paths and masks of its includes.
        files: files of the host.
    """
    folder = PurePosixPath(main).parent
    if is_installed(main):
        return Copies()
    outside = [
        path
        for path in map(PurePosixPath, includes)
        if not path.is_relative_to(folder) and is_of_system(str(path))
    ]
    if not outside:
        return Copies()
    shared = PurePosixPath(os.path.commonpath([str(path.parent) for path in outside]))
    # The root and the first folder below it stand for no configuration.
    candidates = [path for path in (shared, *shared.parents) if len(path.parts) > 2]

    def hits(path: PurePosixPath) -> int:
        there = [files.matches(str(folder / each.relative_to(path))) for each in outside]
        # No file includes itself.
        return -1 if any(main in found for found in there) else sum(map(bool, there))

    # Of equals the first one counts, which is the shortest.
    best = max(reversed(candidates), key=hits, default=shared)
    return Copies(((str(best), str(folder)),), is_copy=True)
