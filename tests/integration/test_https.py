"""TLS and HTTP/2 end to end: the lab's certificate, a real Nginx, the real generators."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.hosts.modules import ModuleDeployer
from tests.hosts.nginxes import needs_nginx, nginx_lab
from tuner.generators.generator import Endpoint, LoadGenerator, Next, WindowPlan, WindowSpec
from tuner.generators.h2load import H2loadGenerator
from tuner.generators.native import NativeGenerator
from tuner.hosts import local
from tuner.machine.placement import split_cores
from tuner.measurement.gates import Gates
from tuner.measurement.instrument import Mode
from tuner.measurement.measuring import measure
from tuner.measurement.stalls import StallRule
from tuner.measurement.window import Measurement, RawWindow
from tuner.paths import loadgen_binary
from tuner.servers import nginx
from tuner.servers.certificate import make_certificate
from tuner.workload.site import generate
from tuner.workload.wire import Tls
from tuner.workload.workload import Workload, load_workload

pytestmark = needs_nginx
CORES = split_cores(sorted(os.sched_getaffinity(0)), backend=False)
GATES = Gates(samples_needed=0, rate_error=1.0, error_share=0.5)
"""A busy machine may be late; what is looked at here is what was spoken."""


@dataclass(frozen=True)
class Served:
    """A live instance over TLS, and a workload that trusts it."""

    endpoint: Endpoint
    workload: Workload


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Deployed and proved live over TLS by the real path."""
    folder = tmp_path_factory.mktemp("https")
    made = make_certificate()
    ca = folder / "ca.pem"
    ca.write_text(made.ca)
    workload = load_workload("https")
    if refusal := nginx.refuses(nginx.detect(), workload.wire):
        pytest.skip(refusal)
    with nginx_lab(folder / "study", ModuleDeployer) as lab:
        lab.deployer.publish(generate(workload))
        ground = replace(lab.ground, protocol="http2", certificate=made)
        port = local.free_ports(1)[0]
        spec = nginx.instance("one", lab.configuration(), lab.space, ground, port)
        state = lab.deployer.deploy([spec])["one"]
        assert (state.state, state.message) == ("live", "")
        wire = replace(workload.wire, tls=Tls(ca_file=str(ca)))
        yield Served(Endpoint("one", f"127.0.0.1:{port}", state.pids), replace(workload, wire=wire))


def window(
    generator: LoadGenerator, served: Served, mode: Mode = "open", **wire: object
) -> Measurement:
    """Return one short window, judged against what the workload asks."""
    asked = replace(served.workload.wire, **wire)  # type: ignore[arg-type]
    workload = replace(served.workload, wire=asked, connections=4)
    reported: list[RawWindow] = []

    def keep(raw: RawWindow) -> Next:
        reported.append(raw)
        return Next()

    spec = WindowSpec("00-one", "one", mode, 400.0, 1, 0.1, 0.5)
    generator.run(WindowPlan(workload, (served.endpoint,), (spec,)), keep)
    return measure(reported[0], None, GATES, asked)


def native() -> NativeGenerator:
    """Our own."""
    return NativeGenerator(loadgen_binary(), CORES, StallRule())


def test_a_window_over_http2_and_tls(served: Served) -> None:
    """The lab's authority verifies the server; the window reports the protocol agreed on."""
    found = window(native(), served)
    assert found.invalid == ()
    assert (found.protocol, found.agreed.tls_version) == ("h2", "TLSv1.3")
    assert found.agreed.cipher
    assert found.agreed.group
    assert found.agreed.full + found.agreed.resumed >= 4
    assert found.completed > 0


def test_handshake_load_resumes_sessions(served: Served) -> None:
    """A new connection every ten requests: handshakes while measuring, most of them resumed."""
    found = window(native(), served, requests_per_connection=10)
    assert found.invalid == ()
    assert found.agreed.handshakes > 0
    assert found.agreed.resumed > 0
    assert found.agreed.handshake_p99_us > 0


def test_what_was_expected_and_not_agreed_on_is_invalid(served: Served) -> None:
    """The server chose another version; that is its configuration's fault."""
    tls = served.workload.wire.tls
    assert tls is not None
    found = window(native(), served, tls=replace(tls, version="TLSv1.2"))
    assert found.bad
    assert found.invalid == ("asked for TLS version TLSv1.2, but TLSv1.3 was negotiated",)


def test_an_authority_that_did_not_sign_is_an_error_of_every_request(
    served: Served, tmp_path: Path
) -> None:
    """``verify`` is real; and without it the same certificate is taken."""
    other = tmp_path / "other.pem"
    other.write_text(make_certificate().ca)
    refused = window(native(), served, tls=Tls(ca_file=str(other)))
    assert refused.completed == 0
    assert not refused.valid
    assert window(native(), served, tls=Tls(verify=False)).invalid == ()


def test_h2load_agrees_on_the_same(served: Served) -> None:
    """A second opinion on the protocol."""
    if shutil.which("h2load") is None:
        pytest.skip("no h2load in this system's packages (.ci/require h2load)")
    found = window(H2loadGenerator(CORES), served, "closed")
    assert found.protocol == "h2"
    assert found.agreed.tls_version == "TLSv1.3"
    assert found.agreed.cipher.startswith("TLS_AES_")


def test_cleartext_is_not_what_was_asked(served: Served) -> None:
    """A generator told to speak cleartext to it gets no right answer."""
    found = window(native(), served, protocol="http1", tls=None, streams=1)
    assert found.completed == 0
    assert found.bad
