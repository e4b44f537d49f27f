"""The adapter for tuner-loadgen, with one process per plan and one JSON line per window.

After every window the process waits for tuner's answer, so that none of tuner's own work (reading
samples, the record, the decision to drop a candidate) runs during a window.

``NativeGenerator.run`` measures a plan. A caller that lets several generators begin each window
together uses ``running`` (``tuner.generators.shared``).
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import numpy as np

from tuner.errors import HostError, InstrumentError
from tuner.generators.generator import HOST, Endpoint, Next, WindowPlan, WindowSpec
from tuner.generators.place import GeneratorHost, LocalGeneratorHost
from tuner.generators.share import WHOLE, Share
from tuner.machine.facts import CoreSplit
from tuner.measurement.cycles import Traffic
from tuner.measurement.instrument import NATIVE, Instrument, Mode
from tuner.measurement.latency import Nanoseconds
from tuner.measurement.stalls import StallRule
from tuner.measurement.window import RawWindow, Samples, Turns
from tuner.workload.arrivals import Arrival, Profile, stretch
from tuner.workload.wire import NegotiatedTerms, Wire
from tuner.workload.workload import Workload

_TIMES = {b"TNRS0001": 3, b"TNRS0002": 4}
"""Columns of times by the magic of a samples file; the first lacks the first byte."""
_PRIORITY = -20
_SILENCE_S = 30.0
"""Longest silence in addition to the window's own time, before tuner ends the process."""

Put = Callable[[str, str], str]
"""Function that writes a named text on the generator's host and returns its path."""


