"""Real servers that are stopped in the slices of the others, and what clients notice: nothing."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.hosts.nginxes import NGINX
from tests.servers.labs import free_ports, here
from tuner.paths import loadgen_binary
from tuner.servers.certificate import Certificate, make_certificate

pytestmark = pytest.mark.integration

PAGE = "x" * 1_024
SLICES_MS = (20, 50)
NGINX_CONF = """
worker_processes 2;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    keepalive_requests 1000000;
    client_body_temp_path {folder}/a;
    proxy_temp_path {folder}/b;
    fastcgi_temp_path {folder}/c;
    uwsgi_temp_path {folder}/d;
    scgi_temp_path {folder}/e;
    server {{
        listen 127.0.0.1:{port} {options};
        ssl_certificate {folder}/cert.pem;
        ssl_certificate_key {folder}/key.pem;
        location = / {{ return 200 "{page}"; }}
    }}
}}
"""
CADDYFILE = """
{{
    admin off
    auto_https off
    persist_config off
    # A killed generator leaves HTTP/3 connections that time out after 30 s.
    grace_period 1s
}}
{scheme}://127.0.0.1:{port} {{
    {tls}
    respond "{page}"
}}
"""


@dataclass(frozen=True)
class Case:
    """A server, and the protocol that it is asked in."""

    server: str
    protocol: str
    encrypted: bool

    def __str__(self) -> str:
        """Return its name in the list of tests."""
        return f"{self.server}-{self.protocol}"


CASES = [
    Case("nginx", "http1", encrypted=False),
    Case("nginx", "http2", encrypted=True),
    Case("caddy", "http1", encrypted=False),
    Case("caddy", "http2", encrypted=True),
    Case("caddy", "http3", encrypted=True),
]


@dataclass(frozen=True)
class Running:
    """A server that answers."""

    port: int
    pids: list[int]

    @property
    def states(self) -> set[str]:
        """The states of its processes: S, R, T (stopped) and others."""
        return {_state(pid) for pid in self.pids}


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _family(pid: int) -> list[int]:
    """Return a process and its children, itself first."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def _await(what: str, happened: Callable[[], bool]) -> None:
    """Wait for an event; the time is for a test that fails only."""
    until = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < until, f"never: {what}"
        time.sleep(0.001)


def _answers(port: int, *, encrypted: bool) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as plain:
            if encrypted:
                context.wrap_socket(plain).close()
    except OSError:
        return False
    return True


def _command(case: Case, folder: Path, port: int) -> list[str]:
    if case.server == "nginx":
        options = "ssl http2" if case.encrypted else ""
        conf = folder / "nginx.conf"
        conf.write_text(NGINX_CONF.format(folder=folder, port=port, options=options, page=PAGE))
        return [str(NGINX), "-p", f"{folder}/", "-c", str(conf), "-e", str(folder / "error.log")]
    tls = f"tls {folder}/cert.pem {folder}/key.pem" if case.encrypted else ""
    scheme = "https" if case.encrypted else "http"
    conf = folder / "Caddyfile"
    conf.write_text(CADDYFILE.format(scheme=scheme, port=port, tls=tls, page=PAGE))
    return [str(here("caddy").binary), "run", "--config", str(conf)]


