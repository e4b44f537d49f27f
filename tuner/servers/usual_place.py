"""Where a server lies on a usual system: the Debian packages' and official images' habits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UsualPlace:
    """What an export has to know to be put where the server looks for it."""

    path: str
    """Of its configuration file."""
    validate: str
    """Command that refuses a bad file, whose path stands where ``%s`` is; empty: it has none."""
    service: str
    """systemd's unit."""
    image: str
    """Official container image, without the version; empty: there is none."""
    environment: str = ""
    """The exported file of variables for its process; empty: nothing belongs there."""

    @property
    def file(self) -> str:
        """Name of its configuration file."""
        return self.path.rpartition("/")[2]
