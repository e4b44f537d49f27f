"""Validation of a configuration by the server itself, without a start."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from tuner.hosts.deployer import InstanceSpec
from tuner.machine.facts import ServerFacts
from tuner.paths import temporary
from tuner.servers.certificate import make_certificate
from tuner.servers.ground import TargetGround
from tuner.workload.workload import Workload

_NOWHERE = "127.0.0.1:9"
"""An upstream without requests: the port of the discard service (RFC 863)."""


class TrialHost(Protocol):
    """A host for validating configurations."""

    def folder(self) -> AbstractContextManager[str]:
        """Return a temporary folder."""
        ...

    def put(self, path: str, content: bytes) -> None:
        """Write a file, and create its folders."""
        ...

    def run_command(
        self, command: Sequence[str], *, cwd: str | None = None
    ) -> tuple[int, str, str]:
        """Run a command; return exit code, standard output and standard error."""
        ...


class LocalTrialHost:
    """This machine; see ``TrialHost``."""

    @contextlib.contextmanager
    def folder(self) -> Iterator[str]:
        """Implement ``TrialHost``."""
        with temporary("trial") as name:
            yield name

    def put(self, path: str, content: bytes) -> None:
        """Implement ``TrialHost``."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)

    def run_command(
        self, command: Sequence[str], *, cwd: str | None = None
    ) -> tuple[int, str, str]:
        """Implement ``TrialHost``."""
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, errors="replace", check=False
        )
        return done.returncode, done.stdout, done.stderr


HERE = LocalTrialHost()


def trial_ground(server: ServerFacts, workload: Workload, folder: Path) -> TargetGround:
    """Return a layout for validation, below one folder.

    Args:
        server: facts of the validating server.
        workload: the workload, which decides on TLS, protocol and upstream.
        folder: folder for the instances, which the caller removes.
    """
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    tls = workload.wire.tls
    protocols = workload.backend.protocols if workload.backend else ()
    return TargetGround(
        binary=server.binary,
        instances_dir=folder,
        backends_dir=folder,
        site_dir=folder / "site",
        cpus=cpus,
        backend_cpus=cpus,
        upstreams=(_NOWHERE,) if "http" in protocols else (),
        native_backend=_NOWHERE if {*protocols} - {"http"} else "",
        protocol=workload.wire.protocol,
        certificate=make_certificate(tls.server_name) if tls else None,
    )


def refusal(spec: InstanceSpec, *, strict: bool = False, on: TrialHost = HERE) -> str:
    """Return the server's refusal of an instance; empty if it accepts it.

    Args:
        spec: the instance; its files are written into its folder.
        strict: whether a warning counts as a refusal.
        on: host with the program.
    """
    directory = Path(spec.directory)
    folders = [str(directory / name) for name in spec.folders]
    on.run_command(("mkdir", "-p", spec.directory, *folders))
    for name, text in spec.files.items():
        on.put(str(directory / name), text.encode())
    variables = (f"{name}={value}" for name, value in spec.environment.items())
    code, out, err = on.run_command(("env", *variables, *spec.validate), cwd=spec.directory)
    said = (err or out).strip()
    warned = strict and "[warn]" in said
    return said if code or warned else ""
