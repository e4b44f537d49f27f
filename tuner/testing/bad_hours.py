"""A host of bad hours on demand: real-time processes that take cores away by a seeded schedule.

On shared hosts the hypervisor takes cores away, at times from a study's start to its end. The
schedule here is like one that was measured: 60 stalls per second, most of about a millisecond,
some of 10 ms, which is 8 % of the core. A process with a priority above the generator's ticker
spins for the length of each stall, so the ticker, the server and the generator wait as they would
for a hypervisor. Unlike steal, the time counts as used in /proc/stat.

    python -m tuner.testing.bad_hours --cpus 1 -- tuner optimize --server nginx --workload proxy

In tests::

    with bad_hours((1,), Schedule(seed=3)):
        ...

The processes end with the one that started them, even after ``kill -9``: between two stalls they
wait for the end of their standard input.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import select
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist

import click

from tuner.errors import DefinitionError, HostError, TunerError

PRIORITY = 60
"""Real-time priority; the generator's ticker has 50."""
_MODULE = "tuner.testing.bad_hours"
_READY = "ready"
_PROC = Path("/proc/sys/kernel")


@dataclass(frozen=True, slots=True)
class Schedule:
    """Stalls of lognormal lengths after exponential gaps."""

    per_s: float = 60.0
    """Mean number of stalls per second and core."""
    median_s: float = 0.001
    """Median length of a stall."""
    sigma: float = 0.745
    """Standard deviation of the ln lengths; by default one stall in a thousand reaches 10 ms."""
    longest_s: float = 0.010
    """Limit for the length of a stall."""
    seed: int = 1

    def __post_init__(self) -> None:
        """Raise `DefinitionError` if stalls take the whole core."""
        if not 0 < self.share < 1:
            raise DefinitionError(
                f"{self.per_s:g} stalls of {1000 * self._mean_s:.3g} ms per second take"
                f" {self.share:.0%} of a core; the share must be between 0 and 100 %"
            )

    @property
    def share(self) -> float:
        """Share of the core's time that stalls take on average."""
        return self.per_s * self._mean_s

    def stalls(self, cpu: int) -> Iterator[tuple[float, float]]:
        """Yield the gap before each stall and its length, in seconds; each core has its own."""
        rng = random.Random(f"{self.seed}/{cpu}")
        gap_s = 1 / self.per_s - self._mean_s
        while True:
            gap = rng.expovariate(1 / gap_s)
            length = rng.lognormvariate(math.log(self.median_s), self.sigma)
            yield gap, min(length, self.longest_s)

    @property
    def _mean_s(self) -> float:
        """Mean of a lognormal length with a limit."""
        limit = math.log(self.longest_s / self.median_s) / self.sigma
        below = math.exp(self.sigma**2 / 2) * NormalDist().cdf(limit - self.sigma)
        return self.median_s * below + self.longest_s * (1 - NormalDist().cdf(limit))


@dataclass(frozen=True, slots=True)
class Stolen:
    """Stalls that happened on one core."""

    cpu: int
    spans_ns: tuple[tuple[int, int], ...]
    """Start and end of each stall, on the monotonic clock."""

    @property
    def total_s(self) -> float:
        """Total length of the stalls."""
        return sum(end - start for start, end in self.spans_ns) / 1e9


@dataclass(slots=True)
class BadHours:
    """Running processes, one per core."""

    schedule: Schedule
    processes: dict[int, subprocess.Popen[str]] = field(default_factory=dict)
    """By core."""
    stolen: tuple[Stolen, ...] = ()
    """Stalls by core; empty until the processes have ended."""

    def wait(self) -> None:
        """Wait until the processes have made as many stalls as they were asked for."""
        self._collect(close=False)

    def end(self) -> None:
        """End the processes and collect their stalls."""
        self._collect(close=True)

    def _collect(self, *, close: bool) -> None:
        if self.stolen:
            return
        if close:
            for process in self.processes.values():
                _close_input(process)
        found = []
        for cpu, process in self.processes.items():
            assert process.stdout is not None  # noqa: S101 - Popen was given a pipe
            text = process.stdout.read()
            _close_input(process)
            process.stdout.close()
            if process.wait() != 0 or not text:
                raise HostError(f"the process that stalls core {cpu} ended early")
            flat = json.loads(text)
            found.append(Stolen(cpu, tuple(zip(flat[::2], flat[1::2], strict=True))))
        self.stolen = tuple(found)


@contextlib.contextmanager
def bad_hours(
    cpus: Sequence[int], schedule: Schedule | None = None, *, stalls: int | None = None
) -> Iterator[BadHours]:
    """Take ``cpus`` away by ``schedule`` within the context.

    Args:
        cpus: cores to stall.
        schedule: by default the one that was measured.
        stalls: number of stalls after which the process of a core ends; by default they end with
            the context.

    Raises:
        HostError: real-time priority is not allowed, or a core does not exist.
    """
    running = BadHours(schedule or Schedule())
    try:
        for cpu in dict.fromkeys(cpus):
            running.processes[cpu] = _start(cpu, running.schedule, stalls)
        yield running
        running.end()
    finally:
        for process in running.processes.values():
            process.kill()
            process.wait()
            _close_input(process)
            if process.stdout is not None:
                process.stdout.close()


def throttled(schedule: Schedule, folder: Path = _PROC) -> str:
    """Return a warning if the kernel limits real-time processes to less than the schedule's share.

    Args:
        schedule: the schedule.
        folder: place of ``sched_rt_runtime_us`` and ``sched_rt_period_us`` (sched(7)).
    """
    try:
        runtime_us = int((folder / "sched_rt_runtime_us").read_text())
        period_us = int((folder / "sched_rt_period_us").read_text())
    except (OSError, ValueError):
        return ""
    if runtime_us < 0 or schedule.share <= runtime_us / period_us:
        return ""
    return (
        f"the kernel limits real-time processes to {runtime_us / period_us:.0%} of a core, and the"
        f" schedule takes {schedule.share:.0%}: stalls will be shorter; raise"
        f" {folder / 'sched_rt_runtime_us'}"
    )


