"""How good is the instrument? `tuner-loadgen` beside other generators, on this machine, in one run.

An isolated Nginx with one worker on one core serves a file of 1 KB; each generator has another
core to itself. Tools that are on the PATH are compared: wrk2 and oha (open loop, corrected
latency), wrk (closed loop). Figures of one run are comparable with each other, not with those of
another day or machine, so what counts is the ratios. Run it with `make bench`, on a quiet machine.
"""

from __future__ import annotations

import json
import math
import os
import re
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from tuner.facts import CoreSplit, split_cores
from tuner.hosts.local import free_ports
from tuner.load.native import NativeGenerator
from tuner.load.port import Endpoint, Next, Plan, WindowSpec
from tuner.measurement import Gates, Measurement, RawWindow, measure
from tuner.paths import loadgen_binary
from tuner.stalls import StallRule
from tuner.workload import Request, Workload

RATES_PER_S = (1_000, 5_000, 20_000)
REPEATS = 3
DURATION_S = 5
CONNECTIONS = 32
RULE = StallRule()

CONFIGURATION = """\
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
class Quantiles:
    """What a tool said of one window."""

    p50_us: float
    p99_us: float


@dataclass(frozen=True, slots=True)
class Lab:
    """The server under load, and the cores of both sides."""

    port: int
    pid: int
    cores: CoreSplit

    @property
    def url(self) -> str:
        """What is asked for."""
        return f"http://127.0.0.1:{self.port}/"

    def confined(self, *command: str) -> tuple[str, float, float]:
        """Run another generator on the generator's core: its output, CPU s, wall-clock s."""
        cpus = ",".join(map(str, self.cores.generator))
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        output = subprocess.run(
            ["taskset", "-c", cpus, *command], capture_output=True, text=True, check=True
        ).stdout
        after, end = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return output, cpu_s, end - start


