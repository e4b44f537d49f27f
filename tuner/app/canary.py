"""The check of a changed host: the study's claim, before and after the change.

The native generator probes the host in an open loop at a modest rate, in windows. The same number
of windows is measured before and after the change, alternating with those of an unchanged host if
there is one, so that common drift cancels. ``judge`` has the rule. docs/fleet.md describes the
limits: the figure is the probes' latency at the probes' rate, from this machine. Throughput is
measured with short bursts of a closed loop of few connections.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuner.app.probe_target import CONNECTIONS, PATIENCE_S, ProbeTarget, probe_target
from tuner.errors import DefinitionError, HostError, quoted
from tuner.generators.generator import LoadGenerator, Next, WindowPlan, WindowSpec
from tuner.generators.native import NativeGenerator
from tuner.goals.constraint import Constraint
from tuner.goals.metric import quantile_of
from tuner.goals.objective import Objective
from tuner.hosts.agent import Usage
from tuner.hosts.inventory import Host
from tuner.machine.facts import CoreSplit
from tuner.measurement.instrument import Mode
from tuner.measurement.stalls import StallRule
from tuner.measurement.window import RawWindow, Samples
from tuner.paths import loadgen_binary
from tuner.stats.paired import PairedEstimate, estimate, minimum_blocks

MARGIN = 0.10
"""Share above which a host counts as worse."""
CONFIDENCE = 0.99
"""Confidence of the interval that must lie beyond the margin."""
_WINDOWS = 10
_LEAST_PER_WINDOW = 50
_WARMUP_S = 0.2
_BURST_S = 0.5
"""Length of a window for throughput; short, because the host has users."""
_RESOURCES = ("cpu", "memory")
THROUGHPUT = "throughput"
FIGURES = f"a percentile such as p99, {THROUGHPUT}, {', '.join(_RESOURCES)}"

ReadUsage = Callable[[Host], Usage]
"""Reader of a service's current resource use on a host."""


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """The probes of a host: address, number and rate."""

    url: str
    """URL of the probes; ``{host}`` is the address of the host."""
    probes: int
    """Requests of each of the two measurements."""
    rate_per_s: float
    metric: str
    """The compared figure: a percentile, ``throughput``, ``cpu`` or ``memory``."""
    limit: Constraint | None = None
    """A percentile that must hold after the change."""
    claimed: Constraint | None = None
    """Limit of a claimed capacity: it must hold after the change if it held before."""

    @property
    def windows(self) -> int:
        """Number of windows of each measurement."""
        return max(1, min(_WINDOWS, self.probes // _LEAST_PER_WINDOW))

    @property
    def window_s(self) -> float:
        """Length of one window."""
        return self.probes / self.windows / self.rate_per_s

    @property
    def longest_s(self) -> float:
        """Longest time of one measurement with a control."""
        burst_s = _BURST_S + _WARMUP_S + PATIENCE_S if self.metric == THROUGHPUT else 0.0
        return 2 * (self.windows + 1) * (self.window_s + _WARMUP_S + PATIENCE_S + burst_s)

    @property
    def statements(self) -> tuple[str, ...]:
        """Notice for the user on a check with a high load; otherwise empty."""
        words = (
            f"the study claims throughput, so the check loads each host with {CONNECTIONS}"
            f" connections in a closed loop, {self.windows} times {_BURST_S:g} s before and after"
            " its change; --figure p99 compares latency at the probes' rate instead"
        )
        return (words,) if self.metric == THROUGHPUT else ()


def metric_of(objective: Objective) -> str:
    """Return the figure to compare for an objective.

    A capacity needs a load beyond the limit, which a production host must not get. So the
    percentile of the limit is compared, and the limit must hold at the probes' rate.
    """
    return objective.name if objective.slo is None else objective.slo.metric.name


def read_figure(text: str) -> str:
    """Return the name of a comparable figure.

    Raises:
        DefinitionError: probes cannot measure it.
    """
    if text not in (THROUGHPUT, *_RESOURCES) and quantile_of(text) is None:
        raise DefinitionError(
            f"probes cannot compare {quoted(text)}; allowed: {FIGURES}", path="--figure"
        )
    return text


@dataclass(frozen=True, slots=True)
class HostSample:
    """A measurement of one host."""

    latencies_us: tuple[NDArray[np.float64], ...]
    """Corrected latencies of the answered probes, by window."""
    values: tuple[float, ...]
    """Values of the compared figure, by window."""

    def quantile_us(self, share: float) -> float:
        """Return a quantile of all probes."""
        return _quantile(np.concatenate(self.latencies_us), share)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A changed host compared with itself before the change."""

    ratio: PairedEstimate | None
    """Ratio after / before; None with too few windows."""
    worse: bool


def judge(
    before: Sequence[float],
    after: Sequence[float],
    control_before: Sequence[float] = (),
    control_after: Sequence[float] = (),
) -> Judgement:
    """Compare the windows of a host before and after its change; smaller is better.

    Windows of the same number are pairs; with a control, its change is subtracted from each. The
    host is worse if the 99 % interval of the ratio (exact signed-rank test, Hodges-Lehmann) lies
    above 1 + ``MARGIN``. Windows of a host that did not become worse by more than the margin are
    called worse with a probability of at most 0.5 %, if windows are independent.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        differences = np.log(after) - np.log(before)
        if control_before:
            differences -= np.log(control_after) - np.log(control_before)
    differences = differences[np.isfinite(differences)]
    if len(differences) < minimum_blocks(CONFIDENCE):
        return Judgement(None, worse=False)
    found = estimate(differences, CONFIDENCE)
    return Judgement(found, worse=found.low > 1 + MARGIN)


class Probes:
    """A client that probes hosts, and compares their answers before and after.

    Args:
        asked: parameters of the probes.
        usage: reader of a service's resource use, for CPU or memory.
        generator: load generator; by default the native one on this machine.
    """

    def __init__(
        self, asked: ProbeOptions, usage: ReadUsage, generator: LoadGenerator | None = None
    ) -> None:
        self.asked = asked
        self._usage = usage
        self._generator = generator or _generator()

    @property
    def longest_s(self) -> float:
        """Longest time of one measurement."""
        return self.asked.longest_s

    def look(self, hosts: Sequence[Host]) -> Mapping[str, HostSample]:
        """Measure hosts in turn, window by window.

        Args:
            hosts: the changed one first; others count if they answer the same request.

        Raises:
            HostError: a probe fails, or is not answered in time.
        """
        first = probe_target(self.asked.url, hosts[0])
        asked = [first, *self._controls(first, hosts[1:])]
        looks = self._measured(asked, "open")
        if self.asked.metric != THROUGHPUT:
            return looks
        bursts = self._measured(asked, "closed")
        return {name: replace(look, values=bursts[name].values) for name, look in looks.items()}

    def _measured(self, targets: Sequence[ProbeTarget], mode: Mode) -> dict[str, HostSample]:
        """Measure hosts in turn, in windows of one mode.

        Raises:
            HostError: see ``look``.
        """
        hosts = [target.host for target in targets]
        window_s = self.asked.window_s if mode == "open" else _BURST_S
        specs = [
            WindowSpec(
                # The first window of each host is a warm-up, and does not count.
                window_id=f"{host.name}-{number}",
                instance=host.name,
                mode=mode,
                rate_per_s=self.asked.rate_per_s,
                seed=number,
                warmup_s=_WARMUP_S,
                duration_s=window_s if number else _WARMUP_S,
            )
            for number in range(self.asked.windows + 1)
            for host in hosts
        ]
        endpoints = tuple(target.endpoint for target in targets)
        plan = WindowPlan(targets[0].workload, endpoints, tuple(specs))
        windows = _Windows(self.asked, self._usage, hosts)
        self._generator.run(plan, windows.after)
        return {host.name: windows.look(host) for host in hosts}

    def _controls(self, first: ProbeTarget, hosts: Sequence[Host]) -> Iterator[ProbeTarget]:
        for host in hosts:
            # A fault of another host must not affect the judgement of this one.
            with contextlib.suppress(HostError):
                found = probe_target(self.asked.url, host)
                if found.workload == first.workload:
                    yield found

    def checked(
        self, host: Host, before: Mapping[str, HostSample], control: Host | None, claim: str
    ) -> str:
        """Measure a changed host again and compare; return the outcome in words.

        Args:
            host: the changed one.
            before: result of ``look`` before the change.
            control: a host that did not change; None without one.
            claim: the study's claim, in words.

        Raises:
            HostError: a probe fails, the limit does not hold, or the host became worse.
        """
        hosts = [host] if control is None else [host, control]
        after = self.look(hosts)
        seen = after[host.name]
        words = self._shown(seen)
        limit = self.asked.limit
        if limit is not None and limit.metric.quantile is not None:
            found_us = seen.quantile_us(limit.metric.quantile)
            if found_us > limit.limit:
                raise HostError(
                    f"{host.name}: {limit.metric.name} of the probes is {found_us / 1e3:.2f} ms,"
                    f" which misses the limit {limit.text}"
                )
        self._check_claimed(host, before[host.name], seen)
        if control is not None and not (control.name in before and control.name in after):
            control = None
        pair = (before[control.name].values, after[control.name].values) if control else ((), ())
        found = judge(before[host.name].values, seen.values, *pair)
        if found.ratio is None:
            least = minimum_blocks(CONFIDENCE)
            if self.asked.windows >= least:
                return f"{words}; {self.asked.metric} is unknown, so there is no comparison"
            probes = least * _LEAST_PER_WINDOW
            return f"{words}; too few probes for a comparison (use --probes {probes} or more)"
        against = f", against {control.name}" if control else ""
        ratio, low, high = found.ratio.ratio, found.ratio.low, found.ratio.high
        if self.asked.metric == THROUGHPUT:
            ratio, low, high = 1 / ratio, 1 / high, 1 / low
        words = (
            f"{words}; {self.asked.metric} after / before {ratio:.3f} (99 % interval"
            f" {low:.3f} to {high:.3f}{against}); {claim}"
        )
        if found.worse:
            raise HostError(
                f"{host.name} is worse by more than {MARGIN:.0%} since its change: {words}"
            )
        return words

    def _check_claimed(self, host: Host, before: HostSample, after: HostSample) -> None:
        """Check that the limit of a claimed capacity still holds at the probes' rate.

        Raises:
            HostError: it held before, and is now missed by more than the margin.
        """
        limit = self.asked.claimed
        if limit is None or limit.metric.quantile is None:
            return
        found_us, was_us = (look.quantile_us(limit.metric.quantile) for look in (after, before))
        if was_us <= limit.limit < found_us / (1 + MARGIN):
            raise HostError(
                f"{host.name}: {limit.metric.name} {found_us / 1e3:.2f} ms at"
                f" {self.asked.rate_per_s:g} probes/s misses the limit {limit.text}, which it met"
                " before the change"
            )

    def _shown(self, look: HostSample) -> str:
        shares = {"p50": 0.5, "p99": 0.99}
        if self.asked.limit is not None and self.asked.limit.metric.quantile is not None:
            shares[self.asked.limit.metric.name] = self.asked.limit.metric.quantile
        count = sum(map(len, look.latencies_us))
        seen = ", ".join(f"{n} {look.quantile_us(q) / 1e3:.2f} ms" for n, q in shares.items())
        return f"{count} probes answered, {seen}"


def _generator() -> NativeGenerator:
    """Return the native generator on one core of this machine, without busy waiting."""
    cpus = sorted(os.sched_getaffinity(0))
    cores = CoreSplit((cpus[-1],), (), (), shared=True)
    return NativeGenerator(loadgen_binary(), cores, StallRule())


class _Windows:
    """The completed windows of a measurement."""

    def __init__(self, asked: ProbeOptions, usage: ReadUsage, hosts: Sequence[Host]) -> None:
        self._asked = asked
        self._hosts = hosts
        self._usage = usage if asked.metric in _RESOURCES else None
        self._begun = self._used(0)
        self._latencies: dict[str, list[NDArray[np.float64]]] = {}
        self._values: dict[str, list[float]] = {}
        self._ended = 0

    def after(self, window: RawWindow) -> Next:
        """Add a completed window; see ``LoadGenerator.run``."""
        place = self._ended % len(self._hosts)
        host = self._hosts[place]
        ended = self._used(place)
        try:
            taken_us = _answered(host, self._asked, window)
            value = self._value(window, taken_us, self._begun, ended)
        except HostError:
            if place == 0:
                raise
            taken_us, value = np.empty(0), math.nan
        if self._ended >= len(self._hosts):
            self._latencies.setdefault(host.name, []).append(taken_us)
            self._values.setdefault(host.name, []).append(value)
        self._ended += 1
        single = len(self._hosts) == 1
        self._begun = ended if single else self._used(self._ended % len(self._hosts))
        return Next()

    def look(self, host: Host) -> HostSample:
        """Return the measurements of a host."""
        return HostSample(tuple(self._latencies[host.name]), tuple(self._values[host.name]))

    def _used(self, place: int) -> Usage | None:
        return self._usage(self._hosts[place]) if self._usage else None

    def _value(
        self,
        window: RawWindow,
        taken_us: NDArray[np.float64],
        begun: Usage | None,
        ended: Usage | None,
    ) -> float:
        if self._asked.metric == THROUGHPUT:
            return window.duration_s / window.completed  # Smaller is better.
        if begun is None or ended is None:
            return _quantile(taken_us, quantile_of(self._asked.metric) or 0.5)
        if self._asked.metric == "memory":
            return ended.rss_bytes / 2**20
        return (ended.cpu_s - begun.cpu_s) / len(taken_us) * 1e6


def _answered(host: Host, asked: ProbeOptions, window: RawWindow) -> NDArray[np.float64]:
    """Return the latencies of a window, µs.

    Raises:
        HostError: a probe was not answered, or its answer differs from the first one.
    """
    unanswered = window.offered - window.completed
    if unanswered or window.errors or window.timeouts or not window.completed:
        reasons = ", ".join(f"{count} × {what}" for what, count in window.errors.items())
        raise HostError(
            f"{host.name}: {unanswered} of {window.offered} probes of"
            f" {asked.url.replace('{host}', host.address)} failed: {reasons or 'no answer in time'}"
        )
    assert isinstance(window.samples, Samples)  # noqa: S101 - the native generator's
    samples = window.samples
    taken_ns = (samples.completed_ns - samples.intended_ns)[samples.outcome == 0]
    taken_us: NDArray[np.float64] = taken_ns / 1e3
    return taken_us


def _quantile(values: NDArray[np.float64], share: float) -> float:
    return float(np.sort(values)[math.ceil(share * len(values)) - 1])
