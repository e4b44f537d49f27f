"""The contract of load generators: the simulated one, and real ones with a real Nginx."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.generators.wrk2s import wrk2
from tests.hosts.nginxes import NGINX, ask, needs_nginx
from tests.phases.rig import STOCK, WORKLOAD
from tuner.errors import InstrumentError
from tuner.generators import native
from tuner.generators.generator import (
    Endpoint,
    LoadGenerator,
    Next,
    Slices,
    WatchesStalls,
    WindowPlan,
    WindowSpec,
)
from tuner.generators.h2load import H2loadGenerator
from tuner.generators.native import NativeGenerator
from tuner.generators.place import GeneratorHost
from tuner.generators.share import Share
from tuner.generators.shared import Member, SharedGenerator
from tuner.generators.wrk2 import Wrk2Generator
from tuner.hosts import local
from tuner.judge.scoring import copy_of, window_id
from tuner.machine.facts import CoreSplit
from tuner.machine.placement import split_cores
from tuner.measurement.clocks import ClockReading
from tuner.measurement.gates import Gates
from tuner.measurement.instrument import LOADS, Mode
from tuner.measurement.latency import decode
from tuner.measurement.measuring import measure
from tuner.measurement.stalls import CYCLES, StallRule
from tuner.measurement.window import RawWindow, Samples
from tuner.paths import loadgen_binary
from tuner.testing.lab import Effect, SimulatedDeployer, SimulatedGenerator, SimulatedHost
from tuner.workload.workload import Request, Workload

RATE_PER_S = 1_000.0
DURATION_S = 0.3
PAGE = b"x" * 1_024
CONF = """
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/a;
    proxy_temp_path {folder}/b;
    fastcgi_temp_path {folder}/c;
    uwsgi_temp_path {folder}/d;
    scgi_temp_path {folder}/e;
    server {{ listen 127.0.0.1:{ports[0]}; location = / {{ return 200 "{page}"; }} }}
    server {{ listen 127.0.0.1:{ports[1]}; location = / {{ return 200 "{page}"; }} }}
    server {{ listen 127.0.0.1:{ports[2]}; location = / {{ return 503; }} }}
}}
"""


@dataclass(frozen=True)
class Case:
    """A generator with three endpoints: two sound ones, and one that answers with errors."""

    generator: LoadGenerator
    workload: Workload
    one: Endpoint
    other: Endpoint
    failing: Endpoint

    @property
    def mode(self) -> Mode:
        """Open loop wherever the generator offers one."""
        return self.generator.instrument.modes[0]

    def spec(self, number: int, endpoint: Endpoint, **changes: object) -> WindowSpec:
        """Return a short window."""
        made = WindowSpec(
            window_id=f"{number:02d}-{endpoint.instance}",
            instance=endpoint.instance,
            mode=self.mode,
            rate_per_s=RATE_PER_S,
            seed=7,
            warmup_s=0.05,
            duration_s=DURATION_S,
        )
        return replace(made, **changes)  # type: ignore[arg-type]


def workload() -> Workload:
    """Return the page, as it must come back."""
    request = Request(1.0, "GET", "/", (), b"", 200, len(PAGE), None)
    return replace(WORKLOAD, requests=(request,), connections=4)


def simulated() -> Case:
    """Three instances on a simulated host; the third one's requests all fail."""
    host = SimulatedHost(truth=lambda v: Effect(error_share=1.0 * (v["size"] == 64)))
    sizes = {"one": 512, "other": 513, "failing": 64}
    specs = [
        replace(
            host.instance(label, STOCK, 19_000 + size),
            files={"configuration.json": f'{{"size": {size}}}'},
        )
        for label, size in sizes.items()
    ]
    states = SimulatedDeployer(host).deploy(specs)
    ends = [
        Endpoint(label, f"127.0.0.1:{19_000 + size}", states[label].pids)
        for label, size in sizes.items()
    ]
    return Case(SimulatedGenerator(host), workload(), *ends)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Endpoint, ...]]:
    """The same with one real Nginx."""
    folder = tmp_path_factory.mktemp("nginx")
    ports = local.free_ports(3)
    conf = folder / "nginx.conf"
    conf.write_text(CONF.format(folder=folder, ports=ports, page=PAGE.decode()))
    command = [str(NGINX), "-p", f"{folder}/", "-c", str(conf), "-e", str(folder / "error.log")]
    process = subprocess.Popen([*command, "-g", "daemon off; master_process off;"])
    try:
        until = time.monotonic() + 30
        while ask(f"http://127.0.0.1:{ports[0]}/") is None and time.monotonic() < until:
            time.sleep(0.01)
        labels = ("one", "other", "failing")
        yield tuple(
            Endpoint(label, f"127.0.0.1:{port}", (process.pid,))
            for label, port in zip(labels, ports, strict=True)
        )
    finally:
        process.terminate()
        process.wait()


