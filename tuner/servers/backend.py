"""The lab's backend: the server behind every server under test that is a proxy.

It is the same one whichever server is under test, so that proxies are compared in front of equals.
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
        workload: it has a backend.
        ground: its ``binary`` is of the kind ``SERVER``.
        port: the backend's.
        number: which of several alike it is, from 1.
    """
    # It speaks cleartext HTTP/1.1, stands in front of nothing, and has the backend's CPUs.
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
