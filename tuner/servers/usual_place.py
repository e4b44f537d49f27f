"""Usual paths of a server: the habits of Debian's packages and official images."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePath


@dataclass(frozen=True, slots=True)
class UsualPlace:
    """The usual place of a server's configuration and service."""

    path: str
    """Path of its configuration file."""
    validate: str
    """Command that refuses a bad file, with ``%s`` for its path; empty without one."""
    service: str
    """Name of the systemd unit."""
    image: str
    """Official container image, without the version; empty without one."""
    image_path: str = ""
    """Path of the configuration file in the image; empty: ``path``."""
    image_version: str = ""
    """Prefix of the version in the image's tags."""
    environment: str = ""
    """Exported file of variables for its process; empty without one."""
    variables: tuple[str, ...] = ()
    """Names of the variables in ``environment``."""
    reloads: bool = True
    """False if only a start takes over all that a changed file may say."""
    image_command: tuple[str, ...] = ()
    """Command of the container for a process with variables of ``environment``; empty: the
    image's own."""
    named: tuple[str, ...] = ()
    """Lower-case patterns of file names for configurations of this server."""

    @property
    def file(self) -> str:
        """Name of its configuration file."""
        return self.path.rpartition("/")[2]

    def claims(self, path: PurePath) -> bool:
        """Return whether the name of a file is one of this server's configurations."""
        return any(fnmatchcase(path.name.lower(), pattern) for pattern in self.named)