def real(name: str, folder: Path) -> LoadGenerator:
    """Return a generator on this machine's cores; wrk2 is a stand-in where it is not installed."""
    cores = split_cores(sorted(os.sched_getaffinity(0)), backend=False)
    if name == "native":
        return NativeGenerator(loadgen_binary(), cores, StallRule())
    if name == "several":
        return several(cores)
    if name == "wrk2":
        return Wrk2Generator(cores, wrk2(folder))
    if shutil.which(name) is None:
        pytest.skip(f"no {name} in this system's packages (.ci/require {name})")
    return H2loadGenerator(cores)


def several(cores: CoreSplit) -> SharedGenerator:
    """Return two generators that share a load, both on this machine and its clock.

    They have one core between them, so neither spins.
    """

    def read_clock() -> ClockReading:
        asked_ns = time.monotonic_ns()
        return ClockReading(asked_ns, time.monotonic_ns(), time.monotonic_ns())

    calm = replace(cores, shared=True)
    names = ("first", "second")
    natives = [
        NativeGenerator(loadgen_binary(), calm, StallRule(), share=Share(place, len(names)))
        for place in range(len(names))
    ]
    members = zip(names, natives, strict=True)
    return SharedGenerator([Member(name, native, read_clock) for name, native in members])


REAL = [pytest.param(name, marks=needs_nginx) for name in (*LOADS, "several")]
SLICED = pytest.mark.parametrize(
    "case", ["simulated", pytest.param("native", marks=needs_nginx)], indirect=True, scope="module"
)
"""The generators with windows that instances can share in slices."""
TIMED = pytest.mark.parametrize(
    "case",
    ["simulated", *(pytest.param(name, marks=needs_nginx) for name in ("native", "several"))],
    indirect=True,
    scope="module",
)
"""The generators that report when each request was due."""


@pytest.fixture(scope="module", params=["simulated", *REAL])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """One generator."""
    if request.param == "simulated":
        return simulated()
    generator = real(request.param, tmp_path_factory.mktemp("generator"))
    return Case(generator, workload(), *request.getfixturevalue("served"))


def samples(raw: RawWindow) -> Samples:
    """Return the window's requests one by one."""
    assert isinstance(raw.samples, Samples)
    return raw.samples


def go(_: RawWindow) -> Next:
    """Go on."""
    return Next()


def run(
    case: Case, *windows: WindowSpec, after: Callable[[RawWindow], Next] = go
) -> list[RawWindow]:
    """Return the windows in the order in which the generator reported them."""
    reported: list[RawWindow] = []

    def keep(raw: RawWindow) -> Next:
        reported.append(raw)
        return after(raw)

    plan = WindowPlan(case.workload, (case.one, case.other, case.failing), windows)
    case.generator.run(plan, keep)
    return reported


def shared(case: Case) -> WindowSpec:
    """Return a window that both sound instances share."""
    slices = Slices(("one", "other"), 20.0)
    return case.spec(0, case.one, window_id="00", instance="", duration_s=0.4, slices=slices)


