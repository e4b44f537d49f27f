"""A synthetic study record, drawn from a seed: for tests and for the pictures in the docs.

It is made the way a real one is: requests are drawn, judged by ``measure`` with the stall rule
and the gates, and everything that follows (noise, n, margin, losses) is computed from those
measurements. Only the host, the server and the effect of each setting are invented.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

import numpy as np

from tuner.goals.objective import Objective
from tuner.judge.confirmation import estimand
from tuner.judge.scoring import counted_windows, differences, window_id
from tuner.machine.facts import CoreSplit, HostFacts, ServerFacts
from tuner.measurement.gates import Gates
from tuner.measurement.measuring import measure
from tuner.measurement.stalls import Span, StallRule
from tuner.measurement.window import Measurement, RawWindow, Samples
from tuner.record.model import (
    SCHEMA_VERSION,
    Block,
    BlockInstance,
    BlockState,
    Calibration,
    ConfigurationRecord,
    Phase,
    Protocol,
    Record,
    Trial,
)
from tuner.space.configuration import Configuration, Value
from tuner.stats.margin import DEFAULT_MARGIN
from tuner.stats.power import minimum_detectable_effect, pooled_sigma
from tuner.stats.slots import slots_of
from tuner.testing.sample_usage import used

SampleOutcome = Literal["better", "worse", "equivalent", "inconclusive"]
Stage = Literal["started", "calibrated", "searching", "searched", "confirming", "confirmed"]
STAGES: tuple[Stage, ...] = (
    "started",
    "calibrated",
    "searching",
    "searched",
    "confirming",
    "confirmed",
)
"""Stages at which a study may end, in order; ``searched`` found nothing better."""

_START_UNIX_S = 1_767_366_000.0
_RULE = StallRule()
_CAPACITY_PER_S = 7_150.0
_RATE_PER_S = 5_000.0
_WINDOW_S = 2.2
_ROUNDS = 4
_GAP_S = 0.05
_DEPLOY_S = 1.4
_RESTART_SIGMA = 0.012
_WINDOW_NOISE = {"equivalent": 0.01, "inconclusive": 0.16}
"""Noise of each single window, ln units; 0.02 for other outcomes."""

_BASELINE: dict[str, Value] = {
    "upstream_keepalive": 0,
    "proxy_http_version": "1.0",
    "proxy_buffers": 8,
    "proxy_buffer_size": "4k",
    "reuseport": False,
    "worker_processes": 1,
}
_HAND: dict[str, Value] = {
    **_BASELINE,
    "upstream_keepalive": 32,
    "upstream_keepalive_requests": 10_000,
    "upstream_keepalive_timeout": "60s",
    "proxy_http_version": "1.1",
}


@dataclass
class _Host:
    """The clock, the noise and the growing list of blocks of one simulated study."""

    rng: np.random.Generator
    noise: float
    objective: Objective
    now_s: float = _START_UNIX_S
    drift: float = 0.0
    blocks: list[Block] = field(default_factory=list)

    def block(
        self,
        phase: Phase,
        index: int,
        arms: Sequence[tuple[str, str, int | None, float]],
        *,
        rounds: int = _ROUNDS,
        rate_per_s: float = _RATE_PER_S,
        window_s: float = _WINDOW_S,
        mode: str | None = None,
        invalid: str = "",
    ) -> Block:
        """Measure ``(label, digest, trial, effect)`` of each instance, in random order.

        With the reason ``invalid`` the block ends at a window that does not count.
        """
        number = len(self.blocks)
        started = self.now_s
        self.now_s += _DEPLOY_S
        restart = self.rng.normal(0.0, _RESTART_SIGMA, len(arms))
        windows: list[Measurement] = []
        for turn in range(rounds):
            self.drift = 0.8 * self.drift + float(self.rng.normal(0.0, 0.02))
            for position in self.rng.permutation(len(arms)):
                label, _, _, effect = arms[position]
                own = float(restart[position] + self.rng.normal(0.0, self.noise))
                windows.append(
                    self._window(
                        window_id(turn, label),
                        label,
                        effect + self.drift + own,
                        rate_per_s=rate_per_s,
                        window_s=window_s,
                        mode=mode or self.objective.mode,
                    )
                )
        state: BlockState = "complete"
        reason = ""
        if invalid:
            last = replace(windows[-1], invalid=(invalid,), excluded_share=0.57)
            windows[-1], state, reason = last, "invalid", f"{last.instance}: {invalid}"
        slots = slots_of(1, phase, index, len(arms))
        block = Block(
            number=number,
            phase=phase,
            index=index,
            seed=int(self.rng.integers(2**31)),
            state=state,
            reason=reason,
            started_unix_s=started,
            ended_unix_s=self.now_s,
            instances=tuple(
                BlockInstance(label, digest, trial, "live", "", slot)
                for (label, digest, trial, _), slot in zip(arms, slots, strict=True)
            ),
            windows=tuple(windows),
        )
        self.blocks.append(block)
        self.now_s += 0.15
        return block

    def _window(
        self,
        identity: str,
        instance: str,
        shift: float,
        *,
        rate_per_s: float,
        window_s: float,
        mode: str,
    ) -> Measurement:
        closed = mode == "closed"
        achieved = _CAPACITY_PER_S * math.exp(-shift) if closed else rate_per_s
        raw = _requests(
            self.rng, achieved, window_s, shift, math.inf if closed else _CAPACITY_PER_S
        )
        window = RawWindow(
            window_id=identity,
            instance=instance,
            mode=mode,
            rate_per_s=0.0 if closed else rate_per_s,
            connections=32,
            duration_s=window_s,
            started_unix_s=self.now_s,
            offered=len(raw.samples.intended_ns),
            completed=len(raw.samples.intended_ns),
            errors={},
            timeouts=0,
            unsent=0,
            in_flight=0,
            reconnects=0,
            bytes_in=1_240 * len(raw.samples.intended_ns),
            generator_spans=raw.generator_spans,
            server_spans=raw.server_spans,
            realtime=True,
            steal_s=round(float(self.rng.exponential(0.02)), 2),
            generator_cpu_s=window_s,
            generator_busy_share=0.18,
            server_cpu_s=achieved * window_s * 118e-6 * math.exp(0.6 * shift),
            server_rss_bytes=int(9.2e6 + 1.6e6 * max(0.0, -shift)),
            protocol="HTTP/1.1",
            samples=raw.samples,
        )
        self.now_s += window_s + _GAP_S
        judged = measure(window, _RULE, _gates(self.objective))
        use = used(window, block=len(self.blocks), achieved_per_s=achieved, shift=shift)
        return replace(judged, resources=use)


@dataclass(frozen=True)
class _Requests:
    samples: Samples
    generator_spans: tuple[Span, ...]
    server_spans: tuple[Span, ...]


def _requests(
    rng: np.random.Generator,
    rate_per_s: float,
    window_s: float,
    shift: float,
    capacity_per_s: float,
) -> _Requests:
    """Poisson arrivals, a lognormal body, a Pareto tail of 1 %, and stalls that delay all."""
    count = max(1, round(rate_per_s * window_s))
    span_ns = window_s * 1e9
    intended = np.sort(rng.uniform(0, span_ns, count)).astype(np.int64)
    crowd = max(0.0, 1 / (1 - min(0.95, rate_per_s / capacity_per_s)) - 3.3)
    body = rng.lognormal(math.log(210e3) + shift + 0.04 * crowd, 0.28 + 0.02 * crowd, count)
    tail = rng.random(count) < 0.01
    latency = np.where(tail, body * (1.5 + rng.pareto(2.5, count)), body)
    spans: list[Span] = []
    for _ in range(int(rng.poisson(9.0))):
        start = int(rng.uniform(0, span_ns))
        spans.append((start, start + int(rng.lognormal(math.log(9e5), 0.8))))
    for start, end in spans:
        touched = (intended >= start - 200_000) & (intended < end)
        latency = np.where(touched, np.maximum(latency, end - intended + 50_000), latency)
    half = len(spans) // 2
    lag = rng.lognormal(math.log(300), 0.8, count)
    samples = Samples(
        intended_ns=intended,
        written_ns=intended + lag.astype(np.int64),
        completed_ns=intended + latency.astype(np.int64),
        outcome=np.zeros(count, np.uint8),
        first_ns=intended + (0.9 * latency).astype(np.int64),
    )
    return _Requests(samples, tuple(spans[:half]), tuple(spans[half:]))


def sample_record(
    outcome: SampleOutcome = "better",
    *,
    stage: Stage = "confirmed",
    objective: str = "p99",
    name: str = "proxy-p99",
    seed: int = 7,
    trials: int = 32,
) -> Record:
    """Return a whole study, or the part of it that precedes its end.

    Args:
        outcome: what the confirmation is made to find. ``equivalent`` compares two
            configurations without a difference, ``inconclusive`` does so on a noisy host.
        stage: how far the study came; see ``STAGES``.
        objective: as of ``Objective.parse``.
        name: name of the study, shown as it is.
        seed: the same seed gives the same record.
        trials: how many configurations the search tries, at least 3.
    """
    goal = Objective.parse(objective)
    host = _Host(np.random.default_rng(seed), _WINDOW_NOISE.get(outcome, 0.02), goal)
    reached = STAGES.index(stage)
    configurations: dict[str, ConfigurationRecord] = {}
    baseline = _add(configurations, _BASELINE)
    calibration: Calibration | None = None
    searched: tuple[Trial, ...] = ()
    protocol: Protocol | None = None
    if reached >= STAGES.index("calibrated"):
        calibration = _calibrate(host, baseline)
    if calibration and reached >= STAGES.index("searching"):
        weight = {"better": 1.0, "worse": 0.3}.get(outcome, 0.03)
        weight = -weight if stage == "searched" else weight
        stop = trials // 2 if stage == "searching" else trials
        searched = _search(host, configurations, baseline, stop, weight)
    if calibration and reached >= STAGES.index("confirming"):
        candidate = _winner(searched, configurations)
        effect = _effect(configurations[candidate].values)
        wanted = {"better": effect, "worse": 0.22, "equivalent": 0.0, "inconclusive": -0.07}
        protocol = _freeze(host, goal, baseline, candidate)
        done = 5 if stage == "confirming" else protocol.blocks
        _confirm(host, protocol, wanted[outcome], done)
        if stage == "confirmed":
            _load_points(host, protocol, wanted[outcome], calibration)
    ended = stage in ("searched", "confirmed")
    return Record(
        schema_version=SCHEMA_VERSION,
        name=name,
        definition={
            "server": "nginx",
            "objective": objective,
            "workload": "proxy",
            "space": "nginx/proxy",
            "baseline": "stock",
            "connections": 32,
            "trials": trials,
            "time": "10m",
            "allow": [],
            "seed": seed,
        },
        tuner_version="0.1.0",
        command=f"tuner optimize --server nginx --objective {objective} --workload proxy",
        generator="tuner-loadgen 0.1.0",
        host=_HOST,
        server=_SERVER,
        cores=CoreSplit((0,), (1, 2), (3,), shared=False),
        notes=("the host is virtual: the hypervisor may take a core away at any time",),
        started_unix_s=_START_UNIX_S,
        ended_unix_s=host.now_s if ended else None,
        baseline=baseline,
        configurations=configurations,
        calibration=calibration,
        trials=searched,
        blocks=tuple(host.blocks),
        protocol=protocol,
        importance=_IMPORTANCE if len(searched) > 10 else {},
    )


def _calibrate(host: _Host, baseline: str) -> Calibration:
    """Capacity, then six A/A blocks of three identical instances each."""
    host.block("capacity", 0, [("baseline", baseline, None, 0.0)], rounds=2, mode="closed")
    labels = ("baseline", "same-1", "same-2")
    groups = []
    for index in range(6):
        block = host.block("aa", index, [(label, baseline, None, 0.0) for label in labels])
        groups.append(differences(block, host.objective))
    pooled = pooled_sigma(groups)
    upper = pooled.upper_limit()
    blocks = 12
    return Calibration(
        capacity_per_s=_CAPACITY_PER_S,
        generator_bound=False,
        rate_per_s=_RATE_PER_S,
        rate_source="70 % of the baseline's capacity",
        sigma_d=pooled.sigma_d,
        sigma_d_upper=upper,
        degrees_of_freedom=pooled.degrees_of_freedom,
        half_width=pooled.half_width(blocks),
        minimum_detectable_effect=minimum_detectable_effect(upper, blocks),
        correlation=0.61,
        warnings=(),
    )


def _search(
    host: _Host,
    configurations: dict[str, ConfigurationRecord],
    baseline: str,
    trials: int,
    weight: float,
) -> tuple[Trial, ...]:
    """Baseline and hand first, then proposals that learn; what looks good is measured again."""
    chosen: list[tuple[str, Literal["baseline", "hand", "proposed"]]] = [(baseline, "baseline")]
    chosen.append((_add(configurations, _HAND), "hand"))
    while len(chosen) < trials:
        chosen.append((_add(configurations, _proposal(host.rng, len(chosen) / trials)), "proposed"))
    losses: dict[int, dict[int, float]] = {number: {} for number in range(trials)}
    refused = {5} if trials > 5 else set()
    index = 0

    def look(numbers: Sequence[int]) -> None:
        nonlocal index
        arms: list[tuple[str, str, int | None, float]] = [("baseline", baseline, None, 0.0)]
        for number in numbers:
            digest = chosen[number][0]
            effect = weight * _effect(configurations[digest].values)
            arms.append((f"trial-{number}", digest, number, effect))
        block = host.block("search", index, arms, rounds=2)
        index += 1
        reference = _typical_ln(host.objective, block, "baseline")
        for number in numbers:
            own = _typical_ln(host.objective, block, f"trial-{number}")
            losses[number][block.number] = host.objective.loss(own - reference)

    def mean(number: int) -> float:
        return sum(losses[number].values()) / len(losses[number])

    fresh = [number for number in range(1, trials) if number not in refused]
    for first in range(0, len(fresh), 4):
        look(fresh[first : first + 4])
    for survivors in (8, 3):
        best = sorted(fresh, key=mean)[:survivors]
        for first in range(0, len(best), 4):
            look(best[first : first + 4])
    dropped = set(sorted(fresh, key=mean)[-3:]) if len(fresh) > 8 else set()
    result = []
    for number, (digest, origin) in enumerate(chosen):
        if number in refused:
            message = 'nginx: [emerg] "proxy_busy_buffers_size" must be less than the size of all'
            result.append(Trial(number, digest, origin, "infeasible", {}, message))
        elif number in dropped:
            word = "dropped after 2 rounds: behind the best so far"
            result.append(Trial(number, digest, origin, "dropped", losses[number], word))
        else:
            result.append(Trial(number, digest, origin, "complete", losses[number], ""))
    return tuple(result)


def _confirm(host: _Host, protocol: Protocol, effect: float, done: int) -> None:
    arms: list[tuple[str, str, int | None, float]] = [
        ("baseline", protocol.baseline, None, 0.0),
        ("candidate", protocol.candidate, None, effect),
    ]
    for index in range(done):
        if index == 3:
            reason = "the host stalled: 57% of the requests were touched"
            host.block("confirm", index, arms, rounds=2, invalid=reason)
        host.block("confirm", index, arms)


def _load_points(host: _Host, protocol: Protocol, effect: float, calibration: Calibration) -> None:
    if host.objective.mode == "closed":
        return
    for index, share in enumerate((0.50, 0.85)):
        arms: list[tuple[str, str, int | None, float]] = [
            ("baseline", protocol.baseline, None, 0.0),
            ("candidate", protocol.candidate, None, effect),
        ]
        rate = round(share * calibration.capacity_per_s)
        host.block("load-points", index, arms, rounds=2, rate_per_s=rate, window_s=11_000 / rate)


def _freeze(host: _Host, objective: Objective, baseline: str, candidate: str) -> Protocol:
    protocol = Protocol(
        frozen_unix_s=host.now_s,
        digest="",
        estimand=estimand([objective]),
        baseline=baseline,
        candidate=candidate,
        objective=objective.name,
        rate_per_s=_RATE_PER_S,
        blocks=12,
        rounds=_ROUNDS,
        window_s=_WINDOW_S,
        seed=int(host.rng.integers(2**31)),
        alpha=0.05,
        margin=DEFAULT_MARGIN,
        stall_rule=_RULE,
        gates=_gates(objective),
        margin_symmetric=True,
        evidence="whole",
    )
    plan = asdict(protocol)
    del plan["frozen_unix_s"], plan["digest"]
    text = json.dumps(plan, sort_keys=True, separators=(",", ":"))
    return replace(protocol, digest=hashlib.sha256(text.encode()).hexdigest()[:12])


def _winner(trials: Sequence[Trial], configurations: Mapping[str, ConfigurationRecord]) -> str:
    """Return the best by mean over its blocks among those measured most often."""
    done = [trial for trial in trials if trial.state == "complete" and trial.losses]
    often = max(len(trial.losses) for trial in done)
    finalists = [trial for trial in done if len(trial.losses) == often]
    best = min(finalists, key=lambda trial: sum(trial.losses.values()) / len(trial.losses))
    return configurations[best.digest].digest


def _proposal(rng: np.random.Generator, progress: float) -> dict[str, Value]:
    """Return a random configuration, likelier to be a good one as the search proceeds."""
    values: dict[str, Value] = {
        **_BASELINE,
        "proxy_buffers": int(rng.choice([4, 8, 16, 32])),
        "proxy_buffer_size": str(rng.choice(["4k", "8k", "16k", "32k"])),
        "reuseport": bool(rng.random() < 0.3 + 0.6 * progress),
        "worker_processes": int(rng.choice([1, 2, 2, 4])),
    }
    if rng.random() < 0.4 + 0.6 * progress:
        values |= {
            "proxy_http_version": "1.1",
            "upstream_keepalive": int(2 ** rng.integers(2, 9)),
            "upstream_keepalive_requests": int(10 ** rng.integers(3, 6)),
            "upstream_keepalive_timeout": f"{int(rng.choice([15, 60, 120]))}s",
        }
    return values


def _effect(values: Mapping[str, Value]) -> float:
    """True ln ratio of the configuration against the baseline."""
    kept = int(values["upstream_keepalive"])
    effect = -0.52 * min(1.0, math.log2(kept + 1) / 5) if kept else 0.0
    effect -= 0.11 * (values["worker_processes"] == 2) - 0.06 * (values["worker_processes"] == 4)
    effect -= 0.04 * bool(values["reuseport"])
    return effect + 0.03 * (values["proxy_buffer_size"] == "32k")


def _gates(objective: Objective) -> Gates:
    return Gates(samples_needed=min(10_000, objective.samples_needed))


def _typical_ln(objective: Objective, block: Block, label: str) -> float:
    return objective.arm_ln(counted_windows(block, label))


def _add(configurations: dict[str, ConfigurationRecord], values: Mapping[str, Value]) -> str:
    digest = Configuration.of("nginx/proxy", values).digest
    configurations[digest] = ConfigurationRecord(
        "nginx/proxy", digest, dict(sorted(values.items())), _text(values)
    )
    return digest


def _text(values: Mapping[str, Value]) -> str:
    """Return the configuration as a file, much shorter than a real one."""
    kept = int(values["upstream_keepalive"])
    upstream = ["    upstream backend {", "        server 127.0.0.1:8081;"]
    proxy = []
    if kept:
        upstream += [
            f"        keepalive {kept};",
            f"        keepalive_requests {values['upstream_keepalive_requests']};",
            f"        keepalive_timeout {values['upstream_keepalive_timeout']};",
        ]
        proxy = [
            "            proxy_http_version 1.1;",
            '            proxy_set_header Connection "";',
        ]
    lines = [
        f"worker_processes {values['worker_processes']};",
        "events {",
        "    worker_connections 1024;",
        "}",
        "http {",
        *upstream,
        "    }",
        "    server {",
        f"        listen 80{' reuseport' if values['reuseport'] else ''};",
        "        location / {",
        "            proxy_pass http://backend;",
        *proxy,
        f"            proxy_buffer_size {values['proxy_buffer_size']};",
        f"            proxy_buffers {values['proxy_buffers']} {values['proxy_buffer_size']};",
        "        }",
        "    }",
        "}",
    ]
    return "\n".join(lines) + "\n"


_IMPORTANCE = {
    "upstream_keepalive": 0.61,
    "worker_processes": 0.19,
    "reuseport": 0.09,
    "proxy_buffer_size": 0.06,
    "upstream_keepalive_requests": 0.03,
    "proxy_buffers": 0.02,
}

_HOST = HostFacts(
    hostname="edge-3",
    cpus=(0, 1, 2, 3),
    cpu_model="AMD EPYC 7B13",
    memory_bytes=16 * 2**30,
    kernel="6.1.0-28-amd64",
    distribution="Debian GNU/Linux 12 (bookworm)",
    virtualisation="kvm",
    file_limit=1_048_576,
    somaxconn=4_096,
    realtime=True,
    user="deploy",
)
_SERVER = ServerFacts(
    name="nginx",
    binary="/usr/sbin/nginx",
    version="1.22.1",
    modules=("http_ssl", "http_v2", "threads"),
    build="nginx version: nginx/1.22.1\nbuilt with OpenSSL 3.0.15 3 Sep 2024\n",
)