@contextmanager
def lab() -> Iterator[Lab]:
    """Start the server on a core of its own; stop it in the end."""
    cores = split_cores(sorted(os.sched_getaffinity(0)), backend=False)
    if cores.shared:
        raise SystemExit("make bench needs two cores: server and generator would share the one")
    with tempfile.TemporaryDirectory(prefix="tuner-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "html").mkdir()
        (folder / "html" / "index.html").write_bytes(b"x" * 1024)
        (port,) = free_ports(1)
        configuration = folder / "nginx.conf"
        configuration.write_text(CONFIGURATION.format(folder=folder, port=port), encoding="utf-8")
        server = subprocess.Popen(
            ["taskset", "-c", str(cores.server[0]), "nginx", "-c", str(configuration)],
            stderr=subprocess.DEVNULL,
        )
        try:
            _await(f"http://127.0.0.1:{port}/", server)
            yield Lab(port=port, pid=server.pid, cores=cores)
        finally:
            server.terminate()
            server.wait()


def _await(url: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(100):
        try:
            urllib.request.urlopen(url, timeout=1).close()  # noqa: S310 - the lab's own URL
        except OSError:
            if server.poll() is not None:
                raise SystemExit("the bench's Nginx did not start") from None
            time.sleep(0.05)
        else:
            return
    raise SystemExit("the bench's Nginx does not answer")


def native(lab: Lab, mode: str, rate_per_s: float, windows: int) -> list[Measurement]:
    """Measure windows with tuner's own generator, as a study does."""
    get = Request(1.0, "GET", "/", (), b"", 200, 1024, None)
    workload = Workload("bench", "", "http/1.1", (get,), CONNECTIONS, "poisson", 2.0, (), None)
    plan = Plan(
        workload=workload,
        endpoints=(Endpoint("server", f"127.0.0.1:{lab.port}", (lab.pid,)),),
        windows=tuple(
            WindowSpec(
                window_id=f"{index}-server",
                instance="server",
                mode="closed" if mode == "closed" else "open",
                rate_per_s=rate_per_s,
                seed=index,
                warmup_s=0.5,
                duration_s=DURATION_S,
            )
            for index in range(windows)
        ),
    )
    found: list[Measurement] = []

    def after(raw: RawWindow) -> Next:
        found.append(measure(raw, RULE, Gates(samples_needed=368)))
        return Next()

    NativeGenerator(loadgen_binary(), lab.cores, RULE).run(plan, after)
    return found


def ours(lab: Lab, rate_per_s: int) -> Quantiles:
    """One window of tuner-loadgen; raw, as the others know nothing of stalls."""
    (window,) = native(lab, "open", rate_per_s, 1)
    return Quantiles(window.raw.p50_us, window.raw.p99_us)


def wrk2(lab: Lab, rate_per_s: int) -> Quantiles:
    """One window of wrk2; it calibrates for 10 s and throws those away."""
    output, _, _ = lab.confined(
        *("wrk2", "-t1", f"-c{CONNECTIONS}", f"-d{DURATION_S + 10}s", f"-R{rate_per_s}"),
        *("--latency", lab.url),
    )
    return Quantiles(_wrk2_us(output, "50.000"), _wrk2_us(output, "99.000"))


def _wrk2_us(output: str, percent: str) -> float:
    found = re.search(rf"^\s*{re.escape(percent)}%\s+([\d.]+)(us|ms|s)$", output, re.MULTILINE)
    if found is None:
        raise SystemExit(f"wrk2 said something unexpected:\n{output}")
    return float(found[1]) * {"us": 1, "ms": 1e3, "s": 1e6}[found[2]]


def oha(lab: Lab, rate_per_s: int) -> Quantiles:
    """One window of oha with its latency correction."""
    output, _, _ = lab.confined(
        *("oha", "--no-tui", "--output-format", "json", "--latency-correction"),
        *("-q", str(rate_per_s), "-c", str(CONNECTIONS), "-z", f"{DURATION_S}s", lab.url),
    )
    percentiles = json.loads(output)["latencyPercentiles"]
    return Quantiles(percentiles["p50"] * 1e6, percentiles["p99"] * 1e6)


def open_loop(lab: Lab) -> None:
    """Print corrected latencies at several rates: medians of interleaved windows."""
    known: dict[str, Callable[[Lab, int], Quantiles]] = {"wrk2": wrk2, "oha": oha}
    tools = {"tuner-loadgen": ours} | {n: f for n, f in known.items() if shutil.which(n)}
    for name in known.keys() - tools.keys():
        click.echo(f"({name} is not on the PATH)")
    click.echo("\nOpen loop, corrected latency, median of windows in turn")
    click.echo(f"{'rate/s':>8}  {'tool':14} {'p50 µs':>9} {'p99 µs':>9}  our p50 / its p50")
    for rate in RATES_PER_S:
        windows: dict[str, list[Quantiles]] = {name: [] for name in tools}
        for _ in range(REPEATS):
            for name, tool in tools.items():
                windows[name].append(tool(lab, rate))
        p50_us = {n: statistics.median(w.p50_us for w in found) for n, found in windows.items()}
        p99_us = {n: statistics.median(w.p99_us for w in found) for n, found in windows.items()}
        for name in tools:
            ratio = p50_us["tuner-loadgen"] / p50_us[name]
            click.echo(f"{rate:8}  {name:14} {p50_us[name]:9.1f} {p99_us[name]:9.1f}  {ratio:.2f}")


def steadiness(lab: Lab, rate_per_s: int = 5_000, windows: int = 10) -> None:
    """Print how much p99 scatters between windows of one and the same instance."""
    found = native(lab, "open", rate_per_s, windows)
    raw = statistics.stdev(math.log(window.raw.p99_us) for window in found)
    free = statistics.stdev(math.log(window.stall_free.p99_us) for window in found)
    share = statistics.mean(window.excluded_share for window in found)
    invalid = sum(not window.valid for window in found)
    click.echo(f"\n{windows} A/A windows of {DURATION_S} s at {rate_per_s}/s")
    click.echo(f"sd of ln p99: raw {raw:.3f}, stall-free {free:.3f} ({share:.1%} excluded)")
    click.echo("stall-free p99, µs: " + " ".join(f"{w.stall_free.p99_us:.0f}" for w in found))
    click.echo("raw p99, µs:        " + " ".join(f"{w.raw.p99_us:.0f}" for w in found))
    click.echo(f"invalid windows: {invalid}")


def closed_loop(lab: Lab) -> None:
    """Print saturation throughput and the generator's CPU time for each request."""
    click.echo("\nClosed loop, one thread, median of windows in turn")
    figures: dict[str, list[tuple[float, float]]] = {"tuner-loadgen": []}
    if shutil.which("wrk"):
        figures["wrk"] = []
    for _ in range(REPEATS):
        (window,) = native(lab, "closed", 0.0, 1)
        cpu_us = window.generator_cpu_s / window.completed * 1e6
        figures["tuner-loadgen"].append((window.completed_per_s, cpu_us))
        if "wrk" in figures:
            output, cpu_s, _ = lab.confined(
                "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{DURATION_S}s", lab.url
            )
            done = re.search(r"(\d+) requests in ([\d.]+)s", output)
            if done is None:
                raise SystemExit(f"wrk said something unexpected:\n{output}")
            count = int(done[1])
            figures["wrk"].append((count / float(done[2]), cpu_s / count * 1e6))
    for name, windows in figures.items():
        rate_per_s = statistics.median(rate for rate, _ in windows)
        cpu_us = statistics.median(cpu for _, cpu in windows)
        click.echo(f"{name:14} {rate_per_s:10.0f} requests/s  {cpu_us:6.2f} µs of CPU each")


def main() -> None:
    """Run all three."""
    with lab() as bench:
        open_loop(bench)
        steadiness(bench)
        closed_loop(bench)


if __name__ == "__main__":
    main()
