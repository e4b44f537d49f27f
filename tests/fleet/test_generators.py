"""Several generators that share a load: over SSH, each in namespaces and on a clock of its own."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tests.fleet.bed import Bed, bed, until
from tests.fleet.conftest import skip_without_bed
from tests.fleet.test_remote import tuner
from tests.phases.rig import WORKLOAD
from tests.seeds import RARE, shifted
from tuner.errors import InstrumentError
from tuner.generators import shared
from tuner.generators.generator import Endpoint, LoadGenerator, Next, WindowPlan, WindowSpec
from tuner.generators.native import NativeGenerator
from tuner.generators.share import Share
from tuner.generators.shared import Member, SharedGenerator
from tuner.hosts.inventory import Inventory, read_inventory
from tuner.hosts.remote import Connections, RemoteGeneratorHost
from tuner.machine.facts import CoreSplit
from tuner.measurement.merged import merged_window
from tuner.measurement.stalls import StallRule
from tuner.measurement.window import RawWindow, Samples
from tuner.paths import loadgen_binary
from tuner.record.model import Record
from tuner.store.listing import list_names
from tuner.store.store import Store, sqlite_url
from tuner.workload.workload import Request

pytestmark = [pytest.mark.integration, pytest.mark.fleet]

CLOCKS = {"load1": 0, "load2": 1_000, "load3": 50_000}
"""Seconds by which the hosts' clocks are ahead of ours."""
PROGRAM = "/usr/local/bin/tuner-loadgen"
RATE_PER_S = 150.0
ATTEMPTS = 4
DELAY_S = 0.1
"""Mean of the exponential delays with which the slow server answers."""
PORT = 8_080
SLOW = f"""
import asyncio, random

async def answer(reader, writer):
    draw = random.SystemRandom()
    try:
        while await reader.readuntil(b"\\r\\n\\r\\n"):
            await asyncio.sleep(draw.expovariate(1 / {DELAY_S}))
            writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()

async def main():
    server = await asyncio.start_server(answer, "0.0.0.0", {PORT})
    await server.serve_forever()

asyncio.run(main())
"""


