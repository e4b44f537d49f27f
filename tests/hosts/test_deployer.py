"""The contract of deployers: the simulated one, and Ansible with a real Nginx."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest

from tests.hosts.nginxes import ask, needs_nginx, nginx_lab
from tests.phases.rig import SPACE, STOCK
from tuner.hosts import local
from tuner.hosts.deployer import Deployer, InstanceSpec
from tuner.space.configuration import Value
from tuner.testing.lab import Faults, SimulatedDeployer, SimulatedHost, values_of


@dataclass(frozen=True)
class Case:
    """A deployer with what a test needs to see what it did."""

    deployer: Deployer
    ports: Callable[[int], Sequence[int]]
    good: Callable[[str, int], InstanceSpec]
    bad: Callable[[str, int], InstanceSpec]
    """Refused; the words hold ``bogus``."""
    answer: Callable[[InstanceSpec], str | None]
    """Answer of the instance where it proves itself."""
    taken: Callable[[int], AbstractContextManager[None]]
    """Another server holds this port."""
    program: str
    """Path of the server's program."""


def simulated() -> Case:
    """Return the simulated deployer; ``size`` 64 is what its server refuses."""
    taken: set[int] = set()

    def refuse(values: object) -> str:
        return "bogus size" if values["size"] == 64 else ""  # type: ignore[index]

    program = Path(__file__)
    host = SimulatedHost(faults=Faults(refuse=refuse, taken_ports=taken), program=program)

    def spec(label: str, port: int, size: Value) -> InstanceSpec:
        return host.instance(label, SPACE.complete({"size": size}, STOCK), port)

    def answer(wanted: InstanceSpec) -> str | None:
        address = wanted.live_url.split("/")[2]
        running = host.running.get(address)
        return running.spec.live_token if running else None

    @contextmanager
    def hold(port: int) -> Iterator[None]:
        taken.add(port)
        yield
        taken.remove(port)

    assert values_of(spec("x", 1, 100))["size"] == 100
    return Case(
        SimulatedDeployer(host),
        host.free_ports,
        lambda label, port: spec(label, port, port % 1_000 + 100),
        lambda label, port: spec(label, port, 64),
        answer,
        hold,
        str(program),
    )


@contextmanager
def hold(port: int) -> Iterator[None]:
    """Listen there and never answer."""
    with socket.create_server(("127.0.0.1", port)):
        yield


@pytest.fixture(scope="module", params=["simulated", pytest.param("ansible", marks=needs_nginx)])
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Case]:
    """One deployer for all tests: every deployment replaces the one before."""
    if request.param == "simulated":
        yield simulated()
        return
    with nginx_lab(tmp_path_factory.mktemp("ansible") / "study") as lab:
        yield Case(
            lab.deployer,
            local.free_ports,
            lab.spec,
            lambda label, port: lab.spec(label, port, more="bogus on;\n"),
            lambda spec: ask(spec.live_url),
            hold,
            os.path.realpath(lab.server.binary),
        )


class TestDeployer:
    """The contract of ``tuner.hosts.deployer.Deployer``."""

    def test_instances_live_side_by_side_each_with_its_own_configuration(self, case: Case) -> None:
        """Each proves itself by its configuration's digest and has processes of its own."""
        one, other = (
            case.good(label, port)
            for label, port in zip(("baseline", "c1"), case.ports(2), strict=True)
        )
        states = case.deployer.deploy([one, other])
        assert {label: state.state for label, state in states.items()} == {
            "baseline": "live",
            "c1": "live",
        }
        assert [case.answer(spec) for spec in (one, other)] == [one.live_token, other.live_token]
        assert one.live_token != other.live_token
        pids = [set(state.pids) for state in states.values()]
        assert all(pids)
        assert not pids[0] & pids[1]

    def test_an_instance_names_its_code(self, case: Case) -> None:
        """The program has the SHA-256 of its file; equal instances have the same files."""
        specs = [
            case.good(label, port)
            for label, port in zip(("baseline", "c1"), case.ports(2), strict=True)
        ]
        one, other = case.deployer.deploy(specs).values()
        assert one.code == other.code
        assert one.code[case.program] == sha256(Path(case.program).read_bytes()).hexdigest()

    def test_what_the_validator_refuses_is_refused_in_its_words(self, case: Case) -> None:
        """A configuration that the validator refuses is not started; the others are."""
        ports = case.ports(2)
        bad, good = case.bad("c1", ports[0]), case.good("baseline", ports[1])
        states = case.deployer.deploy([bad, good])
        assert states["c1"].state == "refused"
        assert "bogus" in states["c1"].message
        assert states["c1"].pids == ()
        assert states["baseline"].state == "live"
        assert case.answer(bad) is None
        assert case.answer(good) == good.live_token

    def test_a_taken_port_is_a_failure_not_a_refusal(self, case: Case) -> None:
        """A taken port is a failure of the host, not of the configuration."""
        ports = case.ports(2)
        first, second = case.good("baseline", ports[0]), case.good("c1", ports[1])
        with case.taken(ports[1]):
            states = case.deployer.deploy([first, second])
        assert states["baseline"].state == "live"
        assert states["c1"].state == "failed"
        assert "in use" in states["c1"].message.lower()

    def test_a_deployment_replaces_the_one_before(self, case: Case) -> None:
        """Only the new configuration answers; the old ports are silent."""
        ports = case.ports(3)
        old = [case.good("baseline", ports[0]), case.good("c1", ports[1])]
        case.deployer.deploy(old)
        new = case.good("baseline", ports[2])
        states = case.deployer.deploy([new])
        assert set(states) == {"baseline"}
        assert case.answer(new) == new.live_token
        assert [case.answer(spec) for spec in old] == [None, None]

    def test_stopping_stops_everything_and_may_be_done_twice(self, case: Case) -> None:
        """Nothing answers any more."""
        spec = case.good("baseline", case.ports(1)[0])
        case.deployer.deploy([spec])
        assert case.answer(spec) == spec.live_token
        case.deployer.stop()
        assert case.answer(spec) is None
        case.deployer.stop()
