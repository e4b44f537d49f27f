"""Tests of wrk2: its corrected and uncorrected figures, and runs that fail."""

from __future__ import annotations

import json
import math
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.phases.rig import WORKLOAD
from tuner.errors import InstrumentError
from tuner.generators.generator import Endpoint, Next, WindowPlan, WindowSpec
from tuner.generators.lua import script, text
from tuner.generators.wrk2 import Wrk2Generator, lasting_s, offered, read_report, read_spectra
from tuner.machine.facts import CoreSplit
from tuner.measurement.instrument import Mode
from tuner.measurement.window import Histogram, RawWindow
from tuner.workload.workload import Request

TEXT = """Running 1s test @ http://127.0.0.1:8080/
  1 threads and 2 connections
  Thread calibration: mean lat.: 9223372036854776.000ms, rate sampling interval: 10ms
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   508.35us  281.49us   1.20s    58.47%
    Req/Sec       -nan      -nan   0.00      0.00%
  Latency Distribution (HdrHistogram - Recorded Latency)
 50.000%  900.00us
 99.000%    1.20s

  Detailed Percentile spectrum:
       Value   Percentile   TotalCount 1/(1-Percentile)

       0.300     0.000000            1         1.00
       0.900     0.500000           50         2.00
      20.000     0.900000           90        10.00
    1200.000     0.990000           99       100.00
    1300.000     1.000000          100          inf
#[Mean    =        0.508, StdDeviation   =        0.281]
#[Max     =     1300.000, Total count    =          100]
----------------------------------------------------------

  Latency Distribution (HdrHistogram - Uncorrected Latency (measured without taking delayed starts\
 into account))
 50.000%   49.00us

  Detailed Percentile spectrum:
       Value   Percentile   TotalCount 1/(1-Percentile)

       0.010     0.000000            1         1.00
       0.049     0.500000           50         2.00
       3.717     1.000000          100          inf
#[Mean    =        0.105, StdDeviation   =        0.328]
----------------------------------------------------------
  100 requests in 1.00s, 14.55KB read
"""
NO_ERRORS = {"connect": 0, "read": 0, "write": 0, "status": 0, "timeout": 0}
REPORT: dict[str, Any] = {
    "duration_us": 1_000_000,
    "requests": 100,
    "bytes": 14_900,
    "errors": NO_ERRORS,
    "ranks": [[1, 300], [50, 900], [90, 20_000], [99, 1_200_000], [100, 1_300_000]],
}
SPEC = WindowSpec("00-one", "one", "open", 1_000.0, 1, 0.1, 0.9)


def test_spectra_are_found_by_their_headings() -> None:
    """A spectrum is found despite a calibration's sentinel, -nan, and changing units around it."""
    spectra = read_spectra(TEXT)
    assert spectra.keys() == {"Recorded Latency", "Uncorrected Latency"}
    assert spectra["Recorded Latency"].around_us(0.5) == (900, 900)
    assert spectra["Recorded Latency"].around_us(0.99) == (1_200_000, 1_200_000)
    assert spectra["Recorded Latency"].around_us(0.95) == (20_000, 1_200_000)
    assert spectra["Uncorrected Latency"].around_us(0.5) == (49, 49)


def test_an_empty_histogram_prints_nan_and_is_empty() -> None:
    """No request was answered."""
    lines = TEXT.replace("       0.300 ", "        -nan ").splitlines()
    cut = "\n".join(lines[: lines.index("       0.900     0.500000           50         2.00")])
    assert "-nan     0.000000" in cut
    (spectrum,) = read_spectra(cut).values()
    assert all(map(math.isnan, spectrum.around_us(0.5)))
    assert len(spectrum.counts().values_ns) == 0


def test_the_hook_and_the_text_agree_and_become_a_histogram() -> None:
    """Counts lie between ranks; nothing is counted twice."""
    reported = read_report(REPORT, read_spectra(TEXT))
    counts = reported.corrected.counts()
    assert counts.values_ns.tolist() == [300_000, 900_000, 20_000_000, 1_200_000_000, 1_300_000_000]
    assert counts.counts.tolist() == [1, 49, 40, 9, 1]
    assert reported.service.counts().counts.sum() == 100


def test_two_accounts_that_differ_are_both_refused() -> None:
    """A wrk2 whose hook means something else is not guessed at."""
    ranks = [[1, 300], [50, 1_900], [90, 20_000], [99, 1_200_000], [100, 1_300_000]]
    with pytest.raises(
        InstrumentError, match=r"JSON has 1900 µs for the quantile 0\.5, and its text 900"
    ):
        read_report({**REPORT, "ranks": ranks}, read_spectra(TEXT))


def test_errors_are_counted_by_kind_and_spoil_the_latencies() -> None:
    """wrk2 keeps failed requests among the others, so none of them are believed."""
    errors = {"connect": 0, "read": 3, "write": 0, "status": 7, "timeout": 2}
    reported = read_report({**REPORT, "errors": errors}, read_spectra(TEXT))
    assert reported.errors == {"reset": 3, "status_over_399": 7}
    assert reported.timeouts == 2
    assert reported.corrected.ranks == ()


