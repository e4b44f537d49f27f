"""A service's own files on other hosts: changed with a way back, kept, or restored."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from tuner.errors import HostError, StoreError
from tuner.hosts.inventory import Host, host_pattern
from tuner.hosts.playbooks import Playbooks
from tuner.render.systemd import Unit

SERVICE_FOLDER = "/var/lib/tuner"
"""Folder in which a host keeps the former files, and the log of changes."""
Outcome = Literal["live", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class Proof:
    """An answer that only a service with the new files gives."""

    url: str
    """As the host itself reaches it."""
    host: str
    """Name that is asked for."""
    token: str
    """Body of the answer."""


@dataclass(frozen=True, slots=True)
class RunningConfiguration:
    """The configuration that Caddy must report at its admin endpoint."""

    adapted: tuple[str, ...]
    """Command on the host that reports it."""


@dataclass(frozen=True, slots=True)
class ServiceChange:
    """A change of the files of a service."""

    owner: str
    """Owner of the change: the study's name."""
    service: str
    files: Mapping[str, str]
    """Text by absolute path."""
    validate: tuple[str, ...]
    """Command that refuses a bad configuration; its output says why."""
    how: Literal["reload", "restart"] = "reload"
    lease_s: float = 300.0
    """The host puts its own files back this long after the last sign of life."""
    live: Proof | RunningConfiguration | None = None
    """None: a service that runs is taken to run with the files."""
    pid_file: str = ""
    """File of the main process's id; empty: its processes are not asked for."""
    program: str = ""
    """Program of a process whose account runs the commands; empty: root runs them."""
    continues: bool = False
    """True if those of the last change must have stayed until this one."""
    expected: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of files as they were when the change was planned, by path; others may be any."""
    below: str = "/"
    """Folder of the service's configuration, outside of which the host changes no file."""
    unit: Unit | None = None
    """The environment of its process, where systemd runs; elsewhere that stays as it is."""

    def __post_init__(self) -> None:
        """Raise `StoreError` for a file that does not belong to the service's configuration."""
        for path in self.files:
            plain = os.path.normpath(path) == path and path.isprintable()
            if not plain or not Path(path).is_relative_to(self.below):
                raise StoreError(
                    f"{path!r} is not a file below {self.below}, where the configuration of"
                    f" {self.service} lies, so it is not changed; change it by hand (tuner export"
                    " NAME --diff)"
                )

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths that change on a host with systemd."""
        return (*self.files, *(self.unit.files if self.unit else ()))


@dataclass(frozen=True, slots=True)
class ServiceChangeResult:
    """The outcome of a change: ``refused`` and ``failed`` leave the files as they were."""

    state: Outcome
    message: str
    """Why; of a service that is live, what of the change was left out."""
    pids: tuple[int, ...] = ()
    """Processes of the service, where it is live and they were asked for."""


@dataclass(frozen=True, slots=True)
class Restoration:
    """The outcome of a restoration, by host."""

    files: Mapping[str, Sequence[str]]
    """Restored files by host; empty for a host without changes."""
    failed: Mapping[str, str]
    """Reason of each failed restoration, by host."""


class Services:
    """Changes services through ``playbooks/service.yml`` and ``playbooks/restore.yml``.

    Args:
        playbooks: what runs them.
        work: folder on this machine for what is sent.
    """

    def __init__(self, playbooks: Playbooks, work: Path) -> None:
        self._playbooks = playbooks
        self._work = work

    def change(self, host: Host, change: ServiceChange) -> ServiceChangeResult:
        """Back up, replace, validate, take over: one Ansible run.

        Raises:
            HostError: the host is gone, or something else than the configuration is wrong.
        """
        path, unit_path = self._work / "files.json", self._work / "unit.json"
        path.write_text(json.dumps(dict(change.files)))
        unit_path.write_text(json.dumps(asdict(change.unit) if change.unit else {}))
        results = self._playbooks.run(
            "service.yml",
            {
                "tuner_hosts": host_pattern([host.name]),
                "tuner_guard": SERVICE_FOLDER,
                "tuner_owner": change.owner,
                "tuner_service_name": change.service,
                "tuner_below": change.below,
                "tuner_validate": list(change.validate),
                "tuner_how": change.how,
                "tuner_lease_s": change.lease_s,
                "tuner_files_file": str(path),
                "tuner_unit_file": str(unit_path),
                "tuner_live": asdict(change.live) if change.live else {},
                "tuner_pid_file": change.pid_file,
                "tuner_program": change.program,
                "tuner_continues": change.continues,
                "tuner_expected": dict(change.expected),
            },
        )
        result = results[host.name]
        return ServiceChangeResult(result["service"], result["message"], tuple(result["pids"]))

    def keep(self, hosts: Sequence[Host]) -> None:
        """The change stays; ``restore`` still knows the old files.

        Raises:
            HostError: a host is gone, or put its own files back, since nobody was heard in time.
        """
        became = self._ask(hosts, "kept")
        gone = [name for name, result in became.items() if result["service"] != "kept"]
        if gone:
            raise HostError(
                f"{', '.join(gone)} gave itself its own files back, since it had not been told in"
                " time that they stay; probe less (--probes), or change fewer hosts at once"
            )

    def restore(self, hosts: Sequence[Host], owner: str = "") -> Mapping[str, Sequence[str]]:
        """Return the old files and the service's state; by host, what was put back.

        Args:
            hosts: safe for those on which nothing was changed.
            owner: another owner's change is left alone. Empty matches any owner; a trailing blank
                matches by prefix.

        Raises:
            HostError: a host is gone, or its service does not start.
        """
        results = self._playbooks.run("restore.yml", _of(hosts, owner))
        return {name: result["restored"] for name, result in results.items()}

    def give_back(self, hosts: Sequence[Host], owner: str) -> Restoration:
        """Return the same as ``restore``, on as many hosts as it can be done.

        Raises:
            HostError: Ansible itself failed.
        """
        played = self._playbooks.play("restore.yml", _of(hosts, owner))
        if played.words and not played.failed:
            raise HostError(f"restore.yml failed: {played.words}")
        done = {
            host.name: played.results[host.name]["restored"]
            for host in hosts
            if host.name in played.results and host.name not in played.failed
        }
        return Restoration(done, played.failed)

    def _ask(self, hosts: Sequence[Host], state: str) -> Mapping[str, Mapping[str, Any]]:
        path = self._work / "files.json"
        path.write_text("{}")
        names = host_pattern(host.name for host in hosts)
        return self._playbooks.run(
            "service.yml",
            {
                "tuner_hosts": names,
                "tuner_guard": SERVICE_FOLDER,
                "tuner_state": state,
                "tuner_owner": "",
                "tuner_files_file": str(path),
            },
        )


def _of(hosts: Sequence[Host], owner: str) -> dict[str, str]:
    """Return the variables of ``restore.yml``."""
    return {
        "tuner_hosts": host_pattern(host.name for host in hosts),
        "tuner_guard": SERVICE_FOLDER,
        "tuner_owner": owner,
    }
