"""The environment of a service's process, as systemd takes it: a drop-in that names a file.

Variables of a file win over those that a unit has of its own (``Environment=``), and of two files
the later one (systemd.exec(5), EnvironmentFile=). Both files lie in the unit's folder of drop-ins,
so that a reader of one sees the other, and taking both away leaves the unit as it was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tuner.errors import StoreError

DROP_IN = "tuner.conf"
VARIABLES = "tuner.env"
_SEARCHED = re.compile(r"(GOGC|GOMEMLIMIT|GOMAXPROCS)=[A-Za-z0-9.%-]*")
"""Variables of Go's runtime (https://pkg.go.dev/runtime#hdr-Environment_Variables).

A record may come from someone else, and others (``LD_PRELOAD``) run code. No quotes and no
backslash, which systemd reads (systemd.exec(5)).
"""


@dataclass(frozen=True, slots=True)
class Unit:
    """Extra environment of a service's process."""

    files: Mapping[str, str]
    """Text by absolute path, below ``/etc/systemd``."""
    variables: Mapping[str, str]
    """Variables of the process."""


def drop_ins(service: str) -> str:
    """Return the folder of what an administrator adds to a unit (systemd.unit(5))."""
    return f"/etc/systemd/system/{service.removesuffix('.service')}.service.d"


def drop_in(folder: str) -> str:
    """Return the text of the drop-in, whose variables lie next to it in the folder."""
    return f"[Service]\nEnvironmentFile={folder}/{VARIABLES}\n"


def unit_of(service: str, environment: str) -> Unit | None:
    """Return the drop-in that gives the process of a service these variables.

    Args:
        service: its name.
        environment: ``NAME=value`` in each line, and comments.

    Returns:
        None: there are no variables.

    Raises:
        StoreError: a line sets something else than a variable that tuner searches.
    """
    rows = [row for row in environment.splitlines() if row and not row.startswith("#")]
    if not rows:
        return None
    for row in rows:
        if not _SEARCHED.fullmatch(row):
            raise StoreError(
                f"{row!r} is not a variable that tuner sets for {service}; allowed: GOGC,"
                " GOMEMLIMIT and GOMAXPROCS, each with a plain value"
            )
    folder = drop_ins(service)
    files = {f"{folder}/{DROP_IN}": drop_in(folder), f"{folder}/{VARIABLES}": environment}
    return Unit(files, dict(row.split("=", 1) for row in rows))
