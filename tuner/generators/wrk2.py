"""The adapter for the real wrk2 (https://github.com/giltene/wrk2), if installed.

wrk2 corrects for coordinated omission, but its clock ticks in milliseconds: `epoll_wait` sleeps for
whole milliseconds, and its oversleep counts as the server's time. At 5,000 requests/s to an idle
server its p50 is many times the true one. Its figures therefore have a label, and no verdict rests
on a difference below its tick.

A Lua hook writes wrk2's counts as JSON. tuner also reads the printed spectrum, and both must agree.
"""

from __future__ import annotations

import bisect
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tuner.errors import InstrumentError
from tuner.generators import program
from tuner.generators.generator import Endpoint, Next, WindowPlan, WindowSpec
from tuner.generators.lua import REPORT, script
from tuner.generators.turns import in_turn
from tuner.machine.facts import CoreSplit
from tuner.measurement.instrument import Instrument, Mode
from tuner.measurement.latency import HistogramCounts
from tuner.measurement.window import Histogram, RawWindow
from tuner.paths import temporary
from tuner.workload.wire import Wire
from tuner.workload.workload import Workload

WRK2 = Instrument(
    load="wrk2",
    tells_stalls=False,
    checks="statuses over 399 only",
    label="±1 ms, includes the tool's own oversleep",
    resolution_us=1_000.0,
)

_HINT = "build it from https://github.com/giltene/wrk2 and call it wrk2, or use --load native"
_CALIBRATION_S = 10.0
"""Time until wrk2 empties its histograms, plus 5 ms per connection."""
_CONNECT_DELAY_S = 0.005
"""Delay between its connections (wrk.c, delayed_initial_connect)."""
_SATURATING_PER_S = 1_000_000_000
"""Offered rate for a closed loop, which wrk2 lacks: each connection sends without pause."""
_STARTUP_S = 30.0
_CORRECTED, _UNCORRECTED = "Recorded Latency", "Uncorrected Latency"
_HEADING = re.compile(r"Latency Distribution \(HdrHistogram - (Recorded|Uncorrected) Latency")
_ROW = re.compile(r"\s*(\S+)\s+([01]\.\d+)\s+(\d+)\s+\S+\s*")
_NUMBER = re.compile(r"\d+(\.\d+)?")
_ERROR_KINDS = {"connect": "connect_failed", "read": "reset", "write": "write"}


class Wrk2Generator:
    """A generator that runs wrk2 on this machine, once per window.

    Args:
        cores: CPUs for the load.
        binary: path of wrk2; by default from the PATH.

    Raises:
        InstrumentError: wrk2 is missing.
    """

    def __init__(self, cores: CoreSplit, binary: Path | None = None) -> None:
        self._cpus = cores.generator
        self._binary = binary or program.find("wrk2", _HINT)

    @property
    def name(self) -> str:
        """Implement ``LoadGenerator.name``, without wrk2's version, which is wrk's."""
        return f"wrk2 ({self._binary})"

    @property
    def instrument(self) -> Instrument:
        """Implement ``LoadGenerator.instrument``."""
        return WRK2

    def refuses(self, workload: Workload, mode: Mode) -> str:  # noqa: ARG002 - the port's signature
        """Implement ``LoadGenerator.refuses``."""
        if workload.wire != Wire():
            return f"supports only cleartext HTTP/1.1, and the workload needs {workload.wire.words}"
        if not isinstance(workload.arrival, str):
            return (
                f"offers only one rate with even arrivals, and the workload has {workload.arrival}"
            )
        if any((request.expect_status or 200) > 399 for request in workload.requests):
            return "counts every status over 399 as an error, and this workload expects one"
        return ""

    def run(self, plan: WindowPlan, after: Callable[[RawWindow], Next]) -> None:
        """Implement ``LoadGenerator.run``."""
        with temporary("wrk2") as folder:
            path = Path(folder)
            in_turn(plan, lambda at, spec: self._window(plan.workload, at, spec, path), after)

    def _window(
        self, workload: Workload, endpoint: Endpoint, spec: WindowSpec, folder: Path
    ) -> RawWindow:
        hook = folder / "window.lua"
        hook.write_text(script(workload.requests, spec.seed), encoding="utf-8")
        threads = _threads(workload.connections, len(self._cpus))
        lasts_s = lasting_s(spec, workload.connections)
        rate = spec.rate_per_s if spec.mode == "open" else _SATURATING_PER_S
        command = [
            *(str(self._binary), f"-t{threads}", f"-c{workload.connections}", f"-d{lasts_s}s"),
            *(f"-R{rate:.0f}", "--timeout", f"{math.ceil(workload.timeout_s)}s"),
            *("--latency", "-U", "-s", str(hook), f"http://{endpoint.address}/"),
        ]
        ended = program.run(
            command,
            cpus=self._cpus,
            pids=endpoint.pids,
            patience_s=lasts_s + workload.timeout_s + _STARTUP_S,
            folder=folder,
        )
        output = _output_of(ended, lasts_s)
        return _raw(output, ended, workload, spec, threads)


