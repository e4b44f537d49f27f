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
    """Command that refuses a bad file, whose path stands where ``%s`` is; empty: it has none."""
    service: str
    """systemd's unit."""
    image: str
    """Official container image, without the version; empty: there is none."""
    environment: str = ""
    """The exported file of variables for its process; empty: nothing belongs there."""
    named: tuple[str, ...] = ()
    """Patterns of file names, in lower case, that tell its configuration from other servers'."""

    @property
    def file(self) -> str:
        """Name of its configuration file."""
        return self.path.rpartition("/")[2]

    def claims(self, path: PurePath) -> bool:
        """Return whether a file is a configuration of this server by its name."""
        return any(fnmatchcase(path.name.lower(), pattern) for pattern in self.named)
