"""A HAProxy newer than many machines have (3.0, with HTTP/3): Debian's, of the bed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fleet.bed import PACKAGES, Bed, base_root, bed
from tests.fleet.conftest import program_of, skip_without_bed
from tests.fleet.test_remote import tuner
from tuner.hosts import local
from tuner.machine.facts import ServerFacts
from tuner.servers import haproxy
from tuner.servers.trial import refusal, trial_ground
from tuner.space.facts import space_facts
from tuner.space.space import BASELINES, bind_space
from tuner.testing.draw import draw_configuration
from tuner.workload.wire import Tls, Wire
from tuner.workload.workload import load_workload

pytestmark = [pytest.mark.integration, pytest.mark.fleet]

BOTH = ("haproxy", *PACKAGES)
"""Packages of the target, which serves the backend too."""
PORT = 18_098
PROPOSALS = 50
PROXY = replace(load_workload("proxy"), wire=Wire("http3", Tls(), streams=64))
LARGE = replace(PROXY, requests=(replace(PROXY.requests[0], expect_length=1 << 20),))
CASES = {"small": PROXY, "large": LARGE}
WORKLOAD = """\
workload: answers
protocol: http3
tls: on
connections: 8
streams: 8
backend: {body: "an answer"}
requests: [{path: /}]
"""


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> ServerFacts:
    """The bed's HAProxy, started with its own loader and libraries on this machine."""
    skip_without_bed()
    program = program_of(base_root(BOTH), "haproxy", tmp_path_factory.mktemp("newer"))
    return haproxy.detect(program)


@pytest.fixture(scope="module")
def hosts() -> Iterator[Bed]:
    """A target that has it, and Nginx as its backend, and a generator."""
    skip_without_bed()
    groups = {"targets": ["web"], "generators": ["load"]}
    with bed(groups, packages={"web": BOTH}) as made:
        yield made


@pytest.mark.parametrize("name", CASES)
def test_a_newer_haproxy_takes_what_a_search_proposes(
    newer: ServerFacts, name: str, tmp_path: Path
) -> None:
    """The space has the settings of QUIC, and the newer validator accepts all proposals."""
    workload = CASES[name]
    assert haproxy.refuses(newer, workload.wire) == ""
    space = bind_space("haproxy/proxy", space_facts(local.facts(), newer, workload, 2))
    names = {found.name for found in space.parameters}
    assert {"limited_quic", "quic_cc_algo", "tune_quic_socket_owner"} <= names
    assert ("tune_quic_frontend_conn_tx_buffers_limit" in names) == (name == "large")
    ground = trial_ground(newer, workload, tmp_path / "ground")
    rng = random.Random(5)
    trades = [found.name for found in space.parameters if found.trades]
    for number in range(PROPOSALS):
        base = space.baseline(BASELINES[number % 3])
        drawn = base if number < 3 else draw_configuration(rng, space, base, trades)
        spec = haproxy.instance("trial", drawn, space, ground, PORT)
        assert refusal(spec, strict=True) == "", dict(drawn.values)


def test_windows_over_http3_against_haproxy(hosts: Bed, tmp_path: Path) -> None:
    """Proved live on the target, and asked over QUIC by the generator from another host."""
    (tmp_path / "answers.yaml").write_text(WORKLOAD)
    what = ("--server", "haproxy", "--workload", "answers.yaml", "--rate", "300", "--time", "4s")
    # Figures do not matter here.
    options = ("--inventory", str(hosts.inventory), "--stalls", "keep", "--json")
    done = tuner(tmp_path, "measure", "hand", *what, *options)
    assert done.returncode == 0, done.stderr
    windows = json.loads(done.stdout)["windows"]
    assert windows
    for window in windows:
        assert window["protocol"] == "http/3"
        assert window["completed_per_s"] > 0
        assert not window["errors"]