def lasting_s(spec: WindowSpec, connections: int) -> int:
    """Return wrk2's duration for a window, in whole seconds.

    wrk2 empties its histograms once, after ten seconds plus 5 ms per connection. So a run either
    ends before that or is longer by that time.
    """
    whole_s = max(1, math.ceil(spec.warmup_s + spec.duration_s))
    if whole_s < _CALIBRATION_S:
        return whole_s
    return math.ceil(_CALIBRATION_S + _CONNECT_DELAY_S * connections + spec.duration_s)


def offered(rate_per_s: float, lasted_s: float, connections: int, threads: int) -> int:
    """Return the requests that wrk2 meant to send; its connections begin 5 ms apart.

    Each thread opens its own share of the connections, so on average one begins half a share
    late.
    """
    late_s = _CONNECT_DELAY_S * (connections / threads - 1) / 2
    return max(0, round(rate_per_s * (lasted_s - late_s)))


@dataclass(frozen=True, slots=True)
class PercentileSpectrum:
    """One percentile spectrum of wrk2's text, or of the hook: latencies by rank."""

    ranks: tuple[int, ...]
    """Cumulative counts of requests for each latency, ascending."""
    values_us: tuple[float, ...]

    def counts(self) -> HistogramCounts:
        """Return a histogram; requests between two ranks count with the higher value."""
        if not self.ranks:
            return HistogramCounts.empty()
        ranks = np.asarray(self.ranks, np.int64)
        between = ranks - np.concatenate(([0], ranks[:-1]))
        values = np.round(np.asarray(self.values_us) * 1e3).astype(np.int64)
        return HistogramCounts(values[between > 0], between[between > 0])

    def around_us(self, share: float) -> tuple[float, float]:
        """Return bounds of the latency at a quantile; NaN if empty.

        Between two rows the spectrum only bounds the latency.
        """
        if not self.ranks:
            return math.nan, math.nan
        place = bisect.bisect_left(self.ranks, math.ceil(share * self.ranks[-1]))
        exact = self.ranks[place] == math.ceil(share * self.ranks[-1])
        return self.values_us[place if exact else max(0, place - 1)], self.values_us[place]


def read_spectra(text: str) -> dict[str, PercentileSpectrum]:
    """Return the detailed spectra of wrk2's text, by heading.

    Rows are always in ms, independent of the summary's unit. The headings locate them, because
    other lines appear without a calibration and with ``-U``. Rows without a number (``-nan`` of
    an empty histogram) are skipped.
    """
    found: dict[str, tuple[list[int], list[float]]] = {}
    rows: tuple[list[int], list[float]] | None = None
    for line in text.splitlines():
        heading = _HEADING.search(line)
        if heading:
            rows = found.setdefault(f"{heading[1]} Latency", ([], []))
            continue
        row = _ROW.fullmatch(line)
        if rows is None or row is None or not _NUMBER.fullmatch(row[1]):
            continue
        rows[0].append(int(row[3]))
        rows[1].append(float(row[1]) * 1e3)
    return {name: PercentileSpectrum(tuple(r), tuple(v)) for name, (r, v) in found.items()}


@dataclass(frozen=True, slots=True)
class _Wrk2Output:
    """The output of one run of wrk2, from its hook and its text."""

    duration_s: float
    requests: int
    bytes_in: int
    errors: Mapping[str, int]
    timeouts: int
    corrected: PercentileSpectrum
    service: PercentileSpectrum


