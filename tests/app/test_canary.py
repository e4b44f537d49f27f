"""The check of a changed host: it finds one that is worse, and noise is not a reason."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from tuner.app import canary
from tuner.app.canary import CONFIDENCE, MARGIN, ProbeOptions, Probes, judge, metric_of, read_figure
from tuner.errors import DefinitionError, HostError
from tuner.goals.constraint import Constraint
from tuner.goals.objective import Objective
from tuner.hosts.agent import Usage
from tuner.hosts.inventory import Host

HERE = Host("here", {"ansible_connection": "local"})
OTHER = Host("other", {"ansible_connection": "local"})


# --- the rule ----------------------------------------------------------------------------------


def share_worse(ratio: float, *, noise: float, drift: float = 1.0, control: bool = False) -> float:
    """Return the share of 600 hosts that are called worse, when they became slower by a factor."""
    rng = np.random.default_rng(16)
    found = 0
    for _ in range(600):
        before, after, held, later = np.exp(rng.normal(0.0, noise, (4, 10)))
        after, later = after * ratio * drift, later * drift
        others = (list(held), list(later)) if control else ((), ())
        found += judge(list(before), list(after), *others).worse
    return found / 600


@pytest.mark.parametrize("noise", [0.02, 0.2, 0.8])
def test_noise_is_no_reason(noise: float) -> None:
    """A host that is as far off as the margin allows is called worse once in two hundred times."""
    assert share_worse(1.0, noise=noise) <= 0.005
    assert share_worse(1 + MARGIN, noise=noise) <= 0.02


def test_a_host_that_is_worse_is_found() -> None:
    """By half, where its windows differ by a tenth among themselves."""
    assert share_worse(1.5, noise=0.1) > 0.99


def test_what_drifts_for_a_control_as_well_is_no_reason() -> None:
    """Without a control the same drift would be taken for the change."""
    assert share_worse(1.0, noise=0.1, drift=2.0) > 0.99
    assert share_worse(1.0, noise=0.1, drift=2.0, control=True) <= 0.005
    assert share_worse(2.0, noise=0.1, drift=0.5, control=True) > 0.99


def test_too_few_windows_give_no_number() -> None:
    """Seven cannot have an interval of 99 %; a window that failed is not counted."""
    assert judge([1.0] * 7, [9.0] * 7).ratio is None
    assert judge([1.0] * 8, [9.0] * 8).worse
    lost = [float("nan")] + [1.0] * 7
    assert judge([1.0] * 8, [9.0] * 8, [1.0] * 8, lost).ratio is None
    assert CONFIDENCE == 0.99


@pytest.mark.parametrize(
    ("objective", "metric"),
    [(name, name) for name in ("p99", "p50", "cpu", "memory", "throughput")],
)
def test_the_figure_that_the_study_claims_is_compared(objective: str, metric: str) -> None:
    """Another one can be named, if probes can measure it."""
    assert metric_of(Objective.parse(objective)) == metric
    assert read_figure(metric) == metric


def test_a_figure_that_probes_cannot_measure_is_refused() -> None:
    """With the option and the figures that they can."""
    with pytest.raises(DefinitionError, match=r"--figure: .*'capacity'; allowed: a percentile"):
        read_figure("capacity")


def test_bursts_are_announced() -> None:
    """Throughput needs a load that users of the host may notice; other figures need none."""
    asked = ProbeOptions("http://{host}/", 2_000, 100.0, "throughput")
    (said,) = asked.statements
    assert "with 8 connections in a closed loop, 10 times 0.5 s" in said
    assert "--figure p99" in said
    assert ProbeOptions("http://{host}/", 2_000, 100.0, "p99").statements == ()


def test_the_capacity_is_measured_by_its_limit() -> None:
    """A host in production is not driven to its limit."""
    assert metric_of(Objective.parse("capacity at p99.9 <= 5ms")) == "p99.9"


# --- the instrument ----------------------------------------------------------------------------


@dataclass
class Web:
    """A server that answers after a while, with a status."""

    url: str
    wait_s: float = 0.0
    status: int = 200
    asked: int = 0
    names: frozenset[str] = frozenset()


@pytest.fixture
def web() -> Iterator[Web]:
    """A server on this machine."""
    made = Web("")

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Otherwise the body waits 40 ms for the acknowledgement of the headers.
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            """Answer."""
            made.asked += 1
            made.names |= {self.headers["Host"]}
            if self.path == "/old":
                self.send_response(301)
                self.send_header("Location", "/new")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            time.sleep(made.wait_s)
            self.send_response(made.status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    made.url = f"http://{{host}}:{server.server_port}/old"
    yield made
    server.shutdown()
    server.server_close()


def used(_: Host) -> Usage:
    """Return a constant resource use."""
    return Usage((1,), 0.0, 1 << 20)


@pytest.mark.integration
def test_a_host_that_became_slow_is_worse(web: Web) -> None:
    """By the native generator's figures; the message names figure, ratio and claim."""
    probes = Probes(ProbeOptions(web.url, 400, 100.0, "p50"), used)
    before = probes.look([HERE])
    assert len(before["here"].values) == 8
    # Far beyond what an answer takes on a busy machine, and less than fills the connections.
    web.wait_s = 0.05
    with pytest.raises(
        HostError, match=r"here is worse by more than 10%.*p50 after / before .*the claim"
    ):
        probes.checked(HERE, before, None, "the claim")