@contextlib.contextmanager
def _server(case: Case, folder: Path, certificate: Certificate) -> Iterator[Running]:
    here(case.server)
    folder.mkdir()
    (folder / "cert.pem").write_text(certificate.chain)
    (folder / "key.pem").write_text(certificate.key)
    (port,) = free_ports(1)
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(_command(case, folder, port), stdout=output, stderr=output)
    try:
        _await("the server answers", lambda: _answers(port, encrypted=case.encrypted))
        yield Running(port, _family(process.pid))
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def _two(case: Case, folder: Path) -> Iterator[tuple[dict[str, Any], list[Running]]]:
    """Start two servers; yield a plan of frozen windows over them."""
    certificate = make_certificate()
    (folder / "ca.pem").write_text(certificate.ca)
    with contextlib.ExitStack() as stack:
        servers = [
            stack.enter_context(_server(case, folder / name, certificate)) for name in ("a", "b")
        ]
        tls = {"ca_file": str(folder / "ca.pem"), "server_name": "localhost"}
        instances = [
            {
                "id": name,
                "address": f"127.0.0.1:{server.port}",
                "pids": server.pids,
                "protocol": case.protocol,
                "tls": tls if case.encrypted else None,
            }
            for name, server in zip(("a", "b"), servers, strict=True)
        ]
        windows = [
            {
                "id": f"w{length_ms}",
                "slices": {"instances": ["a", "b"], "length_ms": length_ms, "freeze": True},
                "mode": "open",
                "rate_per_s": 1_000,
                "connections": 4,
                "streams": 1 if case.protocol == "http1" else 4,
                "warmup_s": 0.1,
                "duration_s": 1.0,
                "timeout_s": 10,
            }
            for length_ms in SLICES_MS
        ]
        requests = [{"path": "/", "expect": {"status": 200, "length": len(PAGE)}}]
        plan = {"version": 1, "spin": "off", "requests": requests, "instances": instances}
        yield plan | {"windows": windows}, servers


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_frozen_server_loses_nothing(tmp_path: Path, case: Case) -> None:
    """No error, no timeout, no new connection and no retry, in slices of 20 and of 50 ms."""
    with _two(case, tmp_path) as (plan, servers):
        done = subprocess.run(
            [str(loadgen_binary()), "plan", "-"],
            input=json.dumps(plan) + "\n",
            capture_output=True,
            text=True,
            check=True,
        )
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert not {state for server in servers for state in server.states} & {"T"}
    windows = [line for line in lines if line["type"] == "window"]
    assert len(windows) == 2 * len(SLICES_MS)
    command = [str(loadgen_binary()), "schema", "window"]
    schema = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    # On a starved machine the answers of a slice may come after its end: nothing is stopped then.
    assert sum(line["slices"]["frozen_s"] for line in windows) > 0
    assert sum(line["completed"] for line in windows) > 0
    for line in windows:
        Draft202012Validator(schema).validate(line)
        assert line["errors"] == {}
        # A starved machine may give an instance up: from then on, it is sent nothing.
        unsent = line["unsent"] if line["slices"]["behind"] else 0
        assert 0 < line["offered"] == line["completed"] + unsent
        lost = ("timeouts", "in_flight", "reopened", "reconnects", "retries")
        assert {name: line[name] for name in lost} == dict.fromkeys(lost, 0)
        assert line["handshakes"]["during"]["count"] == 0
        slices = line["slices"]
        assert (slices["frozen"], slices["not_frozen"]) == (True, None)


@pytest.mark.parametrize("case", [CASES[0], CASES[-1]], ids=str)
def test_a_killed_generator_leaves_no_server_stopped(tmp_path: Path, case: Case) -> None:
    """A generator that is killed while a server is stopped: every process runs, and answers."""
    with _two(case, tmp_path) as (plan, servers):
        plan["windows"] = [plan["windows"][0] | {"duration_s": 600}]
        command = [str(loadgen_binary()), "plan", "-"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as generator:
            assert generator.stdin is not None
            generator.stdin.write(json.dumps(plan).encode() + b"\n")
            generator.stdin.flush()

            def stopped() -> bool:
                return any(server.states == {"T"} for server in servers)

            def held() -> bool:
                """Stop the generator; let it go on unless a server is stopped."""
                _await("a server is stopped", stopped)
                os.kill(generator.pid, signal.SIGSTOP)
                _await("the generator stops", lambda: _state(generator.pid) == "T")
                if stopped():
                    return True
                os.kill(generator.pid, signal.SIGCONT)
                return False

            try:
                _await("the generator is stopped as well", held)
            finally:
                generator.kill()
        _await("all run", lambda: all("T" not in server.states for server in servers))
        for server in servers:
            assert _answers(server.port, encrypted=case.encrypted)