class NativeGenerator:
    """A generator that runs ``tuner-loadgen plan`` on the host of ``place``.

    Args:
        binary: path of tuner-loadgen on its host.
        cores: CPUs for the load and for the server; the ticker watches the latter.
        rule: the stall rule; the generator reports gaps from its length on as stalls.
        place: host of the generator; by default this machine.
        share: its part of the load. With several generators, each window waits for its start.
        spins: whether it may keep its CPUs busy while it waits for the next request.
    """

    def __init__(
        self,
        binary: Path,
        cores: CoreSplit,
        rule: StallRule,
        place: GeneratorHost | None = None,
        share: Share = WHOLE,
        *,
        spins: bool = True,
    ) -> None:
        self._binary = binary
        self._spins = spins and not cores.shared
        self._share = share
        self._place = place or LocalGeneratorHost(binary)
        self._cores = cores
        self._rule = rule
        self._name: str | None = None
        self._pids: tuple[int, ...] = ()

    @property
    def pids(self) -> tuple[int, ...]:
        """Implement ``ShowsProcesses.pids``."""
        return self._pids

    @property
    def name(self) -> str:
        """Implement ``LoadGenerator.name``."""
        if self._name is None:
            self._name = self._ask("--version")
        return self._name

    @property
    def instrument(self) -> Instrument:
        """Implement ``LoadGenerator.instrument``."""
        return NATIVE

    def refuses(self, workload: Workload, mode: Mode) -> str:  # noqa: ARG002 - the port's signature
        """Implement ``LoadGenerator.refuses``: it supports all workloads."""
        return ""

    def stalls(self, duration_s: float) -> Mapping[str, Any]:
        """Watch the host's cores for stalls, without any load."""
        watched = set(self._cores.generator)
        if self._place.watches_server:
            watched.update(self._cores.server)
        cpus = ",".join(map(str, sorted(watched)))
        text = self._ask("stalls", "--cpus", cpus, "--duration", str(duration_s), "--json")
        found: Mapping[str, Any] = json.loads(text)
        return found

    def run(self, plan: WindowPlan, after: Callable[[RawWindow], Next]) -> None:
        """Implement ``LoadGenerator.run``."""
        if not plan.windows:
            return
        with self.running(plan) as running:
            while windows := running.windows():
                answers = []
                for window in windows:
                    answers.append(after(window))
                    running.touch()
                running.go_on(answers)

    @contextlib.contextmanager
    def running(self, plan: WindowPlan) -> Iterator[RunningPlan]:
        """Start a plan with at least one window; end the process with the context.

        Raises:
            InstrumentError: the generator is missing.
        """
        longest_s = max(_lasts_s(window) for window in plan.windows)
        patience_s = longest_s + plan.workload.timeout_s + _SILENCE_S
        with self._place.folder() as samples_dir:
            text = json.dumps(self._plan(plan, samples_dir), separators=(",", ":"))
            with self._process(patience_s) as (process, touch):
                _write(process, text)
                yield RunningPlan(process, touch, self._place)

    def _plan(self, plan: WindowPlan, samples_dir: str) -> dict[str, Any]:
        def put(name: str, text: str) -> str:
            return self._place.put(samples_dir, name, text.encode())

        wire = plan.workload.wire
        if wire.tls is not None and wire.tls.ca_file:
            ca_file = self._place.finds(Path(wire.tls.ca_file), samples_dir)
            wire = replace(wire, tls=replace(wire.tls, ca_file=ca_file))
        same_host = self._place.watches_server
        ticker = {"cpus": list(self._cores.server), "period_us": 500, "priority": 50}
        return {
            "version": 1,
            "cpus": list(self._cores.generator),
            "spin": "full" if self._spins else {"last_us": 50},
            "ticker": ticker if same_host and not self._cores.shared else None,
            "gap_us": self._rule.gap_us,
            "samples_dir": samples_dir,
            "requests": _requests(plan.workload),
            "instances": [
                _instance(wire, endpoint if same_host else replace(endpoint, pids=()))
                for endpoint in plan.endpoints
            ],
            "windows": [_asked(plan.workload, spec, put, self._share) for spec in plan.windows],
            **({} if self._share.is_whole else {"wait_to_start": True}),
        }

    @contextlib.contextmanager
    def _process(
        self, patience_s: float
    ) -> Iterator[tuple[subprocess.Popen[str], Callable[[], None]]]:
        """Run the generator with a watchdog, which ``touch`` resets."""
        try:
            process = subprocess.Popen(
                self._place.command("plan", "-", "--control"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                text=True,
            )
        except OSError as error:
            raise InstrumentError(f"{self._binary} cannot be started: {error}") from error
        _prefer(process.pid)
        # For another host the process here is SSH's own.
        self._pids = (process.pid,) if isinstance(self._place, LocalGeneratorHost) else ()
        alive = threading.Event()
        done = threading.Event()

        def watch() -> None:
            while not done.is_set():
                alive.clear()
                if not alive.wait(patience_s) and not done.is_set():
                    process.kill()
                    return

        watchdog = threading.Thread(target=watch, daemon=True)
        watchdog.start()
        try:
            yield process, alive.set
        finally:
            self._pids = ()
            done.set()
            alive.set()
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                _close(stream)

    def _ask(self, *arguments: str) -> str:
        command = self._place.command(*arguments)
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise InstrumentError(f"{self._binary} cannot be started: {error}") from error
        if done.returncode != 0:
            raise InstrumentError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout.strip()


class RunningPlan:
    """A process that measures the windows of a plan, one after another.

    Args:
        process: tuner-loadgen, or SSH's process that carries its streams.
        touch: resets the watchdog.
        place: host of the generator, with its files of samples.
    """

    def __init__(
        self, process: subprocess.Popen[str], touch: Callable[[], None], place: GeneratorHost
    ) -> None:
        self.touch = touch
        self._process = process
        self._place = place
        self._reported = _lines(process)

    def ready(self) -> bool:
        """Wait until the connections of the next window are open; return False after the last.

        Only for a generator with a share of the load.

        Raises:
            InstrumentError: the generator died, or broke its protocol.
        """
        return self._next("ready") is not None

    def start(self, monotonic_ns: int) -> None:
        """Begin the warm-up of the window at an instant of the monotonic clock of its host."""
        _write(self._process, json.dumps({"start_monotonic_ns": monotonic_ns}))

    def windows(self) -> list[RawWindow]:
        """Return the next window, in parts if instances share it; nothing after the last.

        Raises:
            InstrumentError: the generator died, or broke its protocol.
        """
        parts: list[Mapping[str, Any]] = []
        while line := self._next("window"):
            parts.append(line)
            if len(parts) >= _shared_by(line):
                return _windows(parts, self._place)
        return []

    def go_on(self, answers: Sequence[Next]) -> None:
        """Pass the decisions after a window on to the generator."""
        _write(self._process, _control(answers))

    def _next(self, wanted: str) -> Mapping[str, Any] | None:
        """Return the next line of a type; None at the end of the plan."""
        for line in self._reported:
            self.touch()
            if line["type"] == "end":
                return None
            if line["type"] == wanted:
                return line
        raise InstrumentError(f"tuner-loadgen ended too early: {_last_words(self._process)}")


def _prefer(pid: int) -> None:
    """Raise the generator's priority if that is allowed (sched(7)).

    With autogroups niceness applies only within a session, so the session's is set as well.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, _PRIORITY)
        Path(f"/proc/{pid}/autogroup").write_text(str(_PRIORITY))


def _instance(wire: Wire, endpoint: Endpoint) -> dict[str, Any]:
    """Return one instance as fields of the plan, without unused ones."""
    fields: dict[str, Any] = {
        "id": endpoint.instance,
        "address": endpoint.address,
        "host": endpoint.host or (HOST if wire.tls is None else wire.tls.server_name),
        "pids": list(endpoint.pids),
    }
    if wire.protocol != "http1":
        fields["protocol"] = wire.protocol
    if wire.tls is not None:
        fields["tls"] = {
            "server_name": urlsplit(f"//{endpoint.host}").hostname or wire.tls.server_name,
            "ca_file": wire.tls.ca_file or None,
            "verify": wire.tls.verify,
            "resume": wire.tls.resume,
        }
    return fields


def _asked(workload: Workload, spec: WindowSpec, put: Put, share: Share) -> dict[str, Any]:
    """Return one window as fields of the plan, with one generator's share of the load."""
    fields = {
        "id": spec.window_id,
        **_measured(spec),
        "mode": spec.mode,
        **_schedule(workload.arrival, spec, put, share),
        "seed": share.seed(spec.seed),
        "connections": share.connections(workload.connections),
        "warmup_s": spec.warmup_s * len(spec.instances),
        "duration_s": spec.duration_s * len(spec.instances),
        "timeout_s": workload.timeout_s,
    }
    if workload.wire.streams > 1:
        fields["streams"] = workload.wire.streams
    if workload.wire.requests_per_connection:
        fields["requests_per_connection"] = workload.wire.requests_per_connection
    return fields


def _measured(spec: WindowSpec) -> dict[str, Any]:
    """Return the instances of a window as fields of the plan."""
    if spec.slices is None:
        return {"instance": spec.instance}
    slices = {
        "instances": list(spec.slices.instances),
        "length_ms": spec.slices.length_ms,
        "freeze": spec.slices.freeze,
        "same_arrivals": spec.slices.same_arrivals,
    }
    return {"slices": slices}


def _lasts_s(spec: WindowSpec) -> float:
    """Return the time of a window with its warm-up."""
    return len(spec.instances) * (spec.warmup_s + spec.duration_s)


def _schedule(arrival: Arrival, spec: WindowSpec, put: Put, share: Share) -> dict[str, Any]:
    """Return the arrival schedule of a window as fields of the plan."""
    if isinstance(arrival, str) or spec.mode == "closed":
        process = arrival if isinstance(arrival, str) else "poisson"
        phase = {} if share.is_whole or process != "constant" else {"phase": share.phase}
        return {"rate_per_s": share.rate(spec.rate_per_s), "arrival": process, **phase}
    if isinstance(arrival, Profile):
        pieces = arrival.pieces(share.rate(spec.rate_per_s), spec.duration_s)
        return {
            "rates": [
                {"for_s": seconds, "rate_per_s": start, "to_rate_per_s": end}
                for seconds, start, end in pieces
            ]
        }
    instants = stretch(
        arrival, rate_per_s=spec.rate_per_s, duration_s=spec.duration_s, seed=spec.seed
    )
    if not len(instants):
        raise InstrumentError(
            f"the recording {arrival.path} has a pause longer than a window of"
            f" {spec.duration_s:g} s at {spec.rate_per_s:,.0f}/s; raise --rate or --time"
        )
    text = "".join(f"{instant:.9f}\n" for instant in share.instants(instants))
    return {"instants_file": put(f"{spec.window_id}.instants", text)}


def _requests(workload: Workload) -> list[dict[str, Any]]:
    return [
        {
            "weight": request.weight,
            "method": request.method,
            "path": request.path,
            "headers": [list(header) for header in request.headers],
            "body_base64": base64.b64encode(request.body).decode() if request.body else None,
            "expect": {
                "status": request.expect_status,
                "length": request.expect_length,
                "sha256": request.expect_sha256,
                **({"check": request.checked} if request.checked != "sample" else {}),
            },
        }
        for request in workload.requests
    ]


def _write(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None  # noqa: S101 - Popen was given a pipe
    try:
        process.stdin.write(text + "\n")
        process.stdin.flush()
    except OSError as error:
        raise InstrumentError(
            f"the connection to tuner-loadgen was lost: {_last_words(process)}"
        ) from error


def _lines(process: subprocess.Popen[str]) -> Iterator[Mapping[str, Any]]:
    assert process.stdout is not None  # noqa: S101 - Popen was given a pipe
    for line in process.stdout:
        try:
            yield json.loads(line)
        except json.JSONDecodeError as error:
            raise InstrumentError(
                f"tuner-loadgen wrote a line that is not JSON: {line[:200]!r}"
            ) from error


def _last_words(process: subprocess.Popen[str]) -> str:
    process.kill()
    assert process.stderr is not None  # noqa: S101 - Popen was given a pipe
    words = process.stderr.read().strip()
    return words or f"exit code {process.wait()}, no message (killed after a silence?)"


def _close(stream: IO[str] | None) -> None:
    if stream is not None:
        try:
            stream.close()
        except OSError:
            # The other end is gone, so nothing can be lost.
            return


def _control(answers: Sequence[Next]) -> str:
    if any(answer.stop for answer in answers):
        return '{"next":"stop"}'
    words: dict[str, Any] = {"next": "go"}
    drop = [label for answer in answers for label in answer.drop]
    if drop:
        words["drop"] = drop
    return json.dumps(words)


def _shared_by(line: Mapping[str, Any]) -> int:
    """Return the number of lines that a window has: one for each instance that shares it."""
    slices = line.get("slices")
    return slices["instances"] if slices else 1


def _windows(lines: Sequence[Mapping[str, Any]], place: GeneratorHost) -> list[RawWindow]:
    """Parse the lines of one window; read and remove their samples."""
    windows = [_window(line, place) for line in lines]
    if windows[0].turns is None:
        return windows
    arms = [
        (w.samples.intended_ns, w.samples.completed_ns)
        for w in windows
        if isinstance(w.samples, Samples)
    ]
    # An earlier generator gives no arm up.
    behind = [line["slices"].get("behind") for line in lines]
    spans = [tuple(span) if span else None for span in behind]
    traffic = Traffic.of(arms, windows[0].turns.borders_ns, spans)
    return [replace(window, traffic=traffic) for window in windows]


def _window(line: Mapping[str, Any], place: GeneratorHost) -> RawWindow:
    """Parse one line of the generator's output; read and remove its samples."""
    stalls = line["stalls"]
    slices = line.get("slices")
    if line["samples"] is None:
        # The generator continues without them and reports why.
        words = "; ".join(line["warnings"]) or "no reason given"
        raise InstrumentError(f"the generator could not write its samples: {words}")
    try:
        samples = parse_samples(place.taken(line["samples"]), line["samples"])
    except (OSError, HostError) as error:
        raise InstrumentError(f"the generator's samples cannot be read: {error}") from error
    return RawWindow(
        window_id=f"{line['id']}-{line['instance']}" if slices else line["id"],
        instance=line["instance"],
        mode=line["mode"],
        # A profile and a recording have no single rate, so this is their mean.
        rate_per_s=line["rate_per_s"] or _mean_rate_per_s(line),
        connections=line["connections"],
        duration_s=line["duration_s"],
        started_unix_s=line["started_unix_ns"] / 1e9,
        started_monotonic_ns=line.get("started_monotonic_ns"),
        offered=line["offered"],
        completed=line["completed"],
        errors=line["errors"],
        timeouts=line["timeouts"],
        unsent=line["unsent"],
        in_flight=line["in_flight"],
        reconnects=line["reconnects"],
        bytes_in=line["bytes_in"],
        generator_spans=tuple((start, end) for start, end in stalls["generator"]),
        server_spans=tuple((start, end) for _, start, end in stalls["server"]),
        realtime=stalls["realtime"],
        steal_s=sum(line["steal_s"].values()),
        generator_cpu_s=line["generator_cpu_s"],
        generator_busy_share=line["generator_busy_share"],
        server_cpu_s=line["server_cpu_s"],
        server_rss_bytes=line["server_rss_bytes"],
        protocol=line["protocol"],
        samples=samples,
        agreed=_agreed(line),
        slice_ms=slices["length_ms"] if slices else 0.0,
        turn_cpu_s=slices["turn_cpu_s"] if slices else None,
        frozen=bool(slices and slices["frozen"]),
        turns=_turns(slices) if slices else None,
    )


def _turns(slices: Mapping[str, Any]) -> Turns:
    slice_ns = round(slices["length_ms"] * 1e6)
    lead_ns = round(slices["lead_us"] * 1e3) if slices["frozen"] else 0
    return Turns(slice_ns, tuple(slices["order"]), slices["place"], lead_ns)


def _mean_rate_per_s(line: Mapping[str, Any]) -> float:
    if line["mode"] == "closed" or not line["duration_s"]:
        return 0.0
    return float(line["offered"] / line["duration_s"])


def _agreed(line: Mapping[str, Any]) -> NegotiatedTerms:
    """Return TLS terms and handshakes, as far as this version of the generator reports them."""
    tls = line.get("tls") or {}
    opened = line.get("handshakes") or {}
    during, before = opened.get("during", {}), opened.get("before", {})
    shown = during if during.get("count") else before
    blocked = line.get("blocked") or {}
    return NegotiatedTerms(
        tls_version=" + ".join(sorted(tls.get("version", {}))),
        cipher=" + ".join(sorted(tls.get("cipher", {}))),
        group=" + ".join(sorted(tls.get("group", {}))),
        full=tls.get("full", 0),
        resumed=tls.get("resumed", 0),
        handshakes=during.get("count", 0),
        handshake_p50_us=shown.get("p50_us") or 0.0,
        handshake_p99_us=shown.get("p99_us") or 0.0,
        blocked=blocked.get("count", 0),
        blocked_p99_us=blocked.get("p99_us") or 0.0,
    )


def read_samples(path: Path) -> Samples:
    """Read a samples file: magic, count, then columns (see docs/instrument.md).

    Raises:
        InstrumentError: the file is missing, cut short, or of another format.
    """
    try:
        body = path.read_bytes()
    except OSError as error:
        raise InstrumentError(f"the generator's samples cannot be read: {error}") from error
    return parse_samples(body, str(path))


def parse_samples(body: bytes, path: str) -> Samples:
    """Parse the bytes of a samples file into columns.

    Raises:
        InstrumentError: it is cut short, or of another format.
    """
    count = int.from_bytes(body[8:16], "little")
    columns = _TIMES.get(body[:8], 0)
    if not columns or len(body) != 16 + (8 * columns + 1) * count:
        raise InstrumentError(f"{path}: not a complete samples file ({len(body)} bytes)")
    times = np.frombuffer(body, "<i8", columns * count, 16).reshape(columns, count)
    outcome = np.frombuffer(body, np.uint8, count, 16 + 8 * columns * count)
    intended_ns, written_ns, *first_ns, completed_ns = times
    first = _first_ns(first_ns[0], completed_ns) if first_ns else None
    return Samples(intended_ns, written_ns, completed_ns, outcome, first)


def _first_ns(reported_ns: Nanoseconds, completed_ns: Nanoseconds) -> Nanoseconds:
    """Return the instants of the first bytes; without one (-1), of the end, as in the generator."""
    return np.where(reported_ns < 0, completed_ns, np.minimum(reported_ns, completed_ns))
