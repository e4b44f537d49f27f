"""Contract of every server's adapter, tested with the real servers."""

from __future__ import annotations

import socket
import ssl
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError

import pytest

from tests.hosts.nginxes import processes_in
from tests.servers.labs import ROLES, ServerLab, free_ports, here, server_lab
from tuner.hosts.log_end import log_end
from tuner.machine.facts import SERVER_NAMES
from tuner.measurement.error_log import complaints
from tuner.servers.catalog import SERVERS, server
from tuner.servers.certificate import Certificate, make_certificate
from tuner.space import never
from tuner.space.space import BASELINES, spaces
from tuner.workload.site import generate

pytestmark = pytest.mark.integration

BROKEN = {
    "nginx": "\nbogus;\n",
    "caddy": "\n:1 {\n\tbogus\n}\n",
    "nghttpx": "\nbogus=1\n",
    "haproxy": "\n\tbogus\n",
    "apache": "\nbogus\n",
    "envoy": "\nbogus: 1\n",
}
"""Text that each server's reader refuses, with this word."""


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    """One for all labs."""
    return make_certificate()


@pytest.fixture(scope="module", params=sorted(ROLES))
def lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerLab]:
    """One for every space; a blank in its path, since users have them."""
    folder = tmp_path_factory.mktemp("contract") / "a study"
    with server_lab(folder, request.param) as made:
        yield made


def answer(port: int, path: str, certificate: Certificate | None = None) -> bytes:
    """Return the answer to a client."""
    context = ssl.create_default_context(cadata=certificate.ca) if certificate else None
    scheme = "https" if certificate else "http"
    url = f"{scheme}://localhost:{port}{path}"
    with urllib.request.urlopen(url, timeout=10, context=context) as response:  # noqa: S310
        body: bytes = response.read()
        return body


def expected(lab: ServerLab) -> tuple[str, bytes]:
    """Return a path, and what is there."""
    if lab.workload.backend is not None:
        return lab.workload.requests[0].path, lab.workload.backend.body
    return "/index.html", generate(lab.workload)["index.html"]


def test_every_name_has_an_adapter_and_every_space_a_test() -> None:
    """And its own name, and a list of what is never searched."""
    assert tuple(SERVERS) == SERVER_NAMES
    assert {name for name in spaces() if name.partition("/")[0] in SERVERS} == set(ROLES)
    for name, adapter in SERVERS.items():
        assert (adapter.name, adapter.syntax.server) == (name, name)
        assert set(never.names(name)) > set(never.names("none"))


@pytest.mark.parametrize("name", SERVER_NAMES)
def test_what_is_installed_is_found_and_understood(name: str) -> None:
    """The installed server is found with its program, version and build."""
    found = here(name)
    assert (found.name, Path(found.binary).is_file()) == (name, True)
    assert found.version_tuple > (0, 0)
    assert found.build


def test_every_baseline_is_live_and_serves_what_the_workload_expects(lab: ServerLab) -> None:
    """All baselines run side by side, each with its own process, and serve the expected body."""
    ports = free_ports(len(BASELINES))
    wanted = dict(zip(BASELINES, ports, strict=True))
    states = lab.deployer.deploy(
        [lab.spec(name, port, lab.space.baseline(name)) for name, port in wanted.items()]
    )
    path, body = expected(lab)
    for name, port in wanted.items():
        assert (states[name].state, states[name].message) == ("live", ""), name
        assert answer(port, path) == body
        for pid in states[name].pids:
            assert Path(f"/proc/{pid}").is_dir()
        program = Path(f"/proc/{states[name].pids[0]}/exe").resolve().name
        assert program == Path(lab.facts.binary).resolve().name


def test_the_same_configuration_is_the_same_text(lab: ServerLab) -> None:
    """One configuration gives the same text each time; an export shows no trace of the lab."""
    hand = lab.space.baseline("hand")
    assert lab.spec("one", 18_080, hand) == lab.spec("one", 18_080, hand)
    text = lab.adapter.export_text(hand, lab.space)
    assert text == lab.adapter.export_text(hand, lab.space)
    assert str(lab.lab) not in text
    assert ".tuner" not in text


