"""One request of each kind to the baseline, before a study starts.

``nginx -t`` does not show whether a request is answered: conditions on headers, addresses or links
turn some away. The baseline runs for a moment on this machine, with a stand-in for the backend.
Nothing is known where it cannot run or answer; the study's own checks follow anyway.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tuner.hosts.access import is_enterable
from tuner.hosts.deployer import InstanceSpec
from tuner.machine.facts import ServerFacts
from tuner.paths import temporary
from tuner.servers.ground import TargetGround
from tuner.servers.trial import trial_ground
from tuner.workload.site import content
from tuner.workload.workload import Backend, Request, Workload

_MOST_REQUESTS = 8
_PATIENCE_S = 2.0
_CLOSED = 444
"""Nginx's code for a connection that is closed without an answer."""
_STEP_S = 0.005
_OK = 200

MakeSpec = Callable[[TargetGround, int], InstanceSpec]
"""Returns the instance of the baseline on a ground and a port."""


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """A request with another status than the workload expects."""

    request: Request
    status: int
    reason: str
    """Last line of the error log; empty without one."""


def wrong_answer(make: MakeSpec, server: ServerFacts, workload: Workload) -> WrongAnswer | None:
    """Return the first request that the baseline answers wrongly; None if none is known.

    Args:
        make: maker of the instance.
        server: facts of this machine's server.
        workload: the requests, of which the first few are sent.
    """
    # Other statuses need the lab itself: times of files, and answers of its backend.
    asked = [one for one in workload.requests if one.expect_status == _OK][:_MOST_REQUESTS]
    if not asked:
        return None
    with temporary("probe") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        if not is_enterable(name):
            return None
        ground = trial_ground(server, workload, folder)
        _write_site(workload, asked, ground.site_dir)
        if workload.backend is not None:
            address = stack.enter_context(_backend(workload.backend))
            ground = replace(ground, upstreams=(address,))
        port = _free_port()
        spec = make(ground, port)
        try:
            stack.enter_context(_running(spec))
            return _first_wrong(asked, spec, port, tls=workload.wire.tls is not None)
        except (OSError, http.client.HTTPException, subprocess.SubprocessError):
            return None


def _first_wrong(
    asked: Sequence[Request], spec: InstanceSpec, port: int, *, tls: bool
) -> WrongAnswer | None:
    for request in asked:
        status = _status(request, port, tls=tls)
        if status != request.expect_status:
            return WrongAnswer(request, status, _last_error(Path(spec.error_log)))
    return None


def _status(request: Request, port: int, *, tls: bool) -> int:
    # The lab's own certificate, made a moment ago.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    made = (
        http.client.HTTPSConnection("127.0.0.1", port, timeout=_PATIENCE_S, context=context)
        if tls
        else http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE_S)
    )
    with contextlib.closing(made) as connection:
        headers = dict(request.headers)
        connection.request(request.method, request.path, request.body or None, headers)
        try:
            return connection.getresponse().status
        except http.client.RemoteDisconnected:
            return _CLOSED


def _last_error(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    said = [line.partition("*")[2].partition(" ")[2] for line in lines if "[error]" in line]
    return said[-1].partition(", client: ")[0] if said else ""


def _write_site(workload: Workload, asked: Sequence[Request], folder: Path) -> None:
    """Write the files that are asked for."""
    paths = {one.path.partition("?")[0] for one in asked}
    for file in workload.site:
        if file.path in paths or f"{file.path.rpartition('/')[0]}/" in paths:
            place = folder / file.path.removeprefix("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content(file))


@contextlib.contextmanager
def _running(spec: InstanceSpec) -> Iterator[None]:
    """Start an instance, and stop it at the end."""
    directory = Path(spec.directory)
    for name in spec.folders:
        (directory / name).mkdir(parents=True, exist_ok=True)
    for name, text in spec.files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text, encoding="utf-8")
    subprocess.run(spec.start, cwd=directory, check=True, capture_output=True, timeout=_PATIENCE_S)
    pid = int(Path(spec.pid_file).read_text(encoding="ascii"))
    try:
        yield
    finally:
        os.kill(pid, signal.SIGTERM)
        _ended(pid)


def _ended(pid: int) -> None:
    """Wait for the end of a process of another parent."""
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return
        if state.rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(_STEP_S)


@contextlib.contextmanager
def _backend(backend: Backend) -> Iterator[str]:
    """Yield the address of a stand-in for the workload's backend."""

    class Answer(BaseHTTPRequestHandler):
        """The backend's answer to every request."""

        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            """Answer."""
            length = int(self.headers.get("Content-Length") or 0)
            self.rfile.read(length)
            self.send_response(200)
            self.send_header("Content-Type", backend.content_type)
            self.send_header("Content-Length", str(len(backend.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(backend.body)

        def __getattr__(self, name: str) -> Callable[[], None]:
            """Return ``do_GET`` for every other method."""
            if not name.startswith("do_"):
                raise AttributeError(name)
            return self.do_GET

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, args=(_STEP_S,), daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
