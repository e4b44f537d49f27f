"""The adapter for h2load (https://nghttp2.org/documentation/h2load.1.html), if installed.

It is for saturation and for a second opinion on a protocol. tuner refuses its open loop: ``--rps``
sends in bursts of ten milliseconds and more and times from the submit, so its figures omit the
earlier wait of a request.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tuner.errors import InstrumentError
from tuner.generators import program
from tuner.generators.generator import HOST, Endpoint, Next, WindowPlan, WindowSpec
from tuner.generators.turns import in_turn
from tuner.machine.facts import CoreSplit
from tuner.measurement.instrument import Instrument, Mode
from tuner.measurement.window import RawWindow, Samples
from tuner.paths import temporary
from tuner.workload.wire import NegotiatedTerms, Wire
from tuner.workload.workload import Request, Workload

H2LOAD = Instrument(
    load="h2load",
    modes=("closed",),
    tells_stalls=False,
    checks="statuses only",
    label="closed loop, from the submit, in whole µs",
    resolution_us=1.0,
)

_HINT = "install nghttp2 (Debian, Ubuntu: apt-get install nghttp2-client), or use --load native"
_OPEN_LOOP = (
    "is used for saturation only: it paces an open loop in bursts of 10 ms or more and times from"
    " the submit, so its latencies omit the wait before it; use --load native,"
    " or --objective throughput"
)
_PATIENCE_S = 10.0
_ATTEMPTS = 3
_LOG = "log"
_STANDSTILL = 0.1
"""Share of a window without answers at its end from which connections count as closed."""
_MOST_LINES = 10_000
_ANSWERED, _FAILED = 0, 4
_NUMBERS = re.compile(r"(\d+) (errored|timeout)")
_TRAFFIC = re.compile(r"traffic: \S+ \((\d+)\) total")
_PROTOCOL = re.compile(r"Application protocol: (\S+)")
_AGREED = re.compile(r"^(TLS Protocol|Cipher|Server Temp Key): (.+)$", re.MULTILINE)
_PROTOCOLS = {"h2c": "h2", "h3": "http/3"}


class H2loadGenerator:
    """A generator that runs h2load on this machine, once per window.

    Args:
        cores: CPUs for the load.
        binary: path of h2load; by default from the PATH.

    Raises:
        InstrumentError: h2load is missing.
    """

    def __init__(self, cores: CoreSplit, binary: Path | None = None) -> None:
        self._cpus = cores.generator
        self._binary = binary or program.find("h2load", _HINT)
        self._name: str | None = None

    @property
    def name(self) -> str:
        """Implement ``LoadGenerator.name``."""
        if self._name is None:
            ended = program.run(
                [str(self._binary), "--version"],
                cpus=self._cpus,
                pids=(),
                patience_s=_PATIENCE_S,
                folder=Path("/"),
            )
            self._name = ended.out.strip() or "h2load"
        return self._name

    @property
    def instrument(self) -> Instrument:
        """Implement ``LoadGenerator.instrument``."""
        return H2LOAD

    def refuses(self, workload: Workload, mode: Mode) -> str:
        """Implement ``LoadGenerator.refuses``."""
        if mode not in H2LOAD.modes:
            return _OPEN_LOOP
        wire = workload.wire
        if wire.protocol == "http3" or wire.requests_per_connection:
            return f"does not support the workload's protocol: {wire.words}"
        first, *others = workload.requests or (None,)
        if any(_shape(other) != _shape(first) for other in others):
            return "sends all requests with one method, one set of headers and one body"
        if first is not None and first.method not in {"GET", "POST"}:
            return f"sends GET and POST, not {first.method}"
        if first is not None and (first.method == "POST") != bool(first.body):
            return "sends POST with a body and GET without one"
        if _copies(workload.requests) > _MOST_LINES:
            return "needs a list of all requests in a mix, and these weights make the list too long"
        if any(
            r.expect_status is None or not 200 <= r.expect_status < 400 for r in workload.requests
        ):
            return "counts every status except 2xx and 3xx as an error"
        return ""

    def run(self, plan: WindowPlan, after: Callable[[RawWindow], Next]) -> None:
        """Implement ``LoadGenerator.run``.

        Raises:
            InstrumentError: also for a window that it refuses.
        """
        for mode in {spec.mode for spec in plan.windows}:
            refusal = self.refuses(plan.workload, mode)
            if refusal:
                raise InstrumentError(f"h2load {refusal}")
        with temporary("h2load") as folder:
            path = Path(folder)
            in_turn(plan, lambda at, spec: self._window(plan.workload, at, spec, path), after)

    def _window(
        self, workload: Workload, endpoint: Endpoint, spec: WindowSpec, folder: Path
    ) -> RawWindow:
        log, uris = folder / _LOG, folder / "uris"
        log.unlink(missing_ok=True)
        uris.write_text("\n".join(_uris(workload, spec.seed)) + "\n", encoding="ascii")
        threads = min(len(self._cpus), workload.connections)
        command = [
            *(str(self._binary), f"-c{workload.connections}", f"-t{threads}"),
            *("-D", f"{math.ceil(spec.duration_s * 1e3)}ms"),
            *("--warm-up-time", f"{math.ceil(spec.warmup_s * 1e3)}ms"),
            *("--connect-to", endpoint.address, f"--log-file={log}", "-i", str(uris)),
            *_protocol(workload.wire),
            *_request(workload.requests, folder),
        ]
        ended = self._ended(command, endpoint, spec.warmup_s + spec.duration_s, folder)
        if ended.code != 0 or "requests:" not in ended.out:
            raise InstrumentError(f"h2load ended with {ended.code}: {ended.words}")
        return _raw(_read_log(log), ended, workload, spec, threads)

    def _ended(
        self, command: list[str], endpoint: Endpoint, lasts_s: float, folder: Path
    ) -> program.CompletedProgram:
        """Run h2load; repeat a run that hangs, as h2load 1.52 does once in hundreds of runs."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return program.run(
                    command,
                    cpus=self._cpus,
                    pids=endpoint.pids,
                    patience_s=lasts_s + _PATIENCE_S,
                    folder=folder,
                )
            except program.HungProgramError:
                (folder / _LOG).unlink(missing_ok=True)
                if attempt == _ATTEMPTS:
                    raise
        raise AssertionError("unreachable")


