"""A simulated lab behind the ports of the real one: a host, its deployer and its load generator.

A study runs on it unchanged, from calibration to verdict, in milliseconds per window: time is
virtual, so nothing waits. What configurations truly do is a function that the user writes, so a
study's outcome can be compared with the truth. docs/testing.md has an example.

The host has what real hosts have and what misleads naive studies: a level that drifts and is
correlated from window to window, another level at every start of an instance, bursts, stalls of
the cores, and a heavy tail (the model of ``tuner.testing.simulate``). Faults are scripted.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from tuner.errors import InstrumentError, Interrupted, UnreachableError
from tuner.generators.generator import Endpoint, Next, WindowPlan, WindowSpec
from tuner.generators.turns import in_turn
from tuner.hosts.deployer import InstanceSpec, InstanceState
from tuner.judge.scoring import BASELINE
from tuner.machine.facts import CoreSplit, HostFacts, ServerFacts
from tuner.measurement.instrument import NATIVE, Instrument, Mode
from tuner.measurement.stalls import Span
from tuner.measurement.window import RawWindow, Samples
from tuner.record.model import ConfigurationRecord
from tuner.space.configuration import Configuration, Value
from tuner.space.space import configuration_yaml
from tuner.store.store import Header
from tuner.testing.simulate import Noise, SimulatedStalls
from tuner.workload.arrivals import Arrival
from tuner.workload.wire import NEGOTIATED
from tuner.workload.workload import Workload

_EPOCH_UNIX_S = 1_767_225_600.0
_DEPLOY_S = 1.3
_FIRST_PORT = 18_080
_MOST_SAMPLES = 20_000
_SEND_LAG_NS = 300.0
_STARVED_LAG_NS = 20e6
_BEFORE_FIRST_BYTE = 0.9
"""Share of the service time before the first byte."""
_REPORTED_GAP_NS = 100_000
"""Shorter stalls are felt, and not reported as spans: the same as with the real generator."""
_FULL = 0.99
"""Above this load the queue that grows is what counts."""
_FILE = "configuration.json"
_ANSWERED, _TIMED_OUT, _FAILED = 0, 1, 4


@dataclass(frozen=True, slots=True)
class Effect:
    """The true effect of a configuration on the simulated host."""

    ln_latency: float = 0.0
    """Added to the logarithm of every latency: ln(0.9) makes all percentiles 10 % smaller."""
    capacity_per_s: float = 8_000.0
    """Most requests per second; when more are offered, a queue grows for as long as they are.

    Latency bends upwards on the way there: at a load ρ it is 1 + ρ³⁰/(1 - ρ) times what it is
    on an idle server, 5 % more at 0.85 and fivefold at 0.95.
    """
    error_share: float = 0.0
    """Share of requests that fail."""
    cpu_us: float = 100.0
    """CPU time of the server by request, in a closed loop."""
    open_loop_cpu: float = 1.0
    """CPU time by request in an open loop, relative to the closed loop: a saturated server takes
    several requests at a time, and spends less on each."""
    memory_mib: float = 8.0
    """Resident memory of the server."""


_NOBODY = Effect(error_share=1.0)
"""Effect where nothing listens."""

Truth = Callable[[Mapping[str, Value]], Effect]
"""From a configuration's values to what it does."""


def no_effect(_: Mapping[str, Value]) -> Effect:
    """Return the truth of a host on which no parameter matters."""
    return Effect()


def accepts(_: Mapping[str, Value]) -> str:
    """Return the validator of a server that refuses nothing."""
    return ""


@dataclass(frozen=True, slots=True)
class Faults:
    """Faults with their times. Deployments and windows are counted from 0 over the host's life.

    Anything with ``in`` serves: ``{3}``, ``range(5, 10_000)``.
    """

    refuse: Callable[[Mapping[str, Value]], str] = accepts
    """The words with which the server refuses a configuration; empty if it accepts it."""
    fails_to_start: Container[tuple[int, str]] = ()
    """(deployment, label) of instances that are accepted and do not start."""
    taken_ports: Container[int] = ()
    """Ports that another server holds."""
    host_gone: Container[int] = ()
    """Deployments at which the host does not answer."""
    generator_dies: Container[int] = ()
    """Windows in which the generator ends without a word."""
    starved: Container[int] = ()
    """Windows in which the generator gets too little CPU."""
    failing: Container[int] = ()
    """Windows in which 1 % of the requests fail, for any configuration."""
    interrupted: Container[int] = ()
    """Windows that begin with the user's Ctrl-C."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One running instance of the simulated host."""

    spec: InstanceSpec
    effect: Effect
    level: float
    """ln level on which this start settled."""
    pid: int


