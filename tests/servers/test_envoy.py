"""Envoy as the lab starts it: what stands in no file, and why it does not start."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.labs import ServerLab, server_lab
from tuner.machine.facts import ServerFacts
from tuner.servers import envoy
from tuner.workload.wire import Tls, Wire


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerLab]:
    """A lab of its own."""
    with server_lab(tmp_path_factory.mktemp("envoy") / "study", "envoy/proxy") as made:
        yield made


@pytest.mark.integration
def test_the_number_of_threads_is_the_configurations(lab: ServerLab) -> None:
    """The running configuration does not prove an option of the command line."""
    _, state = lab.start(lab.space.complete({"concurrency": 2}, lab.space.baseline("stock")))
    assert (state.state, state.message) == ("live", "")
    tasks = Path(f"/proc/{state.pids[0]}/task").iterdir()
    names = [(task / "comm").read_text().strip() for task in tasks]
    assert sorted(name for name in names if name.startswith("wrk")) == [
        "wrk:worker_0",
        "wrk:worker_1",
    ]


@pytest.mark.integration
def test_a_start_that_fails_says_why(lab: ServerLab) -> None:
    """In Envoy's words: somebody else has the port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        spec = lab.spec("one", port, lab.configuration())
        state = lab.deployer.deploy([spec])["one"]
    assert state.state == "failed"
    assert "Address already in use" in state.message
    assert '"level"' not in state.message


@pytest.mark.parametrize(
    ("version", "library", "wire", "words"),
    [
        ("1.40.0", "BoringSSL", Wire("http3", Tls()), ""),
        ("1.35.9", "BoringSSL", Wire(), "1.36"),
        ("1.40.0", "BoringSSL-FIPS", Wire("http2", Tls()), ""),
        ("1.40.0", "BoringSSL-FIPS", Wire("http3", Tls()), "without HTTP/3"),
    ],
)
def test_what_a_build_lacks_is_said(version: str, library: str, wire: Wire, words: str) -> None:
    """Older versions have other defaults, and not every TLS library has QUIC."""
    text = f"envoy  version: 9e55/{version}/Clean/RELEASE/{library}\n"
    found = envoy.parse_build(text, "envoy")
    assert found == ServerFacts("envoy", "envoy", version, (library,), text.strip())
    said = envoy.refuses(found, wire)
    assert words in said
    assert bool(said) is bool(words)
