"""Instances that run for a moment on this machine, and their answers to single requests."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tuner.errors import HostError
from tuner.hosts.access import is_enterable
from tuner.hosts.deployer import InstanceSpec
from tuner.machine.facts import ServerFacts
from tuner.paths import temporary
from tuner.servers import backend as lab_backend
from tuner.servers import native_backend
from tuner.servers.ground import TargetGround
from tuner.servers.trial import trial_ground
from tuner.workload.site import generate
from tuner.workload.workload import Request, Workload

MOST_TRIED = 200
"""Limit for the kinds of requests over HTTP/1.1, which take a millisecond each."""
_START_S = 20.0
_END_S = 5.0
"""More than the time that Caddy in the lab leaves open connections."""
_CLOSED = 444
"""Nginx's code for a connection that is closed without an answer; also Caddy's ``abort``."""
_STEP_S = 0.005
FAILURES = (OSError, http.client.HTTPException, subprocess.SubprocessError)

"""Errors of instances that do not start, and of requests without an answer."""
_LONGEST_REASON = 200

MakeSpec = Callable[[TargetGround, int], InstanceSpec]
"""Returns the instance of a configuration on a ground and a port."""
Ask = Callable[[Request, int], "TriedRequest"]
"""Sends a request to a port of this machine and returns the answer."""


@dataclass(frozen=True, slots=True)
class TriedRequest:
    """A request with its answer."""

    request: Request
    status: int | None
    """None without an answer."""
    size_bytes: int | None = None
    """Size of the body as sent; None if unknown."""
    sha256: str = ""
    """Hash of the body, hexadecimal; empty if unknown."""
    wrong: str = ""
    """Another difference from the expected answer, in words; empty if none is known."""
    reason: str = ""
    """Last line of the error log, or the reason for a missing answer; empty without one."""

    @property
    def difference(self) -> str:
        """The difference from the expected answer, in words; empty if it is as expected."""
        asked = self.request
        if self.status is None:
            return "no answer"
        if asked.expect_status not in (None, self.status):
            return f"{asked.expect_status} was expected"
        if self.size_bytes is not None and asked.expect_length not in (None, self.size_bytes):
            return f"{asked.expect_length:,} B were expected"
        if self.sha256 and (asked.expect_sha256 or self.sha256).lower() != self.sha256:
            return "other content was expected"
        return self.wrong


def tried_out(
    make: MakeSpec,
    server: ServerFacts,
    workload: Workload,
    behind: ServerFacts | None,
    *,
    ask_over: Ask | None = None,
    most: int = MOST_TRIED,
) -> tuple[TriedRequest, ...]:
    """Return the answers to one request of each kind, the most frequent first.

    A backend of the lab stands behind the instance, and the whole site is in place, as in a study.

    Args:
        make: maker of the instance.
        server: facts of this machine's server.
        workload: the requests.
        behind: server of the lab's backend; None without one.
        ask_over: sender of the requests; None for HTTP/1.1.
        most: limit for the kinds of requests.

    Raises:
        HostError: the server or its backend does not start.
    """
    asked = most_frequent(workload, most)
    with temporary("probe") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        if not is_enterable(name):
            raise HostError(
                f"{name} cannot be entered by the servers' account (nobody, where tuner is root);"
                " set TMPDIR to a folder that everyone can enter, such as /var/tmp"
            )
        ground = trial_ground(server, workload, folder)
        ground.site_dir.mkdir()
        for path, body in generate(workload).items():
            place = ground.site_dir / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(body)
        if ground.native_backend:
            address = stack.enter_context(native_backend.running(workload, folder))
            ground = replace(ground, native_backend=address)
        if workload.backend is not None and behind is not None and ground.upstreams:
            ports = [free_port() for _ in range(workload.backend.count)]
            back = replace(ground, binary=behind.binary)
            for number, port in enumerate(ports, 1):
                _start(stack, lab_backend.instance(workload, back, port, number))
            ground = replace(ground, upstreams=tuple(f"127.0.0.1:{port}" for port in ports))
        port = free_port()
        spec = make(ground, port)
        _start(stack, spec)
        tls = workload.wire.tls is not None
        send = ask_over or partial(_asked, patience_s=workload.timeout_s, tls=tls)
        found = (send(one, port) for one in asked)
        return tuple(with_reason(one, lambda: _last_line(Path(spec.error_log))) for one in found)


def most_frequent(workload: Workload, most: int) -> list[Request]:
    """Return the requests to try, the most frequent first."""
    return sorted(workload.requests, key=lambda one: -one.weight)[:most]


def _start(stack: contextlib.ExitStack, spec: InstanceSpec) -> None:
    """Start an instance until the end of a stack.

    Raises:
        HostError: it does not start.
    """
    try:
        stack.enter_context(running(spec, _START_S))
    except FAILURES as error:
        raise HostError(f"the {spec.instance} does not start: {error}") from None


def with_reason(found: TriedRequest, last_line: Callable[[], str]) -> TriedRequest:
    """Return an answer with the last line of the error log, if it is wrong without a reason."""
    if not found.difference or found.reason:
        return found
    return replace(found, reason=last_line()[:_LONGEST_REASON])


def _asked(request: Request, port: int, *, patience_s: float, tls: bool) -> TriedRequest:
    """Return the answer to a request; a missing answer has its reason."""
    try:
        return ask(request, port, patience_s, tls=tls)
    except FAILURES as error:
        return TriedRequest(request, None, reason=str(error))


def ask(request: Request, port: int, patience_s: float, *, tls: bool) -> TriedRequest:
    """Send a request to an instance; return its answer.

    Raises:
        OSError, http.client.HTTPException: the instance does not answer.
    """
    # The lab's own certificate, made a moment ago.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    made = (
        http.client.HTTPSConnection("127.0.0.1", port, timeout=patience_s, context=context)
        if tls
        else http.client.HTTPConnection("127.0.0.1", port, timeout=patience_s)
    )
    named = {name.lower() for name, _ in request.headers}
    with contextlib.closing(made) as connection:
        connection.putrequest(
            request.method, request.path, skip_host="host" in named, skip_accept_encoding=True
        )
        for name, value in request.headers:
            connection.putheader(name, value)
        if request.body:
            connection.putheader("Content-Length", str(len(request.body)))
        connection.endheaders(request.body or None)
        try:
            answer = connection.getresponse()
            body = answer.read()
        except http.client.RemoteDisconnected:
            return TriedRequest(request, _CLOSED)
    return TriedRequest(request, answer.status, len(body), hashlib.sha256(body).hexdigest())


def _last_line(log: Path) -> str:
    """Return the last line of an error log; empty without one."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""


