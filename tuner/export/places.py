"""Where each server keeps its configuration on a usual system, and how it checks one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tuner.servers.caddy import ENVIRONMENT_FILE


@dataclass(frozen=True, slots=True)
class Place:
    """One server on a usual system: the Debian packages' and official images' habits."""

    file: str
    """Name of its configuration file."""
    path: str
    """Where that lies."""
    validate: str
    """Command that refuses a bad file, whose path stands where ``%s`` is; empty: it has none."""
    service: str
    """systemd's unit."""
    image: str
    """Official container image, without the version; empty: there is none."""
    environment: str = ""
    """The exported file of variables for its process; empty: nothing belongs there."""


PLACES: Mapping[str, Place] = {
    "nginx": Place("nginx.conf", "/etc/nginx/nginx.conf", "nginx -t -c %s", "nginx", "nginx"),
    "caddy": Place(
        "Caddyfile",
        "/etc/caddy/Caddyfile",
        # `caddy validate` would open the log files, as root; what this does not see the reload
        # does, which keeps what runs.
        "caddy adapt --adapter caddyfile --config %s",
        "caddy",
        "caddy",
        ENVIRONMENT_FILE,
    ),
    "nghttpx": Place("nghttpx.conf", "/etc/nghttpx/nghttpx.conf", "", "nghttpx", ""),
}


def place_of(server: str) -> Place:
    """The place of a server; of one that is not known, a plain guess."""
    return PLACES.get(
        server, Place(f"{server}.conf", f"/etc/{server}/{server}.conf", "", server, "")
    )