def _start(cpu: int, schedule: Schedule, stalls: int | None) -> subprocess.Popen[str]:
    # A session of its own: Ctrl-C reaches the parent, which ends the process.
    command = [sys.executable, "-m", _MODULE, "--cpus", str(cpu), "--worker", str(stalls or 0)]
    process = subprocess.Popen(
        [*command, *_options(schedule)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert process.stdout is not None  # noqa: S101 - Popen was given a pipe
    answer = process.stdout.readline().strip()
    if answer != _READY:
        process.kill()
        process.wait()
        _close_input(process)
        process.stdout.close()
        raise HostError(answer or f"the process that stalls core {cpu} cannot be started")
    return process


def _close_input(process: subprocess.Popen[str]) -> None:
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()


def prepare(cpu: int) -> None:
    """Pin this process to ``cpu`` with real-time priority.

    Raises:
        HostError: it is not allowed, or the core does not exist.
    """
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError as error:
        raise HostError(f"core {cpu} cannot be used: {error.strerror}") from error
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except OSError as error:
        raise HostError(
            f"real-time priority {PRIORITY} is not allowed here ({error.strerror}); run as root,"
            f" allow it with `ulimit -r {PRIORITY}`, or start the container with"
            " --cap-add SYS_NICE"
        ) from error


def _steal(cpu: int, schedule: Schedule, limit: int) -> None:
    """Stall this process's core until standard input ends, or for ``limit`` stalls."""
    try:
        prepare(cpu)
    except HostError as error:
        click.echo(str(error))
        return
    click.echo(_READY)
    spans = array("q")
    clock = time.monotonic_ns
    for gap_s, length_s in schedule.stalls(cpu):
        if select.select([sys.stdin], [], [], gap_s)[0]:
            break
        start = clock()
        end = start + round(length_s * 1e9)
        while clock() < end:
            pass
        spans.extend((start, clock()))
        if len(spans) == 2 * limit:
            break
    with contextlib.suppress(BrokenPipeError):
        click.echo(json.dumps(spans.tolist()))


def _options(schedule: Schedule) -> list[str]:
    values = {
        "per-s": schedule.per_s,
        "median-ms": 1000 * schedule.median_s,
        "sigma": schedule.sigma,
        "longest-ms": 1000 * schedule.longest_s,
        "seed": schedule.seed,
    }
    return [f"--{name}={value!r}" for name, value in values.items()]


def _cpus(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise click.BadParameter(f"{text!r} must be a list of cores, as 0,1") from error


_DEFAULT = Schedule()


@click.command(context_settings={"show_default": True})
@click.option("--cpus", callback=_cpus, required=True, help="Cores to stall, as 0,1.")
@click.option("--per-s", default=_DEFAULT.per_s, help="Stalls per second.")
@click.option("--median-ms", default=1000 * _DEFAULT.median_s, help="Median length of a stall.")
@click.option("--sigma", default=_DEFAULT.sigma, help="Standard deviation of the ln lengths.")
@click.option("--longest-ms", default=1000 * _DEFAULT.longest_s, help="Limit for the length.")
@click.option("--seed", default=_DEFAULT.seed, help="Seed of the schedule.")
@click.option("--worker", type=int, hidden=True, help="Stall one core for N stalls (0: no limit).")
@click.argument("command", nargs=-1)
def main(
    *,
    cpus: tuple[int, ...],
    per_s: float,
    median_ms: float,
    sigma: float,
    longest_ms: float,
    seed: int,
    worker: int | None,
    command: tuple[str, ...],
) -> None:
    """Take cores away by a seeded schedule while COMMAND runs, or until standard input ends.

    The exit code is COMMAND's.
    """
    try:
        schedule = Schedule(per_s, median_ms / 1000, sigma, longest_ms / 1000, seed)
        if worker is not None:
            _steal(cpus[0], schedule, worker)
        else:
            sys.exit(_run(cpus, schedule, command))
    except TunerError as error:
        click.echo(f"bad_hours: {error}", err=True)
        sys.exit(error.exit_code)


def _run(cpus: Sequence[int], schedule: Schedule, command: Sequence[str]) -> int:
    if warning := throttled(schedule):
        click.echo(f"bad_hours: {warning}", err=True)
    code = 0
    with bad_hours(cpus, schedule) as running:
        click.echo(
            f"bad_hours: {schedule.per_s:g} stalls/s take {schedule.share:.1%} of core"
            f" {', '.join(map(str, cpus))} (seed {schedule.seed})",
            err=True,
        )
        with contextlib.suppress(KeyboardInterrupt):
            code = _wait_for(command)
    for core in running.stolen:
        click.echo(
            f"bad_hours: core {core.cpu}: {len(core.spans_ns)} stalls, {core.total_s:.3f} s",
            err=True,
        )
    return code


def _wait_for(command: Sequence[str]) -> int:
    """Run the command; without one, wait for the end of standard input."""
    if not command:
        sys.stdin.read()
        return 0
    try:
        process = subprocess.Popen(command)
    except OSError as error:
        raise DefinitionError(f"{command[0]} cannot be started: {error.strerror}") from error
    while True:
        # Ctrl-C reaches the command too, which ends in its own way.
        with contextlib.suppress(KeyboardInterrupt):
            code = process.wait()
            return code if code >= 0 else 128 - code


if __name__ == "__main__":
    main()