@pytest.mark.parametrize(
    ("warmup_s", "duration_s", "connections", "runs_s"),
    [
        (0.1, 0.5, 32, 1),
        (0.1, 0.9, 32, 1),
        (0.5, 3.0, 32, 4),
        (0.5, 8.6, 32, 19),
        (0.5, 20.0, 200, 31),
    ],
)
def test_a_run_ends_before_wrk2_empties_its_histograms_or_long_after(
    warmup_s: float, duration_s: float, connections: int, runs_s: int
) -> None:
    """After 10 s and 5 ms for each connection; -d takes whole seconds only."""
    spec = replace(SPEC, warmup_s=warmup_s, duration_s=duration_s)
    assert lasting_s(spec, connections) == runs_s


def test_connections_that_begin_late_offer_less() -> None:
    """Four connections, 5 ms apart: 7.5 ms on average."""
    assert offered(1_000, 1.0, 4, 1) == 992
    assert offered(1_000, 1.0, 4, 4) == 1_000


def test_no_text_of_a_workload_becomes_lua() -> None:
    """Quotes, line breaks, backslashes and what is not ASCII are bytes."""
    assert text('a"]] .. os.exit() --') == '"a\\034]] .. os.exit() --"'
    assert text("é\n\\") == '"\\195\\169\\010\\092"'
    request = Request(1.0, "POST", "/x", (("X-A", 'b"'),), b"\0", 200, None, None)
    lua = script((request,), 1)
    assert 'wrk.format("POST", "/x", {["Host"] = "localhost", ["X-A"] = "b\\034"}, "\\000")' in lua


def test_a_mix_follows_its_weights() -> None:
    """Cumulative shares, drawn from the window's seed."""
    requests = tuple(
        Request(weight, "GET", f"/{weight}", (), b"", 200, None, None) for weight in (3.0, 1.0)
    )
    lua = script(requests, 5)
    assert "{0.75, 1.0}" in lua
    assert "math.randomseed(5)" in lua


def window(folder: Path, program: str, mode: Mode = "open") -> RawWindow:
    """Return one window of a program in place of wrk2."""
    path = folder / "wrk2"
    path.write_text(f"#!/bin/sh\n{program}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    reported: list[RawWindow] = []

    def keep(raw: RawWindow) -> Next:
        reported.append(raw)
        return Next()

    generator = Wrk2Generator(CoreSplit((0,), (0,), (), shared=True), path)
    plan = WindowPlan(WORKLOAD, (Endpoint("one", "127.0.0.1:1"),), (replace(SPEC, mode=mode),))
    generator.run(plan, keep)
    return reported[0]


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("echo 'bad URL' >&2; exit 1", "ended with 1 and no report: bad URL"),
        ("echo done; exit 0", "ended with 0 and no report: done"),
        ("echo 'tuner-report {'", "hook wrote a line that is not JSON"),
    ],
)
def test_a_wrk2_that_says_nothing_is_an_error(tmp_path: Path, program: str, words: str) -> None:
    """With its own words."""
    with pytest.raises(InstrumentError, match=words):
        window(tmp_path, program)


def test_a_rate_that_was_not_reached_is_said(tmp_path: Path) -> None:
    """Unsent requests are those missing beyond one in flight on each connection."""
    (tmp_path / "out").write_text(TEXT + "tuner-report " + json.dumps(REPORT) + "\n")
    raw = window(tmp_path, f"cat {tmp_path}/out")
    assert raw.offered == offered(1_000, 1.0, WORKLOAD.connections, 1)
    assert raw.unsent == raw.offered - 100 - WORKLOAD.connections


def test_saturation_has_service_times_alone(tmp_path: Path) -> None:
    """A closed loop has no unsent requests; its corrected latencies are the service times."""
    (tmp_path / "out").write_text(TEXT + "tuner-report " + json.dumps(REPORT) + "\n")
    raw = window(tmp_path, f"cat {tmp_path}/out", "closed")
    assert raw.unsent == 0
    assert raw.offered == raw.completed == 100
    assert isinstance(raw.samples, Histogram)
    assert raw.samples.corrected.values_ns.max() == 3_717_000


def test_a_workload_that_expects_an_error_is_refused() -> None:
    """wrk2 would count the right answer as a failure."""
    request = Request(1.0, "GET", "/gone", (), b"", 404, None, None)
    generator = Wrk2Generator(CoreSplit((0,), (0,), (), shared=True), Path("/bin/true"))
    assert "over 399" in generator.refuses(replace(WORKLOAD, requests=(request,)), "open")


def test_a_tool_that_is_not_there_is_an_error_that_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is replaced silently."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InstrumentError, match="no wrk2 on the PATH; build it from"):
        Wrk2Generator(CoreSplit((0,), (1,), (), shared=False))
