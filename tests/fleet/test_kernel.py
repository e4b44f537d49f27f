"""The kernel of a target that is another host: lent over SSH, and given back by itself."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.fleet.bed import Bed
from tuner.errors import HostError
from tuner.hosts import remote
from tuner.hosts.ansible import KERNEL_FOLDER, AnsibleDeployer, KernelLoan
from tuner.hosts.deployer import InstanceSpec
from tuner.hosts.inventory import read_inventory
from tuner.hosts.playbooks import Playbooks

pytestmark = pytest.mark.integration

SOMAXCONN = "net.core.somaxconn"
LEASE_S = 15.0


def value(bed: Bed) -> str:
    """Return the setting on the target; asked without its network."""
    return bed["web"].run("cat", "/proc/sys/net/core/somaxconn").strip()


def nothing(lab: str, kernel: dict[str, str]) -> InstanceSpec:
    """Return an instance that is never started, so that only the kernel is looked at here."""
    return InstanceSpec(
        instance="baseline",
        directory=f"{lab}/instances/baseline",
        files={},
        folders=(),
        validate=("/bin/false",),
        start=("/bin/false",),
        pid_file="/nowhere",
        live_url="http://127.0.0.1:1/",
        live_token="",
        environment={},
        cpus=(),
        kernel=kernel,
    )


def test_a_target_that_lost_its_connection_restores_its_kernel_by_itself(
    pair: Bed, tmp_path: Path
) -> None:
    """Looked at and changed over SSH; the cable is cut; the old value is back after the limit."""
    inventory = read_inventory(str(pair.inventory))
    connections = remote.Connections(inventory)
    before, lab = value(pair), "/var/tmp/tuner-kernel-test"  # noqa: S108 - on the bed's host
    deployer = AnsibleDeployer(
        Path(lab),
        tmp_path / "work",
        user="nobody",
        inventory=str(pair.inventory),
        target="web",
        backend="web",
        settings=connections.settings,
        loan=KernelLoan(lease_s=LEASE_S),
    )
    try:
        playbooks = Playbooks(tmp_path / "look", str(pair.inventory), connections.settings)
        seen = remote.look(playbooks, inventory.target, [SOMAXCONN, "net.ipv4.tcp_no_such"])
        assert seen.texts[SOMAXCONN] == before
        assert "is not there" in seen.missing["net.ipv4.tcp_no_such"]
        deployer.switch(nothing(lab, {SOMAXCONN: "1234"}))
        assert value(pair) == "1234"
        pair["web"].unplug()
        end = time.monotonic() + 10 * LEASE_S
        while value(pair) != before:
            assert time.monotonic() < end, "the target did not put its setting back"
            time.sleep(0.1)
        assert "nobody renewed the time" in pair["web"].run("cat", f"{KERNEL_FOLDER}/log")
        pair["web"].plug()
        with pytest.raises(HostError, match="put back meanwhile"):
            deployer.switch(nothing(lab, {SOMAXCONN: "1234"}))
        deployer.switch(nothing(lab, {SOMAXCONN: "1234"}))
        deployer.remove()
        assert value(pair) == before
    finally:
        pair["web"].plug()
        connections.close()
        pair["web"].run("rm", "-rf", lab, KERNEL_FOLDER)
