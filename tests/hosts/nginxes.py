"""Real Nginx instances, as the lab would deploy them."""

from __future__ import annotations

import http.client
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.spaces import load_space
from tuner.hosts import local
from tuner.hosts.ansible import AnsibleDeployer
from tuner.hosts.deployer import InstanceSpec
from tuner.servers import nginx
from tuner.servers.ground import TargetGround
from tuner.space.configuration import Configuration
from tuner.space.space import Space

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")

needs_nginx = [
    pytest.mark.integration,
    pytest.mark.skipif(NGINX is None, reason="no nginx on this machine: nothing real was tested"),
]


class NginxLab:
    """A lab of its own with the real deployer on it, or with its modules alone."""

    def __init__(self, study: Path, deployer: type[AnsibleDeployer] = AnsibleDeployer) -> None:
        self.lab = local.lab_folder(study)
        self.work = study / "work"
        self.deployer = deployer(self.lab, self.work, user=local.lab_user())
        self.server = nginx.detect()
        self.cpus = (max(os.sched_getaffinity(0)),)
        self.space: Space = load_space(
            "nginx/static", server_version=self.server.version_tuple, modules=self.server.modules
        )
        self.ground = TargetGround(
            binary=self.server.binary,
            instances_dir=self.deployer.instances_dir,
            backends_dir=self.deployer.backends_dir,
            site_dir=self.deployer.site_dir,
            cpus=self.cpus,
            backend_cpus=self.cpus,
            upstreams=(),
        )

    def spec(self, label: str, port: int, *, more: str = "") -> InstanceSpec:
        """Return an instance whose ``backlog`` is its port, with more text at the file's end."""
        stock = self.space.baseline("stock")
        own = self.space.complete({"backlog": port}, stock)
        made = nginx.instance(label, own, self.space, self.ground, port)
        return replace(made, files={"nginx.conf": made.files["nginx.conf"] + more})

    def configuration(self) -> Configuration:
        """Return the baseline."""
        return self.space.baseline("stock")


@contextmanager
def nginx_lab(study: Path, deployer: type[AnsibleDeployer] = AnsibleDeployer) -> Iterator[NginxLab]:
    """Yield a lab that is removed afterwards, after a failure too."""
    made = NginxLab(study, deployer)
    try:
        yield made
    finally:
        made.deployer.stop()
        shutil.rmtree(made.lab, ignore_errors=True)


def ask(url: str) -> str | None:
    """Return the answer of an address; None without an answer."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().read().decode().strip()
    except OSError:
        return None
    finally:
        connection.close()


def processes_in(folder: Path) -> list[str]:
    """Return command lines that name a path in the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if f"{folder}/" in words:
                found.append(words)
    return found
