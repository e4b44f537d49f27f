"""The deployer over Ansible: one playbook run for each block, on any host."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.errors import HostError
from tuner.hosts.deployer import InstanceSpec, InstanceState
from tuner.hosts.inventory import host_pattern
from tuner.hosts.playbooks import LOCAL_INVENTORY, Playbooks

__all__ = ["KERNEL_FOLDER", "LOCAL_INVENTORY", "AnsibleDeployer", "KernelLoan"]

KERNEL_FOLDER = "/run/tuner-kernel"
"""Folder for a target's former kernel settings, until it reboots."""


@dataclass(frozen=True, slots=True)
class KernelLoan:
    """Terms for changes of a target's kernel settings."""

    lease_s: float = 300.0
    """Time after the last sign of life at which the target restores the old settings."""
    folder: str = KERNEL_FOLDER


Started = Callable[[Iterable[str], Iterable[int]], None]
"""Called with paths of programs, and with process ids."""


def _nothing(_programs: Iterable[str], _pids: Iterable[int]) -> None:
    """Ignore what was started."""


class AnsibleDeployer:
    """Deploys blocks through ``playbooks/`` with one Ansible run each.

    Args:
        lab: folder on the target for everything that is started.
        work: folder on this machine for Ansible's own files.
        user: unprivileged account for the instances when Ansible runs as root there.
        inventory: an Ansible inventory as data, or the path of one; by default this machine.
        target: pattern of the host that serves.
        backend: pattern of the host behind a proxy; by default the target.
        settings: further settings of Ansible, as environment variables.
        loan: terms for ``switch``; None to leave the kernel's settings alone.
        started: callback with the programs before their start, and again with their processes.
    """

    def __init__(
        self,
        lab: Path,
        work: Path,
        *,
        user: str,
        inventory: Mapping[str, Any] | str = LOCAL_INVENTORY,
        target: str = "targets",
        backend: str = "",
        settings: Mapping[str, str] | None = None,
        loan: KernelLoan | None = None,
        started: Started = _nothing,
    ) -> None:
        self._lab = lab
        self._started = started
        self._work = work
        self._user = user
        self._loan = loan
        self._switched = False
        self._playbooks = Playbooks(work, inventory, settings or {})
        self._target = target
        self._backend = backend or target

    @property
    def instances_dir(self) -> Path:
        """Folder of a block's instances; emptied at every deployment."""
        return self._lab / "instances"

    @property
    def backends_dir(self) -> Path:
        """Folder of the backends, which run for the whole study."""
        return self._lab / "backends"

    @property
    def site_dir(self) -> Path:
        """Folder of the workload's files."""
        return self._lab / "site"

    def publish(self, site: Mapping[str, bytes]) -> None:
        """Put the workload's files in place, readable by every instance."""
        source = self._work / "site"
        with self._writing():
            shutil.rmtree(source, ignore_errors=True)
            source.mkdir(parents=True)
            for name, content in site.items():
                path = source / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        self._play(
            "site.yml",
            self._both,
            tuner_site_source=str(source),
            tuner_site=str(self.site_dir),
        )

    def deploy_backends(self, backends: Sequence[InstanceSpec]) -> Mapping[str, InstanceState]:
        """Start the backends of the servers, which run until ``stop``."""
        return self._deploy((self._backend,), self.backends_dir, backends)

    def deploy(self, instances: Sequence[InstanceSpec]) -> Mapping[str, InstanceState]:
        """Implement ``Deployer.deploy``."""
        return self._deploy((self._target,), self.instances_dir, instances)

    def switch(self, instance: InstanceSpec) -> InstanceState:
        """Implement ``Deployer.switch``."""
        loan = self._loan or KernelLoan()
        variables = self._wanted(self.instances_dir, [instance])
        settings = self._work / "kernel.json"
        with self._writing():
            settings.write_text(json.dumps(dict(instance.kernel)))
        # After a failure the state is unknown, so the next call starts anew.
        continues, self._switched = self._switched, False
        results = self._play(
            "switch.yml",
            (self._target,),
            **variables,
            tuner_kernel_folder=loan.folder,
            tuner_kernel_owner=str(self._lab),
            tuner_kernel_lease_s=loan.lease_s,
            tuner_kernel_continues=continues,
            tuner_kernel_file=str(settings),
        )
        self._switched = True
        for result in results.values():
            if "instances" not in result:
                return InstanceState(instance.instance, "refused", result["message"], ())
        return self._noted(_states(results, [instance]))[instance.instance]

    def stop(self) -> None:
        """Implement ``Deployer.stop``."""
        self._stop()

    def remove(self) -> None:
        """Stop everything, and remove the lab with the site."""
        self._stop(tuner_folder=str(self._lab))

    def _stop(self, **more: str) -> None:
        labs = [str(self.instances_dir), str(self.backends_dir)]
        try:
            self._play("stop.yml", self._both, tuner_labs=labs, **more)
        finally:
            if self._loan is not None:
                self._switched = False
                folder = self._loan.folder
                self._play("kernel.yml", (self._target,), tuner_kernel_folder=folder)

    @property
    def _both(self) -> tuple[str, ...]:
        return (self._target, self._backend)

    def _deploy(
        self, hosts: Sequence[str], folder: Path, instances: Sequence[InstanceSpec]
    ) -> Mapping[str, InstanceState]:
        results = self._play(
            "deploy.yml", hosts, tuner_judges=True, **self._wanted(folder, instances)
        )
        return self._noted(_states(results, instances))

    def _noted(self, states: Mapping[str, InstanceState]) -> Mapping[str, InstanceState]:
        self._started((), [pid for state in states.values() for pid in state.pids])
        return states

    def _wanted(self, folder: Path, instances: Sequence[InstanceSpec]) -> dict[str, Any]:
        """Return the instances as arguments of the Ansible module."""
        wanted = self._work / "instances.json"
        with self._writing():
            self._work.mkdir(parents=True, exist_ok=True)
            wanted.write_text(json.dumps([instance.arguments for instance in instances]))
        self._started([instance.start[0] for instance in instances], ())
        return {
            "tuner_lab": str(folder),
            "tuner_user": self._user,
            "tuner_instances_file": str(wanted),
        }

    def _play(
        self, playbook: str, hosts: Sequence[str], **variables: Any
    ) -> Mapping[str, Mapping[str, Any]]:
        # Ansible's own files lie there.
        with self._writing():
            return self._playbooks.run(playbook, {"tuner_hosts": host_pattern(hosts), **variables})

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Raise if the folder for work cannot be written; the errors of its users do not name it.

        Raises:
            HostError: its disk is full or broken.
        """
        try:
            yield
        except OSError as error:
            raise HostError(f"{self._work} cannot be written: {error.strerror or error}") from error


def _states(
    results: Mapping[str, Mapping[str, Any]], instances: Sequence[InstanceSpec]
) -> Mapping[str, InstanceState]:
    states = {
        state["instance"]: InstanceState(
            state["instance"],
            state["state"],
            state["message"],
            tuple(state.get("pids", ())),
            state.get("code", {}),
        )
        for result in results.values()
        for state in result.get("instances", ())
    }
    missing = [i.instance for i in instances if i.instance not in states]
    if missing:
        raise HostError(f"the deployment returned no result for {', '.join(missing)}")
    return states