@pytest.mark.integration
def test_a_claimed_throughput_is_measured(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """In bursts of a closed loop: a host that answers fewer requests a second is worse."""
    monkeypatch.setattr(canary, "_BURST_S", 0.2)
    probes = Probes(ProbeOptions(web.url, 400, 200.0, "throughput"), used)
    web.wait_s = 0.005
    before = probes.look([HERE])
    assert len(before["here"].values) == 8
    assert sum(map(len, before["here"].latencies_us)) == 400
    web.wait_s = 0.04
    with pytest.raises(
        HostError,
        match=r"is worse by more than 10%.*throughput after / before 0\.\d+ .*the claim",
    ):
        probes.checked(HERE, before, None, "the claim")
    web.wait_s = 0.0
    after = probes.checked(HERE, before, None, "the claim")
    assert float(after.partition("after / before ")[2].split()[0]) > 1


@pytest.mark.integration
def test_a_claimed_capacity_is_held_against_its_limit(web: Web) -> None:
    """At the probes' rate, where the limit held before; where it did not, nothing is claimed."""
    claimed = Constraint.parse("p50<50ms")
    probes = Probes(ProbeOptions(web.url, 10, 100.0, "p50", claimed=claimed), used)
    before = probes.look([HERE])
    web.wait_s = 0.1
    with pytest.raises(HostError, match=r"misses the limit p50 <= 50ms, which it met"):
        probes.checked(HERE, before, None, "the claim")
    assert "probes answered" in probes.checked(HERE, probes.look([HERE]), None, "the claim")


@pytest.mark.integration
def test_a_limit_and_an_error_are_found(web: Web) -> None:
    """A few probes are enough for that; they say that they compare nothing."""
    probes = Probes(ProbeOptions(web.url, 10, 100.0, "p99"), used)
    before = probes.look([HERE])
    assert "too few probes for a comparison" in probes.checked(HERE, before, None, "the claim")
    tight = Probes(ProbeOptions(web.url, 10, 100.0, "p99", Constraint.parse("p99<1us")), used)
    with pytest.raises(HostError, match=r"here: p99 .* misses the limit p99 <= 1us"):
        tight.checked(HERE, before, None, "the claim")
    web.status = 503
    with pytest.raises(HostError, match=r"here: .*503"):
        probes.look([HERE])


@pytest.mark.integration
def test_hosts_are_measured_in_turn_and_called_by_their_own_names(web: Web) -> None:
    """One that does not answer is left out as a control."""
    away = Host("away", {"ansible_host": "127.0.0.1", "tuner_address": "127.0.0.2x"})
    probes = Probes(ProbeOptions(web.url, 10, 100.0, "p99"), used)
    assert set(probes.look([HERE, away, OTHER])) == {"here", "other"}
    assert web.names == {f"127.0.0.1:{web.url.rpartition(':')[2].partition('/')[0]}"}


@pytest.mark.integration
def test_memory_is_the_services_own(web: Web) -> None:
    """Read on the host between windows, in MiB."""
    probes = Probes(ProbeOptions(web.url, 10, 100.0, "memory"), used)
    assert probes.look([HERE])["here"].values == (1.0,)
