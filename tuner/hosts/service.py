"""A service's own files on other hosts: reversible changes, kept or restored."""

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
"""Folder on a host for the former files and the log of changes."""
ChangeOutcome = Literal["live", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class Proof:
    """An answer that only a service with the new files gives."""

    url: str
    """URL for requests from the host itself."""
    host: str
    """Host name in the request."""
    token: str
    """Expected body of the answer."""


@dataclass(frozen=True, slots=True)
class RunningConfiguration:
    """The configuration that Caddy must report at its admin endpoint."""

    adapted: tuple[str, ...]
    """Command on the host that prints it."""


@dataclass(frozen=True, slots=True)
class ServiceChange:
    """A change of the files of a service."""

    owner: str
    """Owner of the change; the study's name."""
    service: str
    files: Mapping[str, str]
    """Texts by absolute path."""
    validate: tuple[str, ...]
    """Command that refuses a bad configuration; its output says why."""
    how: Literal["reload", "restart"] = "reload"
    lease_s: float = 300.0
    """Time after the last sign of life at which the host restores its own files."""
    live: Proof | RunningConfiguration | None = None
    """None: a running service counts as running with the files."""
    pid_file: str = ""
    """File with the main process's id; empty if its processes are not needed."""
    program: str = ""
    """Program of the service; commands run with its account. Empty: as root."""
    continues: bool = False
    """True if the files of the last change must still be in place."""
    expected: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of files at planning time, by path; other files are not checked."""
    below: str = "/"
    """Folder of the service's configuration; the host changes no file outside."""
    unit: Unit | None = None
    """Environment of its process under systemd; elsewhere it is unchanged."""

    def __post_init__(self) -> None:
        """Raise `StoreError` for a file that does not belong to the service's configuration."""
        for path in self.files:
            plain = os.path.normpath(path) == path and path.isprintable()
            if not plain or not Path(path).is_relative_to(self.below):
                raise StoreError(
                    f"{path!r} is not below {self.below}, the folder of {self.service}'s"
                    " configuration, so tuner does not change it; change it by hand (tuner export"
                    " NAME --diff)"
                )

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths that change on a host with systemd."""
        return (*self.files, *(self.unit.files if self.unit else ()))


@dataclass(frozen=True, slots=True)
class ServiceChangeResult:
    """The outcome of a change: ``refused`` and ``failed`` leave the files as they were."""

    state: ChangeOutcome
    message: str
    """The reason; for a live service, the omitted parts of the change."""
    pids: tuple[int, ...] = ()
    """Processes of a live service, if requested."""
    code: Mapping[str, str] = field(default_factory=dict)
    """As ``InstanceState.code``."""


@dataclass(frozen=True, slots=True)
class Restoration:
    """The outcome of a restoration, by host."""

    files: Mapping[str, Sequence[str]]
    """Restored files by host; empty for a host without changes."""
    failed: Mapping[str, str]
    """Reason of each failed restoration, by host."""


class Services:
    """A client of ``playbooks/service.yml`` and ``playbooks/restore.yml``.

    Args:
        playbooks: runner of the playbooks.
        work: folder on this machine for files to send.
    """

    def __init__(self, playbooks: Playbooks, work: Path) -> None:
        self._playbooks = playbooks
        self._work = work

    def change(self, host: Host, change: ServiceChange) -> ServiceChangeResult:
        """Back up, replace, validate, take over: one Ansible run.

        Raises:
            HostError: the host is gone, or failed for another reason than the configuration.
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
        return ServiceChangeResult(
            result["service"], result["message"], tuple(result["pids"]), result["code"]
        )

    def keep(self, hosts: Sequence[Host]) -> None:
        """Make the change permanent; ``restore`` still has the old files.

        Raises:
            HostError: a host is gone, or restored its own files after its time limit.
        """
        became = self._ask(hosts, "kept")
        gone = [name for name, result in became.items() if result["service"] != "kept"]
        if gone:
            raise HostError(
                f"{', '.join(gone)} restored its own files, because the change was not confirmed in"
                " time; probe less (--probes), or change fewer hosts at once"
            )

    def restore(self, hosts: Sequence[Host], owner: str = "") -> Mapping[str, Sequence[str]]:
        """Restore the old files and the service's state; return the restored files by host.

        Args:
            hosts: hosts, including unchanged ones.
            owner: owner of the changes; "" matches any owner, a trailing space matches by
                prefix.

        Raises:
            HostError: a host is gone, or its service does not start.
        """
        results = self._playbooks.run("restore.yml", _of(hosts, owner))
        return {name: result["restored"] for name, result in results.items()}

    def give_back(self, hosts: Sequence[Host], owner: str) -> Restoration:
        """Restore as ``restore`` does, on as many hosts as possible.

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