@dataclass
class SimulatedHost:
    """The state that deployer and generator share: the clock, the noise, what runs.

    Args:
        seed: of everything random; the same calls with the same seed give the same samples.
        truth: what a configuration does.
        noise: what disturbs windows and starts, in natural logarithms.
        stalls: of each core; None for a quiet host.
        faults: what goes wrong.
        median_us: median latency at the effect 0 without noise.
        tail_share: share of requests in the Pareto tail (exponent 2.5, from twice the median).
        slot_bias: added to ln latency of the instance in the first slot of a deployment.
        most_samples: a window with more requests than this keeps an even part of them.
        cores: number of the server's cores; what they can do is ``Effect.capacity_per_s``.
        generator_per_s: most requests per second that the generator can offer; infinity for one
            that is never the limit, and busy for 35 % of the time.
        program: file that stands for the server's program; None: it has none.
    """

    seed: int = 1
    truth: Truth = no_effect
    noise: Noise = field(default_factory=Noise)
    stalls: SimulatedStalls | None = None
    faults: Faults = field(default_factory=Faults)
    median_us: float = 100.0
    tail_share: float = 0.02
    slot_bias: float = 0.0
    most_samples: int = _MOST_SAMPLES
    cores: int = 1
    generator_per_s: float = math.inf
    program: Path | None = None
    now_s: float = field(default=_EPOCH_UNIX_S, init=False)
    """Unix time on the host."""
    running: dict[str, Instance] = field(default_factory=dict, init=False)
    """By address."""
    kernel: dict[str, str] = field(default_factory=dict, init=False)
    """Kernel settings by the current borrower; empty: as found."""
    deployments: int = field(default=0, init=False)
    windows: int = field(default=0, init=False)
    _level: float = field(default=0.0, init=False)
    _pids: int = field(default=1_000, init=False)

    @property
    def _server_cpus(self) -> tuple[int, ...]:
        return tuple(range(1, 1 + self.cores))

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)
        self._level = float(self._rng.normal(0.0, self.noise.ar_sd))

    # --- what a bench needs in addition to the adapters ----------------------------------------

    def clock(self) -> float:
        """Unix time on the host: for ``Bench.clock`` and the store."""
        return self.now_s

    def free_ports(self, count: int) -> Sequence[int]:
        """Return that many ports; for ``Bench.free_ports``."""
        return range(_FIRST_PORT, _FIRST_PORT + count)

    def instance(self, folder: str, configuration: Configuration, port: int) -> InstanceSpec:
        """A configuration as an instance of the simulated server; for ``Bench.make_instance``."""
        return InstanceSpec(
            instance=folder,
            directory=f"/simulated/{folder}",
            files={_FILE: json.dumps(configuration.values)},
            folders=(),
            validate=("simulated", "-t"),
            start=("simulated",),
            pid_file=f"/simulated/{folder}/pid",
            live_url=f"http://127.0.0.1:{port}/.tuner/live",
            live_token=configuration.digest,
            environment={},
            cpus=self._server_cpus,
            error_log=f"/simulated/{folder}/error.log",
        )

    def describe(self, configuration: Configuration) -> ConfigurationRecord:
        """Return a configuration as its YAML text; for ``Bench.describe``."""
        text = configuration_yaml(configuration)
        return ConfigurationRecord(
            configuration.space, configuration.digest, configuration.values, text
        )

    def header(
        self,
        name: str,
        baseline: Configuration,
        objective: str | Sequence[str],
        **definition: object,
    ) -> Header:
        """Return the header of a record; further keys of the definition may be given."""
        return Header(
            name=name,
            definition={
                "name": name,
                "space": baseline.space,
                "objective": objective,
            }
            | definition,
            tuner_version="simulated",
            command="",
            generator=SimulatedGenerator(self).name,
            host=HostFacts(
                hostname="simulated",
                cpus=tuple(range(1 + self.cores)),
                cpu_model="simulated",
                memory_bytes=8 << 30,
                kernel="simulated",
                distribution="simulated",
                virtualisation="none",
                file_limit=1 << 20,
                somaxconn=4096,
                realtime=True,
                user="nobody",
            ),
            server=ServerFacts("simulated", "simulated", "1.0.0", (), "simulated"),
            cores=CoreSplit((0,), self._server_cpus, (), shared=False),
            notes=(),
            started_unix_s=self.now_s,
            baseline=baseline.digest,
            objective=objective if isinstance(objective, str) else objective[0],
        )

    # --- what the adapters do -----------------------------------------------------------------

    def start(self, spec: InstanceSpec, deployment: int) -> InstanceState:
        """Start one instance that was accepted."""
        address = urlsplit(spec.live_url).netloc
        port = urlsplit(spec.live_url).port
        if (deployment, spec.instance) in self.faults.fails_to_start:
            return InstanceState(spec.instance, "failed", "simulated: it does not start", ())
        if port in self.faults.taken_ports or address in self.running:
            message = f"bind() to {address} failed (98: Address already in use)"
            return InstanceState(spec.instance, "failed", message, ())
        self._pids += 1
        level = float(self._rng.normal(0.0, self.noise.restart_sd))
        # Slots follow the ports in rising order.
        level += self.slot_bias * (port == _FIRST_PORT)
        effect = self.truth(values_of(spec))
        self.running[address] = Instance(spec, effect, level, self._pids)
        code: dict[str, str] = {}
        if self.program is not None:
            code[str(self.program)] = hashlib.sha256(self.program.read_bytes()).hexdigest()
        return InstanceState(spec.instance, "live", "", (self._pids,), code)

    def next_deployment(self) -> int:
        """Count a deployment, stop what runs, let its time pass.

        Raises:
            HostError: the host is gone.
        """
        number, self.deployments = self.deployments, self.deployments + 1
        self.now_s += _DEPLOY_S
        self.running.clear()
        if number in self.faults.host_gone:
            raise UnreachableError("simulated: the host does not answer")
        return number

    def measure(
        self,
        workload: Workload,
        endpoint: Endpoint,
        spec: WindowSpec,
        level: float | None = None,
    ) -> RawWindow:
        """Let one window pass and return the generator's report of it.

        Args:
            workload: the requests.
            endpoint: the instance.
            spec: the window.
            level: of the host, where other instances shared the window; None: the next one.

        Raises:
            Interrupted, InstrumentError: by the script.
        """
        number, self.windows = self.windows, self.windows + 1
        if number in self.faults.interrupted:
            raise Interrupted("simulated Ctrl-C")
        if number in self.faults.generator_dies:
            raise InstrumentError("simulated: the generator ended without a word")
        self.now_s += spec.warmup_s
        begun = self.now_s
        self.now_s += spec.duration_s
        host = self.next_level() if level is None else level
        instance = self.running.get(endpoint.address)
        level = host + (instance.level if instance else 0.0)
        effect = instance.effect if instance else _NOBODY
        open_loop = spec.mode == "open"
        starved = number in self.faults.starved or spec.rate_per_s > self.generator_per_s
        capacity_per_s = effect.capacity_per_s * math.exp(-level)
        rate_per_s = spec.rate_per_s if open_loop else min(capacity_per_s, self.generator_per_s)
        intended = _arrivals(spec, rate_per_s, workload.arrival, self.most_samples)
        count = len(intended)
        generator, server = self._stalls(spec), self._stalls(spec)
        lag_ns = _STARVED_LAG_NS if starved else _SEND_LAG_NS
        written = _delayed(intended + self._rng.exponential(lag_ns, count), intended, generator)
        ln_median = math.log(self.median_us * 1e3) + effect.ln_latency + level
        if open_loop:
            ln_median += math.log(_knee(rate_per_s / capacity_per_s))
        completed = _delayed(written + self._latencies(count, ln_median), written, server)
        if open_loop and rate_per_s > effect.capacity_per_s:
            completed += intended * (rate_per_s / effect.capacity_per_s - 1)
        outcome = np.full(count, _ANSWERED, np.uint8)
        outcome[completed - intended > workload.timeout_s * 1e9] = _TIMED_OUT
        error_share = max(effect.error_share, 0.01 if number in self.faults.failing else 0.0)
        outcome[self._rng.random(count) < error_share] = _FAILED
        failed = int((outcome == _FAILED).sum())
        timeouts = int((outcome == _TIMED_OUT).sum())
        offered = count if open_loop else round(rate_per_s * spec.duration_s)
        # Requests that are left out of the samples cost CPU time, too.
        kept = min(1.0, self.most_samples / max(1.0, rate_per_s * spec.duration_s))
        answered = (offered - failed - timeouts) / (kept if open_loop else 1.0)
        cpu_us = effect.cpu_us * (effect.open_loop_cpu if open_loop else 1.0)
        return RawWindow(
            window_id=spec.window_id,
            instance=spec.instance,
            mode=spec.mode,
            rate_per_s=spec.rate_per_s if open_loop else 0.0,
            connections=workload.connections,
            duration_s=spec.duration_s,
            started_unix_s=begun,
            offered=offered,
            completed=offered - failed - timeouts,
            errors={"status_500" if instance else "connect": failed} if failed else {},
            timeouts=timeouts,
            unsent=0,
            in_flight=0,
            reconnects=0,
            bytes_in=1_024 * (offered - failed - timeouts),
            generator_spans=_reported(generator),
            server_spans=_reported(server),
            realtime=True,
            steal_s=sum(end - start for start, end in (*generator, *server)) / 1e9,
            generator_cpu_s=spec.duration_s,
            generator_busy_share=0.98 if starved else self._generator_busy_share(rate_per_s),
            server_cpu_s=answered * cpu_us * math.exp(level) / 1e6,
            server_rss_bytes=round(effect.memory_mib * 2**20),
            protocol=NEGOTIATED[workload.wire.protocol],
            samples=Samples(
                intended.astype(np.int64),
                written.astype(np.int64),
                completed.astype(np.int64),
                outcome,
                (written + _BEFORE_FIRST_BYTE * (completed - written)).astype(np.int64),
            ),
        )

    def _generator_busy_share(self, rate_per_s: float) -> float:
        if math.isinf(self.generator_per_s):
            return 0.35
        return min(1.0, rate_per_s / self.generator_per_s)

    def next_level(self) -> float:
        """Return the host's level in the next window, for any instance."""
        noise = self.noise
        shock = math.sqrt(1 - noise.ar_phi**2) * noise.ar_sd
        self._level = noise.ar_phi * self._level + float(self._rng.normal(0.0, shock))
        burst = 0.0
        if self._rng.random() < noise.burst_probability:
            burst = noise.burst_scale * float(self._rng.standard_t(3))
        return self._level + burst + noise.drift_per_window * self.windows

    def _latencies(self, count: int, ln_median_ns: float) -> NDArray[np.float64]:
        body = self._rng.lognormal(0.0, 0.3, count)
        tail = 2 * (1 + self._rng.pareto(2.5, count))
        shape = np.where(self._rng.random(count) < self.tail_share, tail, body)
        return np.asarray(shape * math.exp(ln_median_ns))

    def _stalls(self, spec: WindowSpec) -> tuple[Span, ...]:
        """Stalls of one core in a window, ns, in order and apart from each other."""
        if self.stalls is None:
            return ()
        spans: list[Span] = []
        end_ns = spec.duration_s * 1e9
        now = self._rng.exponential(1e9 / self.stalls.per_s)
        while now < end_ns:
            long = self._rng.exponential(self.stalls.mean_us * 1e3)
            spans.append((round(now), round(now + long)))
            now += long + self._rng.exponential(1e9 / self.stalls.per_s)
        return tuple(spans)