@dataclass
class Lab:
    """Hosts that can offer a load, and a slow server."""

    hosts: Bed
    connections: Connections

    inventory: Inventory

    def native(self, place: int, count: int) -> NativeGenerator:
        """Return one of several generators, or the only one. None of them spins."""
        host = self.inventory.generators[place]
        agent, path = self.connections.agent(host), self.connections.path(host)
        at = RemoteGeneratorHost(host, agent, path, PROGRAM, watches_server=False)
        cores = CoreSplit((int(self.hosts[host.name].cpus),), (0,), (), shared=False)
        share = Share(place, count)
        return NativeGenerator(Path(PROGRAM), cores, StallRule(), at, share, spins=False)

    def generators(self, count: int) -> SharedGenerator:
        """Return this many generators, which share a load."""

        def member(place: int) -> Member:
            host = self.inventory.generators[place]
            clocks = self.connections.agent(host).clocks
            native = self.native(place, count)
            return Member(host.name, native, lambda: clocks()["monotonic_ns"])

        return SharedGenerator(list(map(member, range(count))))

    def generates(self, name: str) -> bool:
        """Return whether the generator runs on a host."""
        return "tuner-loadgen" in self.hosts[name].run("ps", "-eo", "comm")

    def plan(self, rate_per_s: float, durations_s: Sequence[float], seed: int = 1) -> WindowPlan:
        """Return windows of the slow server."""
        request = Request(1.0, "GET", "/", (), b"", 200, 2, None)
        workload = replace(WORKLOAD, requests=(request,), connections=99)
        windows = [
            WindowSpec(f"{n:02d}-slow", "slow", "open", rate_per_s, seed + n, 0.2, duration_s)
            for n, duration_s in enumerate(durations_s)
        ]
        endpoint = Endpoint("slow", f"{self.hosts['web'].address}:{PORT}")
        return WindowPlan(workload, (endpoint,), tuple(windows))


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A slow server, and three hosts with the generator on clocks that differ."""
    skip_without_bed()
    with bed({"targets": ["web"], "generators": list(CLOCKS)}, clocks=CLOCKS) as hosts:
        for name in CLOCKS:
            shutil.copy(loadgen_binary(), f"{hosts[name].root}{PROGRAM}")
        script = hosts["web"].root / "srv" / "slow.py"
        script.write_text(SLOW)
        # In the background of the host, whose end is its own.
        hosts["web"].run("sh", "-c", "python3 /srv/slow.py >/dev/null 2>&1 &")
        listens = ("ss", "-Hltn", "sport", "=", f":{PORT}")
        until("the slow server", lambda: bool(hosts["web"].run(*listens)), 20)
        inventory = read_inventory(str(hosts.inventory))
        connections = Connections(inventory)
        try:
            yield Lab(hosts, connections, inventory)
        finally:
            connections.close()


def measured(generator: LoadGenerator, plan: WindowPlan) -> list[RawWindow]:
    """Return the windows of a plan."""
    found: list[RawWindow] = []

    def keep(raw: RawWindow) -> Next:
        found.append(raw)
        return Next()

    generator.run(plan, keep)
    return found


def samples_of(raw: RawWindow) -> Samples:
    """Return the requests of a window."""
    assert isinstance(raw.samples, Samples)
    return raw.samples


@pytest.mark.every_run
def test_two_generators_begin_together_on_clocks_of_their_own(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both begin at one instant, to within the error that the window states; one kernel knows it.

    Their requests are one window, at the whole rate.
    """
    seen: list[RawWindow] = []

    def kept(
        parts: Sequence[RawWindow], names: Sequence[str], guard_ns: int, faults: Sequence[str]
    ) -> RawWindow:
        seen.extend(parts)
        return merged_window(parts, names, guard_ns, faults)

    monkeypatch.setattr(shared, "merged_window", kept)
    (raw,) = measured(lab.generators(2), lab.plan(300.0, [0.5]))
    one, other = (part.started_monotonic_ns for part in seen)
    assert one is not None
    assert other is not None
    apart_ns = other - one - (CLOCKS["load2"] - CLOCKS["load1"]) * 1_000_000_000
    assert abs(apart_ns) <= 2 * raw.guard_ns
    assert [source.name for source in raw.sources] == ["load1", "load2"]
    assert raw.offered == len(samples_of(raw).outcome) == sum(part.offered for part in seen)
    assert abs(raw.offered - 150) < 5.5 * 150**0.5
    assert raw.completed == raw.offered
    assert raw.faults == ()


def test_three_generators_measure_what_one_does(lab: Lab) -> None:
    """Latencies of either are from one distribution, and the arrivals are Poisson.

    Kolmogorov and Smirnov's tests, each of which refuses equal distributions once in ten million.
    The server's exponential delays are far longer than what the hosts add. Where another program
    takes this machine for a moment, both are measured again.
    """
    p_values = []
    for attempt in range(ATTEMPTS):
        plans = [lab.plan(RATE_PER_S, [3.0], shifted(10 * attempt + n)) for n in range(2)]
        (alone,), (together,) = (
            measured(lab.native(0, 1), plans[0]),
            measured(lab.generators(3), plans[1]),
        )
        source = samples_of(together).source
        assert source is not None
        assert np.unique(source).tolist() == [0, 1, 2]
        for raw in (alone, together):
            gaps = np.diff(samples_of(raw).intended_ns) / 1e9
            assert stats.kstest(gaps, "expon", args=(0, 1 / RATE_PER_S)).pvalue > RARE
            assert stats.spearmanr(gaps[:-1], gaps[1:]).pvalue > RARE
        one, three = (samples_of(raw) for raw in (alone, together))
        found = stats.ks_2samp(
            one.completed_ns - one.intended_ns, three.completed_ns - three.intended_ns
        )
        p_values.append(float(found.pvalue))
        if p_values[-1] > RARE:
            break
    assert max(p_values) > RARE, p_values