@dataclass(frozen=True, slots=True)
class Log:
    """h2load's log of single requests: columns of equal length, in the order of their start."""

    started_us: NDArray[np.int64]
    """Start times since the epoch, µs."""
    status: NDArray[np.int64]
    """Statuses; -1 for a failed stream."""
    took_us: NDArray[np.int64]


def read_log(text: str) -> Log:
    """Read the file of ``--log-file``; further columns may follow the three.

    Raises:
        InstrumentError: a row has another form.
    """
    try:
        rows = [tuple(map(int, line.split("\t")[:3])) for line in text.splitlines() if line]
        table = np.array(rows, np.int64).reshape(len(rows), 3)
    except ValueError as error:
        raise InstrumentError(f"h2load's log has an invalid row: {error}") from error
    table = table[np.argsort(table[:, 0], kind="stable")]
    return Log(table[:, 0], table[:, 1], table[:, 2])


def _read_log(path: Path) -> Log:
    try:
        return read_log(path.read_text(encoding="ascii", errors="replace"))
    except OSError as error:
        raise InstrumentError(f"h2load wrote no log: {error}") from error


def _raw(
    log: Log, ended: program.CompletedProgram, workload: Workload, spec: WindowSpec, threads: int
) -> RawWindow:
    count = len(log.started_us)
    begun_us = int(log.started_us[0]) if count else round(ended.started_unix_s * 1e6)
    started_ns = (log.started_us - begun_us) * 1_000
    completed_ns = started_ns + log.took_us * 1_000
    wrong = (log.status < 200) | (log.status > 399)
    samples = Samples(
        started_ns, started_ns, completed_ns, np.where(wrong, _FAILED, _ANSWERED).astype(np.uint8)
    )
    kinds, counts = np.unique(log.status[wrong], return_counts=True)
    errors = {
        "reset" if kind < 0 else f"status_{kind}": int(times)
        for kind, times in zip(kinds.tolist(), counts.tolist(), strict=True)
    }
    summary = {what: int(number) for number, what in _NUMBERS.findall(ended.out)}
    if not count:
        # It does not report failed connections, and exits with 0.
        errors["connect_failed"] = workload.connections
    traffic = _TRAFFIC.search(ended.out)
    found = _PROTOCOL.search(ended.out)
    share = spec.duration_s / ended.elapsed_s
    lasted_s = spec.duration_s
    protocol = _PROTOCOLS.get(found[1], found[1]) if found else ""
    return RawWindow(
        window_id=spec.window_id,
        instance=spec.instance,
        mode=spec.mode,
        rate_per_s=0.0,
        connections=workload.connections,
        duration_s=lasted_s,
        started_unix_s=begun_us / 1e6,
        offered=count,
        completed=int((~wrong).sum()),
        errors=errors,
        timeouts=summary.get("timeout", 0),
        unsent=0,
        in_flight=0,
        reconnects=0,
        bytes_in=int(traffic[1]) if traffic else 0,
        generator_spans=(),
        server_spans=(),
        realtime=False,
        steal_s=ended.steal_s,
        # These cover warm-up and window, which have the same load.
        generator_cpu_s=ended.cpu_s * share,
        generator_busy_share=min(1.0, ended.cpu_s / ended.elapsed_s / threads),
        server_cpu_s=None if ended.server_cpu_s is None else ended.server_cpu_s * share,
        server_rss_bytes=ended.server_rss_bytes,
        protocol=protocol,
        samples=samples,
        agreed=_agreed(ended.out),
        # Over HTTP/1.1 it reopens connections, and a pause is the host's.
        faults=_standstill(completed_ns, lasted_s) if protocol == "h2" else (),
    )