def _output_of(ended: program.CompletedProgram, lasts_s: int) -> _Wrk2Output:
    if "unable to connect" in ended.out + ended.err:
        # wrk2 makes one attempt before it begins, and ends at once.
        nothing = PercentileSpectrum((), ())
        return _Wrk2Output(float(lasts_s), 0, 0, {"connect_refused": 1}, 0, nothing, nothing)
    line = next((row for row in ended.out.splitlines() if row.startswith(REPORT)), None)
    if ended.code != 0 or line is None:
        raise InstrumentError(f"wrk2 ended with {ended.code} and no report: {ended.words}")
    try:
        report = json.loads(line.removeprefix(REPORT))
    except json.JSONDecodeError as error:
        raise InstrumentError(
            f"wrk2's hook wrote a line that is not JSON: {line[:200]!r}"
        ) from error
    return read_report(report, read_spectra(ended.out))


def read_report(
    report: Mapping[str, Any], spectra: Mapping[str, PercentileSpectrum]
) -> _Wrk2Output:
    """Parse the hook's report, and check it against the text.

    Raises:
        InstrumentError: the two disagree.
    """
    ranks = tuple((int(rank), float(value)) for rank, value in report["ranks"])
    corrected = PercentileSpectrum(tuple(r for r, _ in ranks), tuple(v for _, v in ranks))
    text = spectra.get(_CORRECTED, PercentileSpectrum((), ()))
    for share in (0.5, 0.9, 0.99) if ranks else ():
        _, ours = corrected.around_us(share)
        low, high = text.around_us(share)
        # The histogram has three digits, and the text three decimals of a millisecond.
        if not 0.998 * low - 1 <= ours <= 1.002 * high + 1:
            raise InstrumentError(
                f"wrk2's JSON has {ours:.0f} µs for the quantile {share}, and its text {low:.0f}"
                f" to {high:.0f} µs; they disagree, so neither is used"
            )
    kinds = report["errors"]
    errors = {kind: int(kinds[key]) for key, kind in _ERROR_KINDS.items() if kinds[key]}
    if kinds["status"]:
        errors["status_over_399"] = int(kinds["status"])
    # wrk2 mixes the latencies of failed requests with the others, without a distinction.
    mixed = bool(kinds["status"])
    nothing = PercentileSpectrum((), ())
    return _Wrk2Output(
        duration_s=report["duration_us"] / 1e6,
        requests=int(report["requests"]),
        bytes_in=int(report["bytes"]),
        errors=errors,
        timeouts=int(kinds["timeout"]),
        corrected=nothing if mixed else corrected,
        service=nothing if mixed else spectra.get(_UNCORRECTED, nothing),
    )


def _raw(
    output: _Wrk2Output,
    ended: program.CompletedProgram,
    workload: Workload,
    spec: WindowSpec,
    threads: int,
) -> RawWindow:
    failed = sum(output.errors.values())
    completed = max(0, output.requests - output.errors.get("status_over_399", 0))
    closed = spec.mode == "closed"
    meant = (
        output.requests + failed
        if closed
        else offered(spec.rate_per_s, output.duration_s, workload.connections, threads)
    )
    # Requests in flight at the end are not reported: one per connection is not a lost rate.
    missing = max(0, meant - output.requests - workload.connections - failed)
    service = output.service.counts()
    # Without a listening server wrk2 ends at once, and is idle for the rest of the window.
    lasted_s = max(ended.elapsed_s, output.duration_s)
    return RawWindow(
        window_id=spec.window_id,
        instance=spec.instance,
        mode=spec.mode,
        rate_per_s=0.0 if closed else spec.rate_per_s,
        connections=workload.connections,
        duration_s=output.duration_s,
        started_unix_s=ended.started_unix_s,
        offered=max(meant, completed),
        completed=completed,
        errors=output.errors,
        timeouts=output.timeouts,
        unsent=0 if closed else missing,
        in_flight=0,
        reconnects=0,
        bytes_in=output.bytes_in,
        generator_spans=(),
        server_spans=(),
        realtime=False,
        steal_s=ended.steal_s,
        generator_cpu_s=ended.cpu_s,
        generator_busy_share=min(1.0, ended.cpu_s / lasted_s / threads),
        server_cpu_s=ended.server_cpu_s,
        server_rss_bytes=ended.server_rss_bytes,
        protocol="http/1.1",
        samples=Histogram(service if closed else output.corrected.counts(), service),
    )


def _threads(connections: int, cpus: int) -> int:
    """Return the number of threads: at most the CPUs, and a divisor of the connections."""
    return next(n for n in range(min(cpus, connections), 0, -1) if connections % n == 0)
