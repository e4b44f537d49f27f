"""The ground that instances stand on: everything about the target that no configuration decides."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tuner.servers.certificate import Certificate
from tuner.wire import Protocol


@dataclass(frozen=True, slots=True)
class Ground:
    """Folders, CPUs and neighbours of the instances on one target."""

    binary: str
    instances_dir: Path
    backends_dir: Path
    site_dir: Path
    cpus: tuple[int, ...]
    """CPUs that the server is confined to."""
    backend_cpus: tuple[int, ...]
    upstreams: tuple[str, ...]
    """``host:port`` of the backends; empty where there are none."""
    protocol: Protocol = "http1"
    certificate: Certificate | None = None
    """What instances show; None: cleartext."""
