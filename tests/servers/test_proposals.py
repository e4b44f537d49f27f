"""Share of a search's proposals that the real servers' validators refuse."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tuner.errors import HostError
from tuner.hosts import local
from tuner.machine.facts import ServerFacts
from tuner.render.render import EXPORT
from tuner.servers import catalog
from tuner.servers.ground import TargetGround
from tuner.servers.trial import refusal, trial_ground
from tuner.space.configuration import Value
from tuner.space.facts import space_facts
from tuner.space.space import BASELINES, Space, bind_space, spaces
from tuner.testing.draw import draw_configuration
from tuner.workload.site import SiteFile
from tuner.workload.wire import Tls, Wire
from tuner.workload.workload import Workload, load_workload

pytestmark = pytest.mark.integration

MOST_REFUSED = 0.02
"""Share that a search may waste; 23 % are reported of a search without conditions."""

STATIC = load_workload("static")
PROXY = load_workload("proxy")


def large(workload: Workload, size: int) -> Workload:
    """Return the same with answers of another size."""
    (request,) = workload.requests
    site = (SiteFile("/index.html", size, "html"),) if workload.site else ()
    backend = workload.backend and replace(workload.backend, body=b"x" * size)
    asked = (replace(request, expect_length=size),)
    return replace(workload, site=site, backend=backend, requests=asked)


VARIANTS = {
    "static": STATIC,
    "static-large": large(STATIC, 1 << 20),
    "static-https": large(replace(STATIC, wire=Wire(tls=Tls())), 100 << 10),
    "static-http2": replace(STATIC, wire=Wire("http2", Tls(), streams=64)),
    "proxy": PROXY,
    "proxy-http2-large": large(replace(PROXY, wire=Wire("http2", Tls())), 100 << 10),
}
CASES = [
    (space, variant)
    for space in spaces()
    if space.partition("/")[0] in catalog.SERVERS
    for variant in VARIANTS
    if ("static" in space) == variant.startswith("static")
]


@dataclass(frozen=True)
class Case:
    """A space for one workload, with what its server needs to validate."""

    space: Space
    server: ServerFacts
    ground: TargetGround

    def refusals(self, count: int, seed: int) -> list[str]:
        """Return the server's refusals of random configurations, with every trade-off allowed."""
        rng = random.Random(seed)
        adapter = catalog.server(self.space.server)
        trades = [parameter.name for parameter in self.space.parameters if parameter.trades]
        said = []
        for number in range(count):
            base = self.space.baseline(BASELINES[number % 3])
            configuration = draw_configuration(rng, self.space, base, trades)
            spec = adapter.instance("trial", configuration, self.space, self.ground, PORT)
            words = refusal(spec, strict=True)
            said += [f"{words}\n{dict(configuration.values)}"] if words else []
        return said


PORT = 18_099


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    """Each shipped space with each workload that it is for."""
    name, variant = request.param
    workload = VARIANTS[variant]
    adapter = catalog.server(name.partition("/")[0])
    try:
        server = adapter.detect()
    except HostError as error:
        pytest.skip(str(error))
    if words := adapter.refuses(server, workload.wire):
        pytest.skip(words)
    # As if the kernel's TLS were loaded: the server takes the option either way.
    facts = replace(space_facts(local.facts(), server, workload, 2), kernel_tls=True)
    with tempfile.TemporaryDirectory(prefix="tuner-proposals-") as folder:
        ground = trial_ground(server, workload, Path(folder))
        yield Case(bind_space(name, facts), server, ground)


def test_the_server_takes_every_baseline(case: Case) -> None:
    """Every server accepts each baseline for each workload."""
    adapter = catalog.server(case.space.server)
    for baseline in BASELINES:
        configuration = case.space.baseline(baseline)
        spec = adapter.instance("trial", configuration, case.space, case.ground, PORT)
        assert refusal(spec, strict=True) == ""


def test_a_preflight_can_write_every_baseline(case: Case) -> None:
    """The certificate comes later, and a template that leaves out a parameter is refused."""
    upstreams = () if "static" in case.space.name else EXPORT.upstreams
    adapter = catalog.server(case.space.server)
    for baseline in BASELINES:
        configuration = case.space.baseline(baseline)
        placement = replace(EXPORT, upstreams=upstreams)
        assert adapter.export_text(configuration, case.space, placement)


def test_the_server_takes_what_a_search_proposes(case: Case) -> None:
    """Random configurations, and none is wasted."""
    # The others' validators take ten times as long as Nginx's.
    count = 40 if case.space.server == "nginx" else 12
    assert case.refusals(count, seed=3) == []


@pytest.mark.proof
def test_the_share_of_refused_proposals(case: Case) -> None:
    """The server refuses at most 2 % of 400 proposals."""
    refused = case.refusals(400, seed=4)
    assert len(refused) / 400 <= MOST_REFUSED, refused[0]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("caddy/static", {"encode": True, "access_log": True, "access_log_sampling": True}),
        ("caddy/static", {"precompressed": True, "encode": True, "encode_zstd_level": "best"}),
        ("nginx/static", {"gzip": True, "gzip_comp_level": 6}),
        ("nginx/proxy", {"proxy_buffering": False, "proxy_buffer_size": 28 << 10}),
    ],
)
def test_the_server_takes_what_no_baseline_has(
    tmp_path: Path, name: str, values: dict[str, Value]
) -> None:
    """A user's own baseline may be the only one that has it."""
    adapter = catalog.server(name.partition("/")[0])
    workload = PROXY if "proxy" in name else STATIC
    try:
        server = adapter.detect()
    except HostError as error:
        pytest.skip(str(error))
    space = bind_space(name, space_facts(local.facts(), server, workload, 2))
    configuration = space.complete(values, space.baseline("stock"))
    ground = trial_ground(server, workload, tmp_path / "ground")
    assert refusal(adapter.instance("trial", configuration, space, ground, PORT), strict=True) == ""
