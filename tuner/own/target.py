"""The host that serves, as far as a configuration of the user's needs it before anything starts."""

from __future__ import annotations

from typing import Protocol

from tuner.errors import DefinitionError
from tuner.hosts.access import is_enterable, is_readable
from tuner.servers.trial import LocalTrialHost, TrialHost


class Target(TrialHost, Protocol):
    """A host on which configurations are tried out, and what its instances may read there."""

    def is_enterable(self, path: str) -> bool:
        """Return whether the account of the instances may enter a folder."""
        ...

    def is_readable(self, path: str) -> bool:
        """Return whether the account of the instances may read a file."""
        ...


class _ThisMachine(LocalTrialHost):
    """Implement ``Target``."""

    def is_enterable(self, path: str) -> bool:
        """Implement ``Target``."""
        return is_enterable(path)

    def is_readable(self, path: str) -> bool:
        """Implement ``Target``."""
        return is_readable(path)


THIS_MACHINE: Target = _ThisMachine()


def check_folder(target: Target, folder: str, path: str, line: int | None = None) -> None:
    """Raise DefinitionError if instances cannot serve the user's files from a folder.

    Args:
        target: where it lies.
        folder: absolute.
        path: of the file, or the option, that names it.
        line: in that file.

    Raises:
        DefinitionError: their account cannot enter it.
    """
    if target.is_enterable(folder):
        return
    raise DefinitionError(
        f"the folder {folder} cannot be entered by the lab's account (nobody, where tuner is root)"
        f"{'' if target is THIS_MACHINE else ' on the target'}; let others enter it and the folders"
        " above (chmod o+x), or name a folder that they can: --root FOLDER",
        path=path,
        line=line,
    )