def _agreed(text: str) -> NegotiatedTerms:
    """Return protocol and cipher of the first connection, from h2load's output."""
    terms = dict(_AGREED.findall(text))
    return NegotiatedTerms(
        tls_version=terms.get("TLS Protocol", ""),
        cipher=terms.get("Cipher", ""),
        group=terms.get("Server Temp Key", "").split(" ")[0],
    )


def _standstill(completed_ns: NDArray[np.int64], lasted_s: float) -> tuple[str, ...]:
    """Return a fault if h2load stopped early: over HTTP/2 it does not reopen connections."""
    if not len(completed_ns):
        return ()
    still_s = lasted_s - int(completed_ns.max()) / 1e9
    if still_s <= _STANDSTILL * lasted_s:
        return ()
    return (
        (
            f"h2load stood still for the last {still_s:.2f} s: it does not reopen connections that"
            " the server closed (keepalive_requests?); let connections live longer, or use --load"
            " native"
        ),
    )


def _shape(request: Request | None) -> object:
    return request and (request.method, request.headers, request.body)


def _copies(requests: tuple[Request, ...]) -> int:
    return sum(_times(requests))


def _times(requests: tuple[Request, ...]) -> list[int]:
    """Return the repetitions of each request: weights as whole numbers, to about 1 %."""
    if len(requests) < 2:
        return [1] * len(requests)
    least = min(request.weight for request in requests)
    exact = [request.weight / least for request in requests]
    factor = 1 if all(abs(x - round(x)) < 0.01 * x for x in exact) else 10
    return [max(1, round(factor * x)) for x in exact]


def _uris(workload: Workload, seed: int) -> list[str]:
    """Return the mix as a list for every connection, in a random order from the seed."""
    requests = workload.requests
    paths = [
        request.path
        for request, times in zip(requests, _times(requests), strict=True)
        for _ in range(times)
    ] or ["/"]
    order = np.random.default_rng(seed).permutation(len(paths))
    tls = workload.wire.tls
    origin = f"https://{tls.server_name}" if tls else f"http://{HOST}"
    return [f"{origin}{paths[place]}" for place in order]


def _protocol(wire: Wire) -> list[str]:
    """Return the options for the protocol; h2load does not verify certificates."""
    if wire.protocol == "http1":
        return ["--h1"]
    return [f"-m{wire.streams}", "--npn-list=h2"]


def _request(requests: tuple[Request, ...], folder: Path) -> list[str]:
    if not requests:
        return []
    words = [f"-H{name}: {value}" for name, value in requests[0].headers]
    if requests[0].body:
        (folder / "body").write_bytes(requests[0].body)
        words += ["-d", str(folder / "body")]
    return words
