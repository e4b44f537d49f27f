"""Puts a configuration to the server's own validator, without starting anything."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tuner.facts import ServerFacts
from tuner.hosts.port import InstanceSpec
from tuner.servers.certificate import make_certificate
from tuner.servers.ground import Ground
from tuner.workload import Workload

_NOWHERE = "127.0.0.1:9"
"""An upstream that is never asked: the port of the discard service (RFC 863)."""


def trial_ground(server: ServerFacts, workload: Workload, folder: Path) -> Ground:
    """Ground to validate on, below one folder.

    Args:
        server: whose program validates.
        workload: what instances are for; decides on TLS, protocol and upstream.
        folder: empty, and the caller's to take away.
    """
    site = folder / "site"
    site.mkdir(parents=True)
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    tls = workload.wire.tls
    return Ground(
        binary=server.binary,
        instances_dir=folder,
        backends_dir=folder,
        site_dir=site,
        cpus=cpus,
        backend_cpus=cpus,
        upstreams=(_NOWHERE,) if workload.backend else (),
        protocol=workload.wire.protocol,
        certificate=make_certificate(tls.server_name) if tls else None,
    )


def refusal(spec: InstanceSpec, *, strict: bool = False) -> str:
    """What the server says against an instance; empty if it would run it.

    Args:
        spec: its files are written into its folder.
        strict: a warning counts too.
    """
    directory = Path(spec.directory)
    for name in spec.folders:
        (directory / name).mkdir(parents=True, exist_ok=True)
    for name, text in spec.files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    done = subprocess.run(
        list(spec.validate),
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **spec.environment},
    )
    said = (done.stderr or done.stdout).strip()
    warned = strict and "[warn]" in said
    return said if done.returncode or warned else ""
