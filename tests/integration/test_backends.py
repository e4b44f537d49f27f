"""Several backends behind one proxy, and a backend that holds the site: with a real Nginx."""

from __future__ import annotations

from pathlib import Path

from tests.hosts.modules import ModuleDeployer
from tests.hosts.nginxes import ask, needs_nginx, nginx_lab
from tuner.hosts import local
from tuner.servers import backend
from tuner.workload.site import generate
from tuner.workload.workload import load_workload

pytestmark = needs_nginx


def test_two_backends_answer_the_same_on_ports_of_their_own(tmp_path: Path) -> None:
    """As many as the workload asks for, each live."""
    workload = load_workload("api-two-backends")
    assert workload.backend is not None
    with nginx_lab(tmp_path / "study", ModuleDeployer) as lab:
        ports = local.free_ports(workload.backend.count)
        specs = [backend.instance(workload, lab.ground, p, i) for i, p in enumerate(ports, 1)]
        states = lab.deployer.deploy_backends(specs)
        assert {name: state.state for name, state in states.items()} == {
            "backend": "live",
            "backend2": "live",
        }
        answers = [ask(f"http://127.0.0.1:{port}/api/devices") for port in ports]
        assert answers == [workload.backend.body.decode()] * 2


def test_a_backend_that_serves_the_site_answers_with_its_files(tmp_path: Path) -> None:
    """The backend of a terminator serves the workload's files."""
    workload = load_workload("file-100k-h2")
    with nginx_lab(tmp_path / "study", ModuleDeployer) as lab:
        site = generate(workload)
        lab.deployer.publish(site)
        port = local.free_ports(1)[0]
        states = lab.deployer.deploy_backends([backend.instance(workload, lab.ground, port)])
        assert (states["backend"].state, states["backend"].message) == ("live", "")
        assert ask(f"http://127.0.0.1:{port}/file.txt") == site["file.txt"].decode().strip()
