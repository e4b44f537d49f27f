"""The files of definitions that tuner ships, by their names."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from tuner.errors import DefinitionError, quoted
from tuner.reading.located import did_you_mean


def shipped_file(name: str, kind: str, known: Collection[str], folder: Path, path: str) -> Path:
    """Return the file of a shipped definition.

    Args:
        name: name that the user gives.
        kind: kind of definition, for the message: ``study``.
        known: names of all shipped definitions of this kind.
        folder: folder of their files.
        path: option or argument that names it, for the message.

    Raises:
        DefinitionError: there is none of this name.
    """
    if name not in known:
        raise DefinitionError(
            f"there is no {kind} {quoted(name)}; built in: {', '.join(known)}"
            f"{did_you_mean(name, known)} (name a file of your own by a path that ends with .yaml)",
            path=path,
        )
    return folder / f"{name}.yaml"


def names_in(folder: Path) -> list[str]:
    """Return the names of the definitions in a folder, sorted."""
    return sorted(file.stem for file in folder.glob("*.yaml"))
