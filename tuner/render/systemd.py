"""The environment of a service's process for systemd: a drop-in and a file of variables.

Variables of a file take precedence over a unit's own (``Environment=``), and later files over
earlier ones (systemd.exec(5), EnvironmentFile=). Both files are in the unit's folder of drop-ins,
so that they are found together, and removing both restores the unit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tuner.errors import StoreError

DROP_IN = "tuner.conf"
VARIABLES = "tuner.env"
_VARIABLE = re.compile(r"([A-Z]+)=[A-Za-z0-9.%-]*")
"""A variable with a plain value: systemd interprets quotes and backslashes (systemd.exec(5))."""


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


def unit_of(service: str, environment: str, allowed: Collection[str]) -> Unit | None:
    """Return the drop-in with variables for the process of a service.

    A record may be untrusted, and some variables (``LD_PRELOAD``) run code.

    Args:
        service: name of the service.
        environment: lines of ``NAME=value``, and comments.
        allowed: names of the variables that tuner sets for its server.

    Returns:
        None without variables.

    Raises:
        StoreError: a line sets another variable, or its value is not plain.
    """
    rows = [row for row in environment.splitlines() if row and not row.startswith("#")]
    if not rows:
        return None
    for row in rows:
        found = _VARIABLE.fullmatch(row)
        if not found or found[1] not in allowed:
            names = ", ".join(allowed) or "none"
            raise StoreError(
                f"{row!r} is not a variable that tuner sets for {service}; allowed: {names},"
                " each with a plain value"
            )
    folder = drop_ins(service)
    files = {f"{folder}/{DROP_IN}": drop_in(folder), f"{folder}/{VARIABLES}": environment}
    return Unit(files, dict(row.split("=", 1) for row in rows))