@contextlib.contextmanager
def running(spec: InstanceSpec, patience_s: float) -> Iterator[None]:
    """Start an instance, and stop it at the end."""
    directory = Path(spec.directory)
    for name in spec.folders:
        (directory / name).mkdir(parents=True, exist_ok=True)
    for name, text in spec.files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text, encoding="utf-8")
    try:
        _started(spec, patience_s)
        yield
    finally:
        _stop(Path(spec.pid_file))


def _started(spec: InstanceSpec, patience_s: float) -> None:
    """Start an instance, and wait for the file with its id.

    Raises:
        OSError, subprocess.SubprocessError: it does not start in time.
    """
    output = Path(spec.directory) / "start.log"
    with output.open("wb") as log:
        # A file, because a server in the background keeps its standard output open.
        done = subprocess.run(
            spec.start,
            cwd=spec.directory,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=patience_s,
            env={**os.environ, **spec.environment},
        )
    if done.returncode:
        said = output.read_text(errors="replace").strip()
        raise ChildProcessError(said or f"it exits with {done.returncode}")
    until = time.monotonic() + patience_s
    # A server in the background may write its id after the command has ended.
    while _id_in(Path(spec.pid_file)) is None:
        if time.monotonic() > until:
            raise TimeoutError(f"no process id after {patience_s:.0f} s")
        time.sleep(_STEP_S)


def _id_in(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _stop(pid_file: Path) -> None:
    """Stop a server that may have started, and wait for its end; it has another parent."""
    pid = _id_in(pid_file)
    if pid is None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        if not _ended(pid):
            os.kill(pid, signal.SIGKILL)


def _ended(pid: int) -> bool:
    """Wait for the end of a process; return whether it ended."""
    until = time.monotonic() + _END_S
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return True
        if state.rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(_STEP_S)
    return False


def free_port() -> int:
    """Return a port of the loopback without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
