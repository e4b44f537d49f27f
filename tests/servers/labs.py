"""Real instances of every server, as the lab would deploy them."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hosts.modules import ModuleDeployer
from tests.spaces import load_space
from tuner.errors import HostError
from tuner.hosts import local
from tuner.hosts.deployer import InstanceSpec, InstanceState
from tuner.machine.facts import ServerFacts
from tuner.servers import backend
from tuner.servers.catalog import server
from tuner.servers.certificate import Certificate
from tuner.servers.ground import TargetGround
from tuner.space.configuration import Configuration, Value
from tuner.space.space import Space
from tuner.workload.site import generate
from tuner.workload.wire import WireProtocol
from tuner.workload.workload import Workload, load_workload

ROLES = {
    "nginx/static": "static",
    "nginx/proxy": "proxy",
    "caddy/static": "static",
    "caddy/proxy": "proxy",
    "nghttpx/terminator": "proxy",
    "haproxy/proxy": "proxy",
    "apache/static": "static",
    "apache/proxy": "proxy",
    "envoy/proxy": "proxy",
}
"""A workload that each built-in space is for."""


def here(name: str) -> ServerFacts:
    """Return the installed server's facts; skip the test if it is missing."""
    try:
        return server(name).detect()
    except HostError as error:
        pytest.skip(f"nothing real was tested: {error}")


def free_ports(count: int) -> list[int]:
    """Return ports that nothing listens on; other labs of this machine use them in order."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in sockets:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in sockets]


class ServerLab:
    """A lab of its own with the deployer's modules on it, and a backend if the space needs one."""

    def __init__(
        self,
        study: Path,
        space: str,
        protocol: WireProtocol = "http1",
        workload: Workload | None = None,
    ) -> None:
        name = space.partition("/")[0]
        self.adapter = server(name)
        self.facts = here(name)
        self.workload: Workload = workload or load_workload(ROLES[space])
        self.lab = local.lab_folder(study)
        self.deployer = ModuleDeployer(self.lab, study / "work", user=local.lab_user())
        cpus = (max(os.sched_getaffinity(0)),)
        self.space: Space = load_space(
            space, server_version=self.facts.version_tuple, modules=self.facts.modules
        )
        self.ground = TargetGround(
            binary=local.runnable(self.facts.binary, self.lab),
            instances_dir=self.deployer.instances_dir,
            backends_dir=self.deployer.backends_dir,
            site_dir=self.deployer.site_dir,
            cpus=cpus,
            backend_cpus=cpus,
            upstreams=(),
            protocol=protocol,
        )

    def open(self, certificate: Certificate | None) -> None:
        """Publish the site, or start the backend."""
        self.ground = replace(self.ground, certificate=certificate)
        if self.workload.backend is None:
            self.deployer.publish(generate(self.workload))
            return
        behind = replace(self.ground, binary=here("nginx").binary)
        (port,) = free_ports(1)
        spec = backend.instance(self.workload, behind, port)
        state = self.deployer.deploy_backends([spec])["backend"]
        assert (state.state, state.message) == ("live", "")
        self.ground = replace(self.ground, upstreams=(f"127.0.0.1:{port}",))

    def configuration(self, **values: Value) -> Configuration:
        """Return the baseline with some values of one's own."""
        return self.space.complete(values, self.space.baseline("stock"))

    def spec(self, label: str, port: int, configuration: Configuration) -> InstanceSpec:
        """Return an instance."""
        return self.adapter.instance(label, configuration, self.space, self.ground, port)

    def start(self, configuration: Configuration) -> tuple[int, InstanceState]:
        """Return one instance, deployed; its port and what became of it."""
        (port,) = free_ports(1)
        return port, self.deployer.deploy([self.spec("one", port, configuration)])["one"]


@contextmanager
def server_lab(
    study: Path,
    space: str,
    protocol: WireProtocol = "http1",
    certificate: Certificate | None = None,
    workload: Workload | None = None,
) -> Iterator[ServerLab]:
    """Yield a lab and remove it afterwards, even after an error."""
    made = ServerLab(study, space, protocol, workload)
    try:
        made.open(certificate)
        yield made
    finally:
        made.deployer.stop()
        shutil.rmtree(made.lab, ignore_errors=True)
