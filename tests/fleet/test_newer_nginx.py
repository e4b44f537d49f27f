"""An Nginx newer than many machines have (1.26, with HTTP/3 and threads): Debian's, of the bed."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fleet.bed import Bed, base_root
from tests.fleet.conftest import program_of, skip_without_bed
from tests.fleet.test_remote import tuner
from tuner.hosts import local
from tuner.machine.facts import ServerFacts
from tuner.servers import nginx
from tuner.servers.trial import refusal, trial_ground
from tuner.space.facts import space_facts
from tuner.space.space import BASELINES, bind_space
from tuner.testing.draw import draw_configuration
from tuner.workload.site import SiteFile
from tuner.workload.wire import Tls, Wire
from tuner.workload.workload import load_workload

pytestmark = pytest.mark.integration

PORT = 18_099
PROPOSALS = 20
HTTP3 = Wire("http3", Tls(), streams=64)
STATIC = load_workload("static")
LARGE = replace(
    STATIC,
    site=(SiteFile("/index.html", 1 << 20, "html"),),
    requests=(replace(STATIC.requests[0], expect_length=1 << 20),),
)
CASES = {
    "static-http2-cleartext": ("nginx/static", replace(STATIC, wire=Wire("http2", streams=64))),
    "static-http3": ("nginx/static", replace(STATIC, wire=HTTP3)),
    "static-http3-large": ("nginx/static", replace(LARGE, wire=HTTP3)),
    "proxy-http3": ("nginx/proxy", replace(load_workload("proxy"), wire=HTTP3)),
}
WORKLOAD = """\
workload: page
protocol: http3
tls: on
connections: 8
streams: 8
site: [{path: /index.html, size: 6k}]
requests: [{path: /index.html}]
"""


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> ServerFacts:
    """The bed's Nginx, started with its own loader and libraries on this machine."""
    skip_without_bed()
    return nginx.detect(program_of(base_root(), "nginx", tmp_path_factory.mktemp("newer")))


@pytest.mark.parametrize("name", CASES)
def test_a_newer_nginx_takes_what_a_search_proposes(
    newer: ServerFacts, name: str, tmp_path: Path
) -> None:
    """The space has the newer parameters, and the newer validator accepts all proposals."""
    chosen, workload = CASES[name]
    assert nginx.refuses(newer, workload.wire) == ""
    space = bind_space(chosen, space_facts(local.facts(), newer, workload, 2))
    assert ("quic_gso" in {found.name for found in space.parameters}) == ("http3" in name)
    ground = trial_ground(newer, workload, tmp_path / "ground")
    rng = random.Random(5)
    trades = [found.name for found in space.parameters if found.trades]
    for number in range(PROPOSALS):
        base = space.baseline(BASELINES[number % 3])
        drawn = base if number < 3 else draw_configuration(rng, space, base, trades)
        spec = nginx.instance("trial", drawn, space, ground, PORT)
        assert refusal(spec, strict=True) == "", dict(drawn.values)


def test_a_window_over_http3_against_nginx(pair: Bed, tmp_path: Path) -> None:
    """Proved live on the target, and asked over QUIC by the generator from another host.

    As much as it answers, so that connections end at ``keepalive_requests``: what comes too late
    for one is asked again, and is not an error.
    """
    (tmp_path / "page.yaml").write_text(WORKLOAD)
    options = ("--workload", "page.yaml", "--time", "4s", "--name", "h3", "--json")
    done = tuner(tmp_path, "measure", "stock", "--inventory", str(pair.inventory), *options)
    assert done.returncode == 0, done.stderr
    windows = json.loads(done.stdout)["windows"]
    assert windows
    for window in windows:
        assert window["protocol"] == "http/3"
        assert window["completed_per_s"] > 0
        assert not window["errors"]
