"""The one adapter over ansible-runner: playbooks in, plain data out.

ansible-runner has forty options; five are used. It is wrapped here so that nothing else knows
of it. https://ansible.readthedocs.io/projects/runner/
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tuner.errors import HostError, Interrupted
from tuner.hosts.port import InstanceSpec, InstanceState
from tuner.paths import data_dir

LOCAL_INVENTORY: Mapping[str, Any] = {
    "targets": {
        "hosts": {
            "localhost": {
                "ansible_connection": "local",
                "ansible_python_interpreter": sys.executable,
            }
        }
    }
}
KERNEL_FOLDER = "/run/tuner-kernel"
"""Where a target keeps what its kernel was set to; a reboot empties it, and resets the kernel."""


@dataclass(frozen=True, slots=True)
class Loan:
    """Terms on which a target lends its kernel's settings."""

    lease_s: float = 300.0
    """The target puts the old settings back by itself so long after the last sign of life."""
    folder: str = KERNEL_FOLDER


_KEPT_OUTPUT = 2_000
"""Characters of Ansible's own output that an error message quotes: its last words."""


class AnsibleDeployer:
    """Deploys blocks through ``playbooks/`` with one Ansible run each.

    Args:
        lab: folder on the target in which everything lives that is started.
        work: folder on this machine for Ansible's own files.
        user: unprivileged account for the instances when Ansible runs as root there.
        inventory: an Ansible inventory as data; by default this machine.
        loan: for ``switch``; None if the kernel's settings are not touched.
    """

    def __init__(
        self,
        lab: Path,
        work: Path,
        *,
        user: str,
        inventory: Mapping[str, Any] = LOCAL_INVENTORY,
        loan: Loan | None = None,
    ) -> None:
        self._lab = lab
        self._work = work
        self._user = user
        self._inventory = inventory
        self._loan = loan
        self._switched = False

    @property
    def instances_dir(self) -> Path:
        """Folder of a block's instances; emptied at every deployment."""
        return self._lab / "instances"

    @property
    def backends_dir(self) -> Path:
        """Folder of the backends, which live as long as the study."""
        return self._lab / "backends"

    @property
    def site_dir(self) -> Path:
        """Folder of the workload's files."""
        return self._lab / "site"

    def publish(self, site: Mapping[str, bytes]) -> None:
        """Put the workload's files in place, readable by every instance."""
        source = self._work / "site"
        shutil.rmtree(source, ignore_errors=True)
        source.mkdir(parents=True)
        for name, content in site.items():
            path = source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self._play("site.yml", {"tuner_site_source": str(source), "tuner_site": str(self.site_dir)})

    def deploy_backends(self, backends: Sequence[InstanceSpec]) -> Mapping[str, InstanceState]:
        """Start what stands behind the servers; they stay until ``stop``."""
        return self._deploy(self.backends_dir, backends)

    def deploy(self, instances: Sequence[InstanceSpec]) -> Mapping[str, InstanceState]:
        """See ``Deployer.deploy``."""
        return self._deploy(self.instances_dir, instances)

    def switch(self, instance: InstanceSpec) -> InstanceState:
        """See ``Deployer.switch``."""
        loan = self._loan or Loan()
        variables = self._wanted(self.instances_dir, [instance])
        settings = self._work / "kernel.json"
        settings.write_text(json.dumps(dict(instance.kernel)))
        # After a failure nobody knows what holds: the next call begins anew.
        continues, self._switched = self._switched, False
        result = self._play(
            "switch.yml",
            {
                **variables,
                "tuner_kernel_folder": loan.folder,
                "tuner_kernel_owner": str(self._lab),
                "tuner_kernel_lease_s": loan.lease_s,
                "tuner_kernel_continues": continues,
                "tuner_kernel_file": str(settings),
            },
        )
        self._switched = True
        if "instances" not in result:
            return InstanceState(instance.instance, "refused", result["message"], ())
        return _states(result, [instance])[instance.instance]

    def stop(self) -> None:
        """See ``Deployer.stop``."""
        labs = [str(self.instances_dir), str(self.backends_dir)]
        try:
            self._play("stop.yml", {"tuner_labs": labs})
        finally:
            if self._loan is not None:
                self._switched = False
                self._play("kernel.yml", {"tuner_kernel_folder": self._loan.folder})

    def _deploy(
        self, folder: Path, instances: Sequence[InstanceSpec]
    ) -> Mapping[str, InstanceState]:
        result = self._play("deploy.yml", self._wanted(folder, instances))
        return _states(result, instances)

    def _wanted(self, folder: Path, instances: Sequence[InstanceSpec]) -> dict[str, Any]:
        """What is to run, for the module that runs it."""
        self._work.mkdir(parents=True, exist_ok=True)
        wanted = self._work / "instances.json"
        data = [asdict(instance) for instance in instances]
        for entry in data:
            del entry["kernel"]  # another module's matter
        wanted.write_text(json.dumps(data))
        return {
            "tuner_lab": str(folder),
            "tuner_user": self._user,
            "tuner_instances_file": str(wanted),
        }

    def _play(self, playbook: str, variables: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run one playbook; the result of its last task that had one."""
        # Imported here: it costs a noticeable part of a second, which --help need not pay.
        import ansible_runner

        results: list[Mapping[str, Any]] = []
        failures: list[str] = []

        def keep(event: Mapping[str, Any]) -> bool:
            data = event.get("event_data", {})
            if event["event"] == "runner_on_ok":
                results.append(data["res"])
            elif event["event"] in {"runner_on_failed", "runner_on_unreachable"}:
                failures.append(f"{data.get('task')}: {data['res'].get('msg', data['res'])}")
            return False

        folder = data_dir("playbooks")
        private = self._work / "ansible"
        private.mkdir(parents=True, exist_ok=True)
        with _stoppable() as asked_to_stop:
            runner = ansible_runner.run(
                private_data_dir=str(private),
                playbook=str(folder / playbook),
                inventory=dict(self._inventory),
                extravars=dict(variables),
                envvars=_environment(folder, self._work),
                event_handler=keep,
                cancel_callback=asked_to_stop,
                quiet=True,
                rotate_artifacts=3,
            )
        if asked_to_stop():
            raise Interrupted(f"{playbook} was interrupted")
        if runner.rc != 0:
            words = "; ".join(failures) or runner.stdout.read()[-_KEPT_OUTPUT:].strip()
            raise HostError(f"{playbook} failed: {words}")
        return results[-1] if results else {}


def _states(
    result: Mapping[str, Any], instances: Sequence[InstanceSpec]
) -> Mapping[str, InstanceState]:
    states = {
        state["instance"]: InstanceState(
            state["instance"], state["state"], state["message"], tuple(state.get("pids", ()))
        )
        for state in result["instances"]
    }
    missing = [i.instance for i in instances if i.instance not in states]
    if missing:
        raise HostError(f"the deployment said nothing of {', '.join(missing)}")
    return states


@contextmanager
def _stoppable() -> Iterator[Callable[[], bool]]:
    """Let a signal end the playbook, not tuner in the middle of it; gives whether one came.

    Without a callback of ours, ansible-runner would put handlers of its own in place and leave
    them there: tuner could not be interrupted any more once its first playbook had run. What
    the caller ignores (while a lab is taken down) stays ignored.
    """
    came = threading.Event()
    kept = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                kept[number] = signal.signal(number, lambda *_: came.set())
    try:
        yield came.is_set
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _environment(playbooks: Path, work: Path) -> dict[str, str]:
    """Ansible's settings: those that make a run short, and its files under the study's folder."""
    bins = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return {
        "PATH": os.pathsep.join(bins),
        "ANSIBLE_LIBRARY": str(playbooks / "library"),
        "ANSIBLE_HOME": str(work / "ansible-home"),
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_GATHERING": "explicit",
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "0",
        "ANSIBLE_DEPRECATION_WARNINGS": "0",
        "ANSIBLE_RETRY_FILES_ENABLED": "0",
    }
