"""The deployer of a study in place, on the host's own service."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tuner.errors import HostError
from tuner.hosts.deployer import InstanceSpec, InstanceState, ServiceSpec
from tuner.hosts.inventory import Host
from tuner.hosts.service import Proof, RunningConfiguration, ServiceChange, Services

SERVICE = "tuner_service"
"""Variable of a host for the name of its service, if it is not the server's."""


def owner_of(study: Path) -> str:
    """Return the owner of a change, the same for every process of a study."""
    return f"{socket.gethostname()}:{study.resolve()}"


class InPlaceDeployer:
    """A deployer that replaces the service's files, one configuration at a time.

    Args:
        services: changes services on hosts.
        host: host of the service.
        owner: result of ``owner_of``.
        service: name of the service.
        lease_s: time after the last sign of life at which the host restores its own files.
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
        """Implement ``Deployer.deploy`` for one instance, since a service runs one configuration.

        Raises:
            HostError: there are several instances.
        """
        if len(instances) > 1:
            raise HostError(
                f"{self._service} on {self._host.name} runs one configuration at a time"
            )
        return {spec.instance: self.switch(spec) for spec in instances}

    def switch(self, instance: InstanceSpec) -> InstanceState:
        """Implement ``Deployer.switch``: validate, restart, and check the running configuration.

        A reload would keep sockets and old workers, so the service restarts for every window.
        """
        if not isinstance(instance, ServiceSpec):
            raise TypeError(f"{instance.instance} is an instance of a lab, not a service")
        # After a failure the state is unknown, so the next call starts anew.
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
        return InstanceState(
            instance.instance, changed.state, changed.message, changed.pids, changed.code
        )

    def stop(self) -> None:
        """Implement ``Deployer.stop``: restore the service's own files and state.

        Raises:
            HostError: the host cannot be reached; it then restores them by itself.
        """
        self._switched = False
        self._services.restore([self._host], self._owner)


def _proof(instance: ServiceSpec) -> Proof | RunningConfiguration:
    if instance.live_adapted:
        return RunningConfiguration(instance.live_adapted)
    url = urlsplit(instance.live_url)
    return Proof(instance.live_url, instance.live_host or url.netloc, instance.live_token)
