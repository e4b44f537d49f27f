"""The server under load, and how every program is run beside it: cores, priority, CPU time.

An isolated Nginx with one worker on a core of its own serves a file of 1 KB. Generators run one
after another on another core. Server and generators, tuner's and the others' alike, are preferred
to whatever else the machine does (docs/instrument.md, "Other processes"), where that is allowed.
"""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from tuner.facts import CoreSplit, split_cores
from tuner.hosts.local import free_ports
from tuner.load.native import NativeGenerator
from tuner.load.port import Endpoint, Mode, Next, Plan, WindowSpec
from tuner.measurement import Gates, Measurement, RawWindow, measure
from tuner.paths import loadgen_binary
from tuner.stalls import StallRule
from tuner.wire import Wire
from tuner.workload import Arrival, Request, Workload

CONNECTIONS = 32
BODY_BYTES = 1024
WARMUP_S = 0.5
PRIORITY = -20
"""As the instances and the generator have it in a study."""
RULE = StallRule()
GATES = Gates(samples_needed=368)
"""No two-sided 95 % interval of a p99 exists below 368 samples (order statistics)."""

_CONFIGURATION = """\
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log crit;
events {{ worker_connections 1024; }}
http {{
    access_log off; keepalive_requests 1000000000;
    client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
    uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
    server {{ listen 127.0.0.1:{port}; root {folder}/html; }}
}}
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a program wrote, and what it cost."""

    text: str
    cpu_s: float
    """User and system time of all its threads, from start to end."""


@dataclass(frozen=True, slots=True)
class Lab:
    """The running server, and the cores of both sides."""

    port: int
    cores: CoreSplit
    folder: Path
    spare_cpu: int
    """Where a capture may run: a third core, or else the server's, which is not always busy."""

    @property
    def url(self) -> str:
        """What is asked for."""
        return f"http://127.0.0.1:{self.port}/"

    def run(self, command: Sequence[str]) -> Outcome:
        """Run a generator on the generator's core, with its priority.

        Raises:
            click.ClickException: it failed; with its words.
        """
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with preferred(command, self.cores.generator[0]) as process:
            text, words = process.communicate()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if process.returncode != 0:
            raise click.ClickException(f"{' '.join(command)} failed:\n{words or text}")
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Outcome(text, cpu_s)

    def windows(
        self,
        mode: Mode,
        rate_per_s: float,
        seeds: Sequence[int],
        *,
        duration_s: float,
        arrival: Arrival = "poisson",
        rule: StallRule = RULE,
    ) -> list[Measurement]:
        """Measure one window per seed with tuner's generator, the way a study does."""
        get = Request(1.0, "GET", "/", (), b"", 200, BODY_BYTES, None)
        plan = Plan(
            workload=Workload("bench", "", Wire(), (get,), CONNECTIONS, arrival, 2.0, (), None),
            endpoints=(Endpoint("server", f"127.0.0.1:{self.port}"),),
            windows=tuple(
                WindowSpec(
                    f"{index}-server", "server", mode, rate_per_s, seed, WARMUP_S, duration_s
                )
                for index, seed in enumerate(seeds)
            ),
        )
        found: list[Measurement] = []

        def after(raw: RawWindow) -> Next:
            found.append(measure(raw, rule, GATES))
            return Next()

        NativeGenerator(loadgen_binary(), self.cores, rule).run(plan, after)
        return found

    def capacity_per_s(self, duration_s: float) -> float:
        """Closed-loop throughput, from which the stall rule takes the utilisation."""
        (window,) = self.windows("closed", 0.0, [1], duration_s=duration_s)
        return window.completed_per_s


@contextmanager
def open_lab() -> Iterator[Lab]:
    """Start the server on a core of its own; stop it in the end.

    Raises:
        click.ClickException: there is but one core, or the server does not start.
    """
    cpus = sorted(os.sched_getaffinity(0))
    split = split_cores(cpus, backend=False)
    if split.shared:
        raise click.ClickException("two cores are needed: one for the server, one for generators")
    # One worker needs one core; the ticker watches that one alone.
    cores = CoreSplit(split.generator, split.server[:1], (), shared=False)
    others = [cpu for cpu in cpus if cpu not in {*cores.generator, *cores.server}]
    with tempfile.TemporaryDirectory(prefix="tuner-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # the worker's account reads the page
        (folder / "html").mkdir()
        (folder / "html" / "index.html").write_bytes(b"x" * BODY_BYTES)
        (port,) = free_ports(1)
        configuration = folder / "nginx.conf"
        configuration.write_text(_CONFIGURATION.format(folder=folder, port=port), encoding="utf-8")
        command = ["nginx", "-c", str(configuration)]
        with preferred(command, cores.server[0]) as server:
            lab = Lab(port, cores, folder, (others or cores.server)[0])
            try:
                _await(lab.url, server)
                yield lab
            finally:
                server.terminate()
                server.communicate()


@contextmanager
def preferred(command: Sequence[str], cpu: int) -> Iterator[subprocess.Popen[str]]:
    """Start a program on one CPU, before all others where that is allowed; end it if need be.

    ``nice`` and ``taskset`` become the program, so its threads inherit both from the first on;
    without the privilege ``nice`` says so and goes on. Autogroups count niceness within one
    session only (sched(7)), so the program gets one of its own.
    """
    process = subprocess.Popen(
        ["nice", "-n", str(PRIORITY), "taskset", "-c", str(cpu), *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    with contextlib.suppress(OSError):
        Path(f"/proc/{process.pid}/autogroup").write_text(str(PRIORITY), encoding="utf-8")
    with process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def _await(url: str, server: subprocess.Popen[str]) -> None:
    for _ in range(100):
        try:
            urllib.request.urlopen(url, timeout=1).close()  # noqa: S310 - the lab's own URL
        except OSError:
            if server.poll() is not None:
                words = server.communicate()[1]
                raise click.ClickException(f"Nginx did not start: {words}") from None
            time.sleep(0.05)
        else:
            return
    raise click.ClickException("Nginx does not answer")


def setting() -> str:
    """When and where the figures were taken, in a line: without it they mean nothing later."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    nginx = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=True).stderr
    load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    return (
        f"{time.strftime('%Y-%m-%d %H:%M %Z')}; {os.cpu_count()} × {(models or ['?'])[0]};"
        f" Linux {platform.release()}; {nginx.strip().removeprefix('nginx version: ')};"
        f" load average {load}"
    )