@dataclass(frozen=True, slots=True)
class SimulatedDeployer:
    """The port ``Deployer`` on a simulated host."""

    host: SimulatedHost

    def deploy(self, instances: Sequence[InstanceSpec]) -> Mapping[str, InstanceState]:
        """Implement ``Deployer.deploy``."""
        number = self.host.next_deployment()
        states = {}
        # The order of the draws does not follow the slots, so a seed has one course of noise.
        for spec in sorted(
            instances, key=lambda s: (s.instance != BASELINE, len(s.instance), s.instance)
        ):
            words = self.host.faults.refuse(values_of(spec))
            if words:
                states[spec.instance] = InstanceState(spec.instance, "refused", words, ())
            else:
                states[spec.instance] = self.host.start(spec, number)
        return states

    def switch(self, instance: InstanceSpec) -> InstanceState:
        """Implement ``Deployer.switch``."""
        state = self.deploy([instance])[instance.instance]
        self.host.kernel = dict(instance.kernel) if state.state == "live" else {}
        return state

    def stop(self) -> None:
        """Implement ``Deployer.stop``."""
        self.host.running.clear()
        self.host.kernel = {}


@dataclass(frozen=True, slots=True)
class SimulatedGenerator:
    """The port ``LoadGenerator`` on a simulated host."""

    host: SimulatedHost

    @property
    def name(self) -> str:
        """Implement ``LoadGenerator.name``."""
        return "simulated generator"

    @property
    def instrument(self) -> Instrument:
        """Implement ``LoadGenerator.instrument``: it stands in for our own."""
        return NATIVE

    def refuses(self, workload: Workload, mode: Mode) -> str:  # noqa: ARG002 - the port's signature
        """Implement ``LoadGenerator.refuses``."""
        return ""

    def run(self, plan: WindowPlan, after: Callable[[RawWindow], Next]) -> None:
        """Implement ``LoadGenerator.run``."""
        sharing = {spec.id_of(label): spec for spec in plan.windows for label in spec.instances}
        levels: dict[str, float] = {}

        def measure(at: Endpoint, spec: WindowSpec) -> RawWindow:
            whole = sharing[spec.window_id]
            if whole.slices is None:
                return self.host.measure(plan.workload, at, spec)
            # All arms meet the same host, which is what slices are for.
            if whole.window_id not in levels:
                levels[whole.window_id] = self.host.next_level()
            return self.host.measure(plan.workload, at, spec, levels[whole.window_id])

        in_turn(replace(plan, windows=tuple(_apart(plan.windows))), measure, after)


