"""The port for deployments: start a block's instances side by side, and remove them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True)
class InstanceArguments:
    """An instance in the arguments of the Ansible module ``tuner_instances``."""

    instance: str
    """Label, unique in the block: ``baseline``, ``c1``, …"""
    directory: str
    """Its own folder on the target, created anew."""
    files: Mapping[str, str]
    """Text by path relative to ``directory``."""
    folders: tuple[str, ...]
    """Folders to create in it."""
    validate: tuple[str, ...]
    """Command that refuses a bad configuration and prints the reason."""
    start: tuple[str, ...]
    """Command that starts it and returns once it listens."""
    pid_file: str
    """Absolute path of the file that holds the main process's id."""
    live_url: str
    """URL at which the running instance reports its configuration."""
    live_token: str
    """Expected answer at ``live_url``: the configuration's digest."""
    environment: Mapping[str, str]
    cpus: tuple[int, ...]
    """CPUs for the instance."""
    open_files: int = 0
    """Minimum limit of open files, if the host allows it."""
    live_header: str = ""
    """Header with the token in the answer at ``live_url``; empty: the body is the token."""
    live_socket: str = ""
    """Absolute path of an admin socket, or empty. Its answer to ``live_request``, the running
    configuration, must also contain the token.
    """
    live_request: str = ""
    """Request to the admin socket: a path for GET, or a line such as ``show info``."""


@dataclass(frozen=True, slots=True)
class InstanceSpec(InstanceArguments):
    """One instance to start, with every decision already made."""

    kernel: Mapping[str, str] = field(default_factory=dict)
    """Kernel settings while it runs, by name; only for ``switch``."""
    error_log: str = ""
    """Absolute path of the log of failed requests; empty if the instance has no log of its own.
    """

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the Ansible module, by name."""
        return {each.name: getattr(self, each.name) for each in fields(InstanceArguments)}


@dataclass(frozen=True, slots=True)
class ServiceSpec(InstanceSpec):
    """A host's own service with other files, in place of an instance of the lab."""

    live_host: str = ""
    """Host name for ``live_url``; empty: the URL's own."""
    live_adapted: tuple[str, ...] = ()
    """Command on the target that prints the JSON that the service's administration must report;
    empty: the token proves it.
    """
    program: str = ""
    """Program of the service; ``validate`` runs with its account. Empty: the default account."""


@dataclass(frozen=True, slots=True)
class InstanceState:
    """The outcome of a deployment for one instance.

    ``refused`` is the configuration's fault (``message`` has the validator's output). ``failed``
    is the host's or the server's: it did not start, or not with this configuration.
    """

    instance: str
    state: Literal["live", "refused", "failed"]
    message: str
    pids: tuple[int, ...]
    code: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the program and the libraries of its main process, by path; empty if the kernel
    allows no look at it."""


class Deployer(Protocol):
    """Runs instances on a target; one call of ``deploy`` is one block."""

    def deploy(self, instances: Sequence[InstanceSpec]) -> Mapping[str, InstanceState]:
        """Stop the instances of the previous call, then start these side by side.

        Every instance is validated before any starts, started anew, and proved live.

        Raises:
            HostError: the host is gone, or the deployment itself failed.
        """
        ...

    def switch(self, instance: InstanceSpec) -> InstanceState:
        """Stop what ran, and run this instance alone with its own kernel settings.

        It starts anew after the kernel is set, because some settings apply only to new sockets.
        A setting that the kernel refuses is the configuration's fault: ``refused``. The target
        restores the old settings by itself if it does not hear from this deployer for a while.

        Raises:
            HostError: the host is gone, the deployment failed, or the settings of the last call did
                not last until this one.
        """
        ...

    def stop(self) -> None:
        """Stop all instances, remove their folders, and restore the kernel's settings.

        Safe to call twice.
        """
        ...