@pytest.mark.parametrize("case", [pytest.param("native", marks=needs_nginx)], indirect=True)
def test_the_slices_of_a_set_may_have_the_same_arrivals(case: Case) -> None:
    """Both instances are sent requests at the same instants of their slices, in every set."""
    window = shared(case)
    assert window.slices is not None
    common = replace(window, slices=replace(window.slices, same_arrivals=True))
    one, other = (samples(raw).intended_ns for raw in run(case, common))
    assert 0 < len(one) == len(other)
    slice_ns = 20_000_000
    assert (one % slice_ns == other % slice_ns).all()
    assert (one // (2 * slice_ns) == other // (2 * slice_ns)).all()
    one, other = (samples(raw).intended_ns for raw in run(case, window))
    assert (one % slice_ns).tolist() != (other % slice_ns).tolist()


@pytest.mark.parametrize("case", [pytest.param("native", marks=needs_nginx)], indirect=True)
def test_a_stall_of_all_instances_gives_none_of_them_up(case: Case) -> None:
    """Both fall behind while the host stands still, and both answer everything afterwards."""

    def stall() -> None:
        for number, wait_s in ((signal.SIGSTOP, 0.4), (signal.SIGCONT, 1.5)):
            time.sleep(wait_s)
            for pid in case.one.pids:
                os.kill(pid, number)

    stalling = threading.Thread(target=stall)
    stalling.start()
    found = run(case, replace(shared(case), duration_s=2.4))
    stalling.join()
    assert [raw.completed for raw in found] == [raw.offered for raw in found]
    for raw in found:
        latency_ns = samples(raw).completed_ns - samples(raw).intended_ns
        assert latency_ns.max() > 1_000_000_000


@pytest.mark.parametrize("case", [pytest.param("native", marks=needs_nginx)], indirect=True)
def test_busy_cycles_are_those_that_the_generator_finds(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same requests count, with the same weights, in tuner and in ``tuner-loadgen compare``."""
    lines: list[Mapping[str, Any]] = []
    read = native._windows

    def kept(parts: Sequence[Mapping[str, Any]], place: GeneratorHost) -> list[RawWindow]:
        lines.extend(parts)
        return read(parts, place)

    monkeypatch.setattr(native, "_windows", kept)
    compared = 0
    for _ in range(20):  # A busy host may disturb all requests of a window.
        lines.clear()
        raws = run(case, shared(case))
        for raw, own in zip(raws, (line["slices"]["undisturbed"] for line in lines), strict=True):
            found = measure(raw, CYCLES, Gates(samples_needed=1))
            assert found.stall_free.count == own["count"]
            if own["count"] == 0:
                continue
            compared += 1
            assert found.effective == pytest.approx(own["effective"])
            for name in ("p50_us", "p90_us", "p99_us"):
                assert getattr(found.stall_free, name) == pytest.approx(own[name])
        if compared:
            break
    assert compared


class TestLoadGenerator:
    """The contract of ``tuner.generators.generator.LoadGenerator``."""

    def test_windows_are_measured_in_the_order_of_the_plan(self, case: Case) -> None:
        """Each window is reported as it ends, with its id and instance, one after another."""
        wanted = [
            case.spec(0, case.one),
            case.spec(0, case.other),
            case.spec(1, case.other),
            case.spec(1, case.one),
        ]
        reported = run(case, *wanted)
        assert [(w.window_id, w.instance) for w in reported] == [
            (w.window_id, w.instance) for w in wanted
        ]
        starts = [w.started_unix_s for w in reported]
        assert all(b - a >= DURATION_S for a, b in pairwise(starts))

    def test_each_instance_of_an_arm_has_windows(self, case: Case) -> None:
        """The labels that further starts give to their instances are ids of windows too."""
        copy = replace(case.other, instance=copy_of(case.one.instance, 2))
        window = case.spec(0, copy, window_id=window_id(0, copy.instance))
        reported: list[RawWindow] = []

        def keep(raw: RawWindow) -> Next:
            reported.append(raw)
            return Next()

        case.generator.run(WindowPlan(case.workload, (case.one, copy), (window,)), keep)
        assert [(w.window_id, w.instance) for w in reported] == [("00-one#2", "one#2")]
        assert reported[0].completed

    @TIMED
    def test_every_request_has_its_three_times_and_an_outcome(self, case: Case) -> None:
        """Intended ascending within the window, then written, then completed; nothing lost."""
        (raw,) = run(case, case.spec(0, case.one))
        reported = samples(raw)
        count = len(reported.intended_ns)
        assert count == raw.offered
        assert abs(count - RATE_PER_S * DURATION_S) < 5 * (RATE_PER_S * DURATION_S) ** 0.5
        assert (np.diff(reported.intended_ns) >= 0).all()
        assert reported.intended_ns[0] >= 0
        assert reported.intended_ns[-1] < DURATION_S * 1e9
        answered = reported.outcome == 0
        assert raw.completed == answered.sum()
        assert (reported.written_ns >= reported.intended_ns)[answered].all()
        assert (reported.completed_ns > reported.written_ns)[answered].all()
        assert reported.first_ns is not None
        assert (reported.first_ns > reported.written_ns)[answered].all()
        assert (reported.first_ns <= reported.completed_ns).all()

    def test_a_window_is_valid_and_has_its_latencies(self, case: Case) -> None:
        """A window is valid; without a stall rule its stall-free latencies are the raw ones."""
        (raw,) = run(case, case.spec(0, case.one))
        rate_per_s = RATE_PER_S if case.mode == "open" else 0.0
        assert (raw.mode, raw.rate_per_s, raw.connections) == (case.mode, rate_per_s, 4)
        assert raw.duration_s >= DURATION_S
        assert raw.errors == {}
        assert raw.bytes_in > 0
        assert raw.protocol == "http/1.1"
        # A busy machine may keep a real generator from its rate; that is no matter of the port.
        found = measure(raw, None, Gates(samples_needed=100, rate_error=1.0))
        assert not found.bad
        assert 100 <= found.raw.count <= raw.completed + raw.timeouts + raw.unsent + raw.in_flight
        assert 0 < found.raw.p50_us <= found.raw.p99_us <= found.raw.max_us
        assert found.stall_free == found.raw
        assert found.service.p50_us <= found.raw.p50_us
        # A generator that does not report the first byte has no such figure, rather than 0.
        assert (found.first_byte is not None) == (case.generator.instrument.load == "native")
        if found.first_byte:
            assert 0 < found.first_byte.p50_us <= found.raw.p50_us
            assert found.first_byte.count == found.raw.count
        assert decode(found.raw.hdr)[1].sum() == found.raw.count

    def test_what_it_cannot_offer_it_refuses_with_the_reason(self, case: Case) -> None:
        """A mode that the generator cannot offer is refused beforehand and again at the run."""
        for mode in ("open", "closed"):
            refusal = case.generator.refuses(case.workload, mode)
            assert bool(refusal) == (mode not in case.generator.instrument.modes)
            if refusal:
                with pytest.raises(InstrumentError, match=re.escape(refusal)):
                    run(case, case.spec(0, case.one, mode=mode))

    @TIMED
    def test_the_schedule_follows_from_the_seed_alone(self, case: Case) -> None:
        """Every arm of a round is offered the very same arrivals; another seed gives others."""
        windows = (case.spec(0, case.one), case.spec(0, case.other), case.spec(1, case.one, seed=8))
        one, other, third = (samples(raw).intended_ns for raw in run(case, *windows))
        assert (one == other).all()
        assert one.tolist() != third.tolist()

    def test_a_dropped_instance_is_measured_no_more(self, case: Case) -> None:
        """The others are."""
        windows = [case.spec(n, e) for n in range(3) for e in (case.one, case.other)]

        def drop(raw: RawWindow) -> Next:
            return Next(drop=("other",) if raw.window_id == "00-other" else ())

        reported = [w.window_id for w in run(case, *windows, after=drop)]
        assert reported == ["00-one", "00-other", "01-one", "02-one"]

    def test_an_instance_that_is_not_there_cannot_be_dropped(self, case: Case) -> None:
        """Dropping an unknown instance raises an error that names it."""
        windows = [case.spec(n, case.one) for n in range(2)]
        with pytest.raises(InstrumentError, match='drop: "nobody" is not the id of an instance'):
            run(case, *windows, after=lambda _: Next(drop=("nobody",)))

    def test_a_plan_can_be_stopped_after_any_window(self, case: Case) -> None:
        """Nothing is measured after that."""
        windows = [case.spec(n, case.one) for n in range(3)]
        assert len(run(case, *windows, after=lambda _: Next(stop=True))) == 1

    def test_an_empty_plan_measures_nothing(self, case: Case) -> None:
        """And is not an error."""
        assert run(case) == []

    def test_what_the_reader_raises_ends_the_plan(self, case: Case) -> None:
        """An interruption between two windows leaves nothing behind."""

        def interrupt(_: RawWindow) -> Next:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(case, case.spec(0, case.one), case.spec(1, case.one), after=interrupt)
        assert len(run(case, case.spec(0, case.one))) == 1

    def test_a_closed_loop_saturates(self, case: Case) -> None:
        """A closed loop has no offered rate, and completes more than an open loop offers."""
        (raw,) = run(case, case.spec(0, case.one, mode="closed"))
        assert (raw.mode, raw.rate_per_s) == ("closed", 0.0)
        assert raw.completed > RATE_PER_S * DURATION_S

    @SLICED
    def test_instances_share_a_window_in_slices(self, case: Case) -> None:
        """Each has a part of its own, with as much time and its own share of the load."""
        found = run(case, shared(case))
        assert [raw.window_id for raw in found] == ["00-one", "00-other"]
        assert [raw.instance for raw in found] == ["one", "other"]
        for raw in found:
            assert raw.duration_s == pytest.approx(0.4)
            assert raw.offered == pytest.approx(0.4 * RATE_PER_S, rel=0.3)
            assert raw.completed == raw.offered

    def test_wrong_answers_are_errors_of_the_configuration(self, case: Case) -> None:
        """Counted by kind, out of the percentiles, and the window is its arm's fault."""
        (raw,) = run(case, case.spec(0, case.failing))
        assert raw.completed == 0
        assert sum(raw.errors.values()) > 0
        assert all(kind.startswith("status") for kind in raw.errors)
        found = measure(raw, None, Gates(samples_needed=0))
        assert found.bad
        assert found.raw.count == 0

    def test_a_window_says_what_it_cost(self, case: Case) -> None:
        """CPU time of generator and server, memory, stalls."""
        (raw,) = run(case, case.spec(0, case.one))
        assert raw.generator_cpu_s > 0
        assert 0 < raw.generator_busy_share <= 1
        assert raw.server_cpu_s is not None
        assert raw.server_cpu_s >= 0
        assert raw.server_rss_bytes
        assert all(start < end for start, end in (*raw.generator_spans, *raw.server_spans))

    def test_nobody_listening_is_an_error_not_a_hang(self, case: Case) -> None:
        """Every request fails."""
        nobody = Endpoint("nobody", f"127.0.0.1:{local.free_ports(1)[0]}")
        reported: list[RawWindow] = []

        def keep(raw: RawWindow) -> Next:
            reported.append(raw)
            return Next()

        case.generator.run(WindowPlan(case.workload, (nobody,), (case.spec(0, nobody),)), keep)
        assert reported[0].completed == 0
        assert measure(reported[0], None, Gates(samples_needed=0)).bad

    def test_it_has_a_name_for_the_report(self, case: Case) -> None:
        """With a version where there is one."""
        assert case.generator.name


@pytest.mark.integration
def test_the_native_generator_watches_its_cores(tmp_path: Path) -> None:
    """The native generator measures its cores' stalls without load, for preflight."""
    generator = real("native", tmp_path)
    assert isinstance(generator, WatchesStalls)
    seen = generator.stalls(0.2)
    assert len(seen["cpus"]) >= 1
    assert {"cpu", "spin", "ticker"} <= seen["cpus"][0].keys()


@pytest.mark.parametrize("path", [Path("/nowhere/tuner-loadgen"), Path("/etc/hostname")])
def test_a_generator_that_does_not_start_is_an_error_of_the_instrument(path: Path) -> None:
    """With its path."""
    cores = split_cores((0, 1), backend=False)
    with pytest.raises(InstrumentError, match=f"{path} cannot be started"):
        _ = NativeGenerator(path, cores, StallRule()).name
