"""One request of each kind to the baseline, before a study starts.

Validation by the server does not show whether a request is answered: conditions on headers,
addresses or links turn some away. The baseline runs for a moment on this machine, with a stand-in
for the backend. Nothing is known where it cannot run or answer; the study's own checks follow.
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
"""Nginx's code for a connection that is closed without an answer; also Caddy's ``abort``."""
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
    """Reason from the error log; empty without one."""

    @property
    def words(self) -> str:
        """The answer, and what to ask instead."""
        reason = f" ({self.reason})" if self.reason else ""
        return (
            f"{self.request.path} is answered with {self.status}{reason} in the lab, and the"
            f" workload expects {self.request.expect_status}; name another location (--location),"
            " server (--server-name), folder (--root) or workload (--workload)"
        )


def wrong_answer(
    make: MakeSpec, server: ServerFacts, workload: Workload, reason_of: Callable[[str], str]
) -> WrongAnswer | None:
    """Return the first request that the baseline answers wrongly; None if none is known.

    Args:
        make: maker of the instance.
        server: facts of this machine's server.
        workload: the requests, of which the first few are sent.
        reason_of: returns the last reason in the text of an error log; empty without one.
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
            wrong = _first_wrong(asked, port, tls=workload.wire.tls is not None)
            return wrong and replace(wrong, reason=reason_of(_text(Path(spec.error_log))))
        except (OSError, http.client.HTTPException, subprocess.SubprocessError):
            return None


def _first_wrong(asked: Sequence[Request], port: int, *, tls: bool) -> WrongAnswer | None:
    for request in asked:
        status = _status(request, port, tls=tls)
        if status != request.expect_status:
            return WrongAnswer(request, status, "")
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


def _text(log: Path) -> str:
    try:
        return log.read_text(errors="replace")
    except OSError:
        return ""


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
    variables = (f"{name}={value}" for name, value in spec.environment.items())
    try:
        subprocess.run(
            ("env", *variables, *spec.start),
            cwd=directory,
            check=True,
            # A pipe would end only with the server, which keeps it open.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_S,
        )
        yield
    finally:
        _stop(Path(spec.pid_file))


def _stop(pid_file: Path) -> None:
    """Stop a server that may have started, and wait for its end; it has another parent."""
    try:
        pid = int(pid_file.read_text(encoding="ascii"))
        os.kill(pid, signal.SIGTERM)
    except (OSError, ValueError):
        return
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
