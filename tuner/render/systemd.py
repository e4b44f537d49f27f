"""The environment of a service's process for systemd: a drop-in and a file of variables.

Variables of a file take precedence over a unit's own (``Environment=``), and later files over
earlier ones (systemd.exec(5), EnvironmentFile=). Both files are in the unit's folder of drop-ins,
so that they are found together, and removing both restores the unit.
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

A record may be untrusted, and other variables (``LD_PRELOAD``) run code. Quotes and backslashes are
excluded, because systemd interprets them (systemd.exec(5)).
"""


@dataclass(frozen=True, slots=True)
class Unit:
    """Extra environment of a service's process."""

    files: Mapping[str, str]
    """Text by absolute path, below ``/etc/systemd``."""
    variables: Mapping[str, str]
    """Variables of the process."""


def drop_ins(service: str) -> str:
    """Return the folder for an administrator's drop-ins of a unit (systemd.unit(5))."""
    return f"/etc/systemd/system/{service.removesuffix('.service')}.service.d"


def drop_in(folder: str) -> str:
    """Return the text of the drop-in, with the file of variables in the same folder."""
    return f"[Service]\nEnvironmentFile={folder}/{VARIABLES}\n"


def unit_of(service: str, environment: str) -> Unit | None:
    """Return the drop-in with variables for the process of a service.

    Args:
        service: name of the service.
        environment: lines of ``NAME=value``, and comments.

    Returns:
        None without variables.

    Raises:
        StoreError: a line sets a variable that tuner does not search.
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
