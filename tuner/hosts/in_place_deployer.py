"""The deployer of a study in place: the host's own service runs one configuration after another."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tuner.errors import HostError
from tuner.hosts.deployer import InstanceSpec, InstanceState
from tuner.hosts.inventory import Host
from tuner.hosts.service import Proof, RunningConfiguration, ServiceChange, Services

SERVICE = "tuner_service"
"""Variable of a host: what its service is called, where that is not the server's name."""


def owner_of(study: Path) -> str:
    """Return the owner of a change: the same for every process that runs the study."""
    return f"{socket.gethostname()}:{study.resolve()}"


class InPlaceDeployer:
    """Puts files in the place of the service's own, one configuration at a time.

    Args:
        services: what changes them.
        host: whose service it is.
        owner: as ``owner_of`` says.
        service: its name.
        lease_s: the host puts its own files back this long after the last sign of life.
    """

    def __init__(
        self, services: Services, host: Host, *, owner: str, service: str, lease_s: float
    ) -> None:
        self._services = services
        self._host = host
        self._owner = owner
        self._service = service
        self._lease_s = lease_s
        self._switched = False

    def deploy(self, instances: Sequence[InstanceSpec]) -> Mapping[str, InstanceState]:
        """See ``Deployer.deploy``: a service runs one configuration, not several side by side.

        Raises:
            HostError: there is more than one.
        """
        if len(instances) > 1:
            raise HostError(
                f"{self._service} on {self._host.name} runs one configuration at a time"
            )
        return {spec.instance: self.switch(spec) for spec in instances}

    def switch(self, instance: InstanceSpec) -> InstanceState:
        """See ``Deployer.switch``: validated, restarted, and asked which configuration it runs.

        Restarted, since a reload keeps sockets and leaves old workers behind: every window is of
        a start of its own.
        """
        # After a failure the state is unknown: the next call begins anew.
        continues, self._switched = self._switched, False
        changed = self._services.change(
            self._host,
            ServiceChange(
                owner=self._owner,
                service=self._service,
                files={str(Path(instance.directory) / n): t for n, t in instance.files.items()},
                validate=instance.validate,
                how="restart",
                lease_s=self._lease_s,
                live=_proof(instance),
                pid_file=instance.pid_file,
                program=instance.program,
                continues=continues,
            ),
        )
        self._switched = True
        return InstanceState(instance.instance, changed.state, changed.message, changed.pids)

    def stop(self) -> None:
        """See ``Deployer.stop``: the service has its own files and its own state again.

        Raises:
            HostError: the host cannot be reached; it then does so by itself.
        """
        self._switched = False
        self._services.restore([self._host], self._owner)


def _proof(instance: InstanceSpec) -> Proof | RunningConfiguration:
    if instance.live_adapted:
        return RunningConfiguration(instance.live_adapted)
    url = urlsplit(instance.live_url)
    return Proof(instance.live_url, instance.live_host or url.netloc, instance.live_token)