def test_a_bad_file_is_refused_in_the_servers_own_words(lab: ServerLab) -> None:
    """And does not keep the others from being started."""
    first, second = free_ports(2)
    bad = lab.spec("bad", first, lab.configuration())
    broken = {name: text + BROKEN[lab.adapter.name] for name, text in bad.files.items()}
    good = lab.spec("good", second, lab.configuration())
    states = lab.deployer.deploy([replace(bad, files={**bad.files, **broken}), good])
    assert states["bad"].state == "refused"
    assert "bogus" in states["bad"].message
    assert '"level"' not in states["bad"].message
    assert (states["good"].state, states["good"].message) == ("live", "")


def test_the_proof_fails_where_another_configuration_runs(lab: ServerLab) -> None:
    """An instance that shows another token fails, and the message names its own."""
    (port,) = free_ports(1)
    spec = lab.spec("one", port, lab.configuration())
    state = lab.deployer.deploy([replace(spec, live_token="0123456789ab")])["one"]  # noqa: S106
    assert state.state == "failed"
    assert spec.live_token in state.message


def test_what_is_stopped_leaves_nothing(lab: ServerLab) -> None:
    """No process, and no folder."""
    _, state = lab.start(lab.configuration())
    assert (state.state, state.message) == ("live", "")
    assert processes_in(lab.deployer.instances_dir)
    assert lab.deployer.deploy([]) == {}
    assert processes_in(lab.deployer.instances_dir) == []
    assert list(lab.deployer.instances_dir.iterdir()) == []


def test_it_stays_on_its_cpus(lab: ServerLab) -> None:
    """Every thread of every process."""
    _, state = lab.start(lab.space.baseline("hand"))
    for pid in state.pids:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            text = (thread / "status").read_text()
            allowed = next(x for x in text.splitlines() if x.startswith("Cpus_allowed_list"))
            assert allowed.split()[1] == str(lab.ground.cpus[0])


@pytest.mark.parametrize("space", [space for space, role in ROLES.items() if role == "proxy"])
def test_its_log_says_why_requests_fail(tmp_path: Path, space: str) -> None:
    """The error log names a lost backend, without the request or its secrets."""
    with server_lab(tmp_path / "study", space) as lab:
        lab.ground = replace(lab.ground, upstreams=("127.0.0.1:1",))
        port, state = lab.start(lab.configuration())
        assert (state.state, state.message) == ("live", "")
        with pytest.raises(HTTPError):
            answer(port, "/?token=hunter2")
        log = lab.spec("one", port, lab.configuration()).error_log
        # A server may write the line after the answer.
        deadline = time.monotonic() + 10
        while not (said := complaints(log_end(log))) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert any("connect" in line.lower() for line in said)
        assert not any("hunter2" in line or "live" in line for line in said)


@pytest.mark.parametrize(
    "space",
    [
        *("apache/proxy", "caddy/static", "envoy/proxy", "haproxy/proxy"),
        *("nghttpx/terminator", "nginx/proxy"),
    ],
)
def test_it_speaks_tls_with_the_labs_certificate(
    tmp_path: Path, space: str, certificate: Certificate
) -> None:
    """Proved live over TLS too, and HTTP/2 is offered where the workload asks for it."""
    with server_lab(tmp_path / "study", space, "http2", certificate) as lab:
        port, state = lab.start(lab.configuration())
        assert (state.state, state.message) == ("live", "")
        path, body = expected(lab)
        assert answer(port, path, certificate) == body
        context = ssl.create_default_context(cadata=certificate.ca)
        context.set_alpn_protocols(["h2", "http/1.1"])
        plain = socket.create_connection(("127.0.0.1", port), timeout=10)
        with context.wrap_socket(plain, server_hostname="localhost") as channel:
            assert channel.selected_alpn_protocol() == "h2"


@pytest.mark.parametrize("name", SERVER_NAMES)
def test_an_unknown_wire_is_refused_in_words(name: str) -> None:
    """The adapter does not refuse HTTP/2 over TLS, which every build here speaks."""
    from tuner.workload.wire import Tls, Wire

    assert server(name).refuses(here(name), Wire("http2", Tls())) == ""