def test_a_generator_that_is_killed_in_a_window_is_named(lab: Lab) -> None:
    """The plan ends with its name, nothing of the others stays, and the next plan is measured."""
    generator = lab.generators(3)
    killed = threading.Timer(1.5, lab.hosts["load2"].run, ("pkill", "-KILL", "tuner-loadgen"))
    killed.start()
    with pytest.raises(InstrumentError, match="the generator load2: tuner-loadgen ended too early"):
        measured(generator, lab.plan(100.0, [4.0, 4.0]))
    killed.join()
    until("the end of all", lambda: not any(map(lab.generates, CLOCKS)), 20)
    (raw,) = measured(generator, lab.plan(100.0, [0.3]))
    assert raw.faults == ()


def test_doctor_reports_the_role_of_each_host(lab: Lab, tmp_path: Path) -> None:
    """And how well it knows the clocks; one that is down is named, and the exit code is 3."""
    command = ("doctor", "--inventory", str(lab.hosts.inventory), "--json")
    done = tuner(tmp_path, *command)
    assert done.returncode == 0, done.stderr
    rows = {row["what"]: row for row in json.loads(done.stdout)}
    assert list(rows) == ["web", *CLOCKS]
    assert rows["web"]["text"].startswith("target; ")
    for number, name in enumerate(CLOCKS, 1):
        assert rows[name]["text"].startswith(f"generator {number} of 3; ")
        assert "clock known within" in rows[name]["text"]
    lab.hosts["load3"].kill()
    try:
        done = tuner(tmp_path, *command)
    finally:
        lab.hosts["load3"].start()
    assert done.returncode == 3
    states = {row["what"]: row["state"] for row in json.loads(done.stdout)}
    assert states == {"web": "ok", "load1": "ok", "load2": "ok", "load3": "missing"}


def records(folder: Path) -> list[Record]:
    """Return the records of a study, or of a run with its contests, that is called ``look``."""
    storage = sqlite_url(folder / "studies" / "look")
    names = list_names(storage, writing=False)
    return [Store.open(storage, name, writing=False).record() for name in names]


@pytest.mark.parametrize(
    "command",
    [
        ("measure", "stock", "--time", "4s", "--rate", "600"),
        ("optimize", "--study", "static", "--time", "20s", "--rate", "600", "--quiet"),
        ("compare", "nginx:stock", "nginx:hand", "--time", "20s", "--rate", "600"),
        ("ladder", "nginx:stock", "nginx:hand", "--time", "20s"),
    ],
    ids=lambda command: command[0],
)
def test_every_command_measures_with_all_generators(tmp_path: Path, command: Sequence[str]) -> None:
    """Each window is that of both, at the whole rate; the record names them, and nothing stays."""
    skip_without_bed()
    with bed({"targets": ["web"], "generators": ["load1", "load2"]}) as hosts:
        # Stalls of this machine are not the matter here.
        options = ("--inventory", str(hosts.inventory), "--name", "look", "--stalls", "keep")
        done = tuner(tmp_path, *command, *options)
        assert done.returncode == 0, done.stderr
        found = records(tmp_path)
        assert found
        for record in found:
            assert record.generator.endswith(" on load1, load2")
            assert any("2 generators share the load" in note for note in record.notes)
        windows = [w for record in found for block in record.blocks for w in block.windows]
        assert windows
        for window in windows:
            assert not window.slice_ms
            if window.mode == "open":
                expected = window.rate_per_s * window.duration_s
                assert abs(window.offered - expected) < 5.5 * expected**0.5
        for host in hosts.hosts.values():
            assert not list(host.root.glob("var/tmp/tuner-*"))
            assert "tuner-loadgen" not in host.run("ps", "-eo", "comm")


def test_a_dry_run_asks_from_each_generator(tmp_path: Path) -> None:
    """Every generator sends a request of each kind; an answer shows that all reach the target."""
    skip_without_bed()
    with bed({"targets": ["web"], "generators": ["load1", "load2"]}) as hosts:
        options = ("--dry-run", "--json", "--inventory", str(hosts.inventory))
        done = tuner(tmp_path, "measure", "stock", *options)
        assert done.returncode == 0, done.stderr
        (plan,) = json.loads(done.stdout)["plans"]
        (request,) = plan["configurations"][0]["requests"]
        assert (request["status"], request["size_bytes"]) == (200, 1024)
