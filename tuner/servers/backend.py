"""The lab's backend: the server behind every server under test that is a proxy.

It is the same for every server under test, so that all proxies have equal backends.
"""

from __future__ import annotations

from dataclasses import replace

from tuner.hosts.deployer import InstanceSpec
from tuner.render.render import render_backend
from tuner.servers import nginx
from tuner.servers.ground import TargetGround
from tuner.servers.server import Server
from tuner.workload.workload import Workload

SERVER: Server = nginx
"""Kind of server that every backend is."""

_LABEL = "backend"


def instance(workload: Workload, ground: TargetGround, port: int, number: int = 1) -> InstanceSpec:
    """Return the workload's backend as an isolated instance.

    Args:
        workload: a workload with a backend.
        ground: layout with a ``binary`` of the kind ``SERVER``.
        port: port of the backend.
        number: its number among several, from 1.
    """
    # It uses cleartext HTTP/1.1, no upstreams, and the backend's CPUs.
    behind = replace(
        ground,
        cpus=ground.backend_cpus,
        upstreams=(),
        protocol="http1",
        certificate=None,
        address=ground.backend_address,
    )
    label = _LABEL if number == 1 else f"{_LABEL}{number}"
    directory = ground.backends_dir / label
    placement = replace(behind.place(directory, port, _LABEL), workers=len(ground.backend_cpus))
    text = render_backend(workload, placement)
    return nginx.spec(label, text, behind, directory, port=port, live=_LABEL)