def _apart(windows: Sequence[WindowSpec]) -> Iterator[WindowSpec]:
    """Yield a window for each instance: on a simulated host, slices follow one another."""
    for spec in windows:
        for label in spec.instances:
            yield replace(spec, window_id=spec.id_of(label), instance=label, slices=None)


def _knee(load: float) -> float:
    """Return the slowdown of requests at a share of the capacity, relative to an idle server."""
    load = min(load, _FULL)
    return 1 + load**30 / (1 - load)


def values_of(spec: InstanceSpec) -> Mapping[str, Value]:
    """Return the configuration's values that an instance of the simulated server was given."""
    values: Mapping[str, Value] = json.loads(spec.files[_FILE])
    return values


def _arrivals(
    spec: WindowSpec, rate_per_s: float, arrival: Arrival, most: int
) -> NDArray[np.float64]:
    """Intended instants, ns, from the window's own seed: the same for every arm of a round."""
    rng = np.random.default_rng(spec.seed)
    expected = min(float(most), rate_per_s * spec.duration_s)
    if arrival == "constant":
        share = np.arange(round(expected), dtype=np.float64) / max(1.0, expected)
    else:
        # Given their number, the instants of a Poisson process are uniform.
        share = np.sort(rng.random(rng.poisson(expected)))
    return np.asarray(share * (spec.duration_s * 1e9))


def _delayed(
    ends: NDArray[np.float64], begins: NDArray[np.float64], stalls: Sequence[Span]
) -> NDArray[np.float64]:
    """Return the duration from ``begins`` to ``ends`` on a core that stood still meanwhile."""
    late = ends.copy()
    for start, end in stalls:
        # Under way when the core stopped: longer by the stall; begun during it: waits for its end.
        late[(begins < start) & (late > start)] += end - start
        during = (begins >= start) & (begins < end)
        late[during] += end - begins[during]
    return late


def _reported(stalls: Sequence[Span]) -> tuple[Span, ...]:
    return tuple(span for span in stalls if span[1] - span[0] > _REPORTED_GAP_NS)
