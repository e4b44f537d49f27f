"""The port: deploy a block's instances side by side, and take them away again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class InstanceSpec:
    """One instance to start: everything is decided, the host only carries it out."""

    instance: str
    """Label, unique in the block: ``baseline``, ``c1``, …"""
    directory: str
    """Folder of its own on the target; made anew."""
    files: Mapping[str, str]
    """Text by path relative to ``directory``."""
    folders: tuple[str, ...]
    """Folders to make in it."""
    validate: tuple[str, ...]
    """Command that refuses a bad configuration; its output says why."""
    start: tuple[str, ...]
    """Command that starts it and returns when it listens."""
    pid_file: str
    """Absolute path of the file that holds the main process's id."""
    live_url: str
    """URL at which the running instance reports its configuration."""
    live_token: str
    """Expected answer there: the configuration's digest."""
    environment: Mapping[str, str]
    cpus: tuple[int, ...]
    """CPUs that the instance is confined to."""
    kernel: Mapping[str, str] = field(default_factory=dict)
    """Settings of the host's kernel by name, which hold while it runs; only for ``switch``."""
    open_files: int = 0
    """Least limit of open files, where the host allows it."""
    live_header: str = ""
    """Header of the answer at ``live_url`` that is the token; empty: the body is."""
    live_host: str = ""
    """Name to ask for at ``live_url``; empty: the URL's own."""
    live_socket: str = ""
    """Absolute path of a socket of administration, or empty: where GET ``/config/`` tells the
    configuration that is running, which must hold the token too.
    """
    error_log: str = ""
    """Absolute path of the log in which it says why requests failed; empty: there is none that is
    this instance's alone.
    """
    live_adapted: tuple[str, ...] = ()
    """Command on the target, or empty: tells the JSON that Caddy must tell as running instead."""
    program: str = ""
    """Program of the service's process, whose account runs ``validate``; empty: as it comes."""


@dataclass(frozen=True, slots=True)
class InstanceState:
    """Outcome of a deployment for one instance.

    ``refused`` is the configuration's fault (the validator's words are in ``message``),
    ``failed`` the host's or the server's: it did not start, or not with this configuration.
    """

    instance: str
    state: Literal["live", "refused", "failed"]
    message: str
    pids: tuple[int, ...]


class Deployer(Protocol):
    """Runs instances on a target; one call of ``deploy`` is one block."""

    def deploy(self, instances: Sequence[InstanceSpec]) -> Mapping[str, InstanceState]:
        """Stop what the previous call started, then start these side by side.

        Every instance is validated before any is started, started afresh, and proved live.

        Raises:
            HostError: the host is gone, or the deployment itself broke.
        """
        ...

    def switch(self, instance: InstanceSpec) -> InstanceState:
        """Run this instance alone, under its own settings of the kernel, in place of what ran.

        It is started afresh after the kernel was set, because some settings count only when a
        socket is opened. A setting that the kernel refuses is the configuration's fault, and so
        ``refused``. The target puts the old settings back by itself if nothing is heard of this
        deployer for a while.

        Raises:
            HostError: the host is gone, the deployment broke, or the settings of the last call
                did not hold until this one.
        """
        ...

    def stop(self) -> None:
        """Stop everything that was started, remove its folders, put the kernel's settings back.

        Safe to call twice.
        """
        ...
