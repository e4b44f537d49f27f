"""The output of other generators is parsed correctly, or refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import peers
from benchmarks.peers import Said
from tuner.workload.wire import Tls, Wire

WRK2 = """\
Running 15s test @ http://127.0.0.1:8080/
  1 threads and 32 connections
  Latency Distribution (HdrHistogram - Recorded Latency)
 50.000%  718.00us
 75.000%    1.03ms
 99.000%    1.73ms
100.000%    1.02s
  Detailed Percentile spectrum:
       Value   Percentile   TotalCount 1/(1-Percentile)
       0.718     0.500000        50000         2.00
  74997 requests in 15.00s, 92.92MB read
Requests/sec:   4999.64
"""
WRK = """\
Running 5s test @ http://127.0.0.1:8080/
  1 threads and 32 connections
  635120 requests in 5.10s, 786.88MB read
Requests/sec: 124533.12
"""


def test_wrk2_s_units_differ_from_line_to_line() -> None:
    """Microseconds and milliseconds of one summary become microseconds."""
    assert peers.read_wrk2(WRK2) == Said(718.0, 1730.0, 4999.64)


def test_wrk2_s_seconds_are_read() -> None:
    """A server that is overloaded gives seconds."""
    assert peers.read_wrk2(WRK2.replace("1.73ms", "2.50s")).p99_us == 2.5e6


def test_oha_reports_seconds() -> None:
    """They become microseconds."""
    text = json.dumps(
        {
            "latencyPercentiles": {"p50": 0.000089, "p99": 0.000337},
            "summary": {"requestsPerSec": 4998.7},
        }
    )
    said = peers.read_oha(text)
    assert (said.p50_us, said.p99_us) == pytest.approx((89.0, 337.0))
    assert said.achieved_per_s == 4998.7


def test_zrk_reports_microseconds_after_its_progress() -> None:
    """Lines before the JSON are passed over."""
    report = {"achieved_rate": 4999.0, "latency_us": {"p50": 118, "p99": 990}}
    text = "1s  4999 req/s\n" + json.dumps(report, indent=2)
    assert peers.read_zrk(text) == Said(118, 990, 4999.0)


def test_wrk_s_requests_and_seconds_are_read() -> None:
    """They give the rate without the rounding of its own line."""
    assert peers.read_wrk(WRK) == (635_120, 5.1)


@pytest.mark.parametrize(
    "text",
    [
        WRK + "  Socket errors: connect 0, read 12, write 0, timeout 0\n",
        WRK + "  Non-2xx or 3xx responses: 7\n",
        WRK.replace("635120", "0"),
        "unable to connect\n",
    ],
)
def test_wrk_s_errors_are_no_throughput(text: str) -> None:
    """Failed requests are the fastest; a run with one has no figure."""
    with pytest.raises(ValueError, match=r".*"):
        peers.read_wrk(text)


def test_the_given_folder_comes_before_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build of one's own is compared even where a package is installed."""
    for name in ("own", "installed"):
        program = tmp_path / name / "zrk"
        program.parent.mkdir()
        program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "installed"))
    assert peers.find("zrk", None) == str(tmp_path / "installed" / "zrk")
    assert peers.find("zrk", str(tmp_path / "own")) == str(tmp_path / "own" / "zrk")
    found, missing = peers.open_loop(str(tmp_path / "own"), Wire())
    assert [peer.name for peer in found] == ["zrk"]
    assert missing == ["oha", "h2load", "wrk2"]


def test_only_what_speaks_the_protocol_is_compared() -> None:
    """Only oha and h2load are compared over TLS and HTTP/2, and only oha over HTTP/3."""
    for wire, names in (
        (Wire("http1", Tls()), ["oha", "h2load"]),
        (Wire("http2", Tls()), ["oha", "h2load"]),
        (Wire("http3", Tls()), ["oha-http3"]),
    ):
        _, missing = peers.open_loop("/nowhere", wire)
        found, _ = peers.open_loop(None, wire)
        assert set(missing) <= set(names)
        assert len(found) <= len(names)


H2LOAD = """
finished in 5.02s, 4999.80 req/s, 6.21MB/s
requests: 24999 total, 24999 started, 24999 done, 24999 succeeded, 0 failed, 0 errored, 0 timeout
"""


def test_h2load_s_log_is_read() -> None:
    """Percentiles are those of the log, which holds every request; failed ones are left out."""
    log = "".join(f"17000000000{i:05}\t200\t{i}\n" for i in range(1, 1001))
    said = peers.read_h2load(H2LOAD + log + "1700000000000\t500\t7\n")
    assert said == Said(500.0, 990.0, 4999.80)
    with pytest.raises(ValueError, match="no requests"):
        peers.read_h2load(H2LOAD)
