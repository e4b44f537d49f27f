"""A block's deployment on another host, when something comes between: nothing of it stays there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fleet.bed import Bed, BedHost, bed, until
from tests.fleet.conftest import skip_without_bed
from tests.fleet.test_kernel import nothing
from tests.fleet.test_remote import TOP
from tests.fleet.test_service import fill
from tuner.errors import HostError
from tuner.hosts.ansible import AnsibleDeployer
from tuner.hosts.deployer import InstanceSpec
from tuner.hosts.inventory import read_inventory
from tuner.hosts.remote import Connections

pytestmark = [pytest.mark.integration, pytest.mark.fleet]

LAB = "/var/tmp/tuner-deployment-test"  # noqa: S108 - on the bed's host
SLOW = "sleep 299"
SLOW_INSTANCES = 6
"""The module waits ten seconds for each."""
PATIENCE_S = 120.0
"""Less than the module would wait by itself."""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Bed]:
    """A target on a disk that can be filled."""
    skip_without_bed()
    with bed({"targets": ["web"]}, sizes={"web": "64m"}) as made:
        yield made


@pytest.fixture
def web(hosts: Bed) -> Iterator[BedHost]:
    """The target, on which nothing is left afterwards."""
    yield hosts["web"]
    assert not folder(hosts["web"]).exists()
    assert SLOW not in processes(hosts["web"])


def folder(host: BedHost) -> Path:
    """Return the folder of the lab's instances, as the controller sees it."""
    return host.root / LAB.removeprefix("/") / "instances"


def processes(host: BedHost) -> str:
    """Return their command lines."""
    return host.run("ps", "-eo", "args")


def deployer(inventory: Path, work: Path, connections: Connections) -> AnsibleDeployer:
    """Return as a study has it."""
    return AnsibleDeployer(
        Path(LAB),
        work,
        user="nobody",
        inventory=str(inventory),
        target="web",
        settings=connections.settings,
    )


def refused(**changes: object) -> InstanceSpec:
    """Return an instance whose validator says no, so that nothing else happens."""
    return replace(nothing(LAB, {}), **changes)  # type: ignore[arg-type]


def main(inventory: Path, work: Path) -> None:
    """Deploy what takes long to be validated: run by the tests as a process of its own."""
    slow = [
        refused(
            instance=str(n),
            directory=f"{LAB}/instances/{n}",
            validate=tuple(SLOW.split()),
        )
        for n in range(SLOW_INSTANCES)
    ]
    connections = Connections(read_inventory(str(inventory), generators=False))
    deployer(inventory, work, connections).deploy(slow)


@pytest.fixture
def deploying(hosts: Bed, web: BedHost, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A controller whose module is in its middle on the target."""
    words = [sys.executable, "-m", "tests.fleet.test_deployment", str(hosts.inventory)]
    with subprocess.Popen(
        [*words, str(tmp_path / "begun")],
        cwd=TOP,
        env={**os.environ, "PYTHONPATH": str(TOP)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            until("the validation", lambda: SLOW in processes(web), PATIENCE_S)
            yield process
        finally:
            process.kill()


def test_what_is_interrupted_does_not_go_on_there(
    deploying: subprocess.Popen[bytes], web: BedHost
) -> None:
    """Ctrl-C: the module sees that nobody waits for it, and takes away what it has begun."""
    deploying.send_signal(signal.SIGINT)
    deploying.wait(PATIENCE_S)
    until("the module's end", lambda: SLOW not in processes(web), PATIENCE_S)
    until("the removal", lambda: not folder(web).exists(), PATIENCE_S)


@pytest.mark.every_run
def test_who_stops_a_lab_stops_a_deployment_that_still_runs(
    deploying: subprocess.Popen[bytes], hosts: Bed, web: BedHost, tmp_path: Path
) -> None:
    """After ``kill -9`` Ansible's own processes may go on: the next command ends theirs too."""
    deploying.kill()
    connections = Connections(read_inventory(str(hosts.inventory), generators=False))
    try:
        deployer(hosts.inventory, tmp_path / "next", connections).stop()
    finally:
        connections.close()
    assert SLOW not in processes(web)
    assert not folder(web).exists()


def test_a_full_disk_is_the_hosts_fault(hosts: Bed, web: BedHost, tmp_path: Path) -> None:
    """No configuration is blamed for it, and once there is room the next block is deployed."""
    connections = Connections(read_inventory(str(hosts.inventory), generators=False))
    made = deployer(hosts.inventory, tmp_path / "work", connections)
    large = refused(files={"large": "x" * (1 << 20)})
    filler = web.root / "var/filler"
    try:
        fill(filler)
        with pytest.raises(HostError, match=r"No space left|No usable temporary directory"):
            made.deploy([large])
        filler.unlink()
        assert made.deploy([large])["baseline"].state == "refused"
    finally:
        filler.unlink(missing_ok=True)
        made.remove()
        connections.close()


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_a_lab_that_another_account_made_beforehand_is_refused(
    hosts: Bed, web: BedHost, tmp_path: Path, kind: str
) -> None:
    """Root neither writes nor removes in a lab of another account, whose name can be guessed."""
    planted, elsewhere = web.root / LAB.removeprefix("/"), web.root / "var/elsewhere/instances"
    elsewhere.mkdir(parents=True)
    (elsewhere / "kept").touch()
    if kind == "link":
        planted.symlink_to("/var/elsewhere")
    else:
        planted.mkdir()
    os.chown(planted, 1234, 1234, follow_symlinks=False)
    connections = Connections(read_inventory(str(hosts.inventory), generators=False))
    made = deployer(hosts.inventory, tmp_path / "work", connections)
    try:
        for attempt in (
            lambda: made.publish({"a": b""}),
            lambda: made.deploy([refused()]),
            made.stop,
        ):
            with pytest.raises(HostError, match=f"{LAB} belongs to another account"):
                attempt()
        assert [path.name for path in elsewhere.iterdir()] == ["kept"]
    finally:
        connections.close()
        web.run("rm", "-rf", LAB, "/var/elsewhere")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
