"""One request of each kind to the baseline, before a study starts.

Validation by the server does not show whether a request is answered: conditions on headers,
addresses or links turn some away. The baseline runs for a moment on this machine, with a stand-in
for the backend over HTTP, and with the backend itself for other protocols. Nothing is known where
it cannot run or answer; the study's own checks follow.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tuner.hosts.access import is_enterable
from tuner.hosts.deployer import InstanceSpec
from tuner.machine.facts import ServerFacts
from tuner.own.server import OwnServer
from tuner.own.target import THIS_MACHINE, Target
from tuner.paths import temporary
from tuner.servers import native_backend
from tuner.servers.ground import TargetGround
from tuner.servers.moment import FAILURES, MakeSpec, ask, free_port, running
from tuner.servers.trial import trial_ground
from tuner.workload.site import content
from tuner.workload.workload import Backend, Request, Workload

_MOST_REQUESTS = 8
_PATIENCE_S = 2.0
_STEP_S = 0.005
_OK = 200


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


def wrong_baseline(
    made: OwnServer,
    target: Target,
    server: ServerFacts,
    workload: Workload,
    reason_of: Callable[[str], str],
) -> WrongAnswer | None:
    """Return the first request that the user's values answer wrongly; None if none is known.

    Nothing is known on another host than this machine.

    Args:
        made: the user's server.
        target: host of the configuration.
        server: facts of the server.
        workload: the requests, of which the first few are sent.
        reason_of: returns the last reason in the text of an error log; empty without one.
    """
    if target is not THIS_MACHINE:
        return None

    def make(ground: TargetGround, port: int) -> InstanceSpec:
        return made.instance("p", made.bound.baseline, made.bound.space, ground, port)

    return wrong_answer(make, server, workload, reason_of)


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
        if ground.upstreams and workload.backend is not None:
            address = stack.enter_context(_backend(workload.backend))
            ground = replace(ground, upstreams=(address,))
        if ground.native_backend:
            address = stack.enter_context(native_backend.running(workload, folder))
            ground = replace(ground, native_backend=address)
        port = free_port()
        spec = make(ground, port)
        try:
            stack.enter_context(running(spec, _PATIENCE_S))
            wrong = _first_wrong(asked, port, tls=workload.wire.tls is not None)
            return wrong and replace(wrong, reason=reason_of(_text(Path(spec.error_log))))
        except FAILURES:
            return None


def _first_wrong(asked: Sequence[Request], port: int, *, tls: bool) -> WrongAnswer | None:
    for request in asked:
        status = ask(request, port, _PATIENCE_S, tls=tls).status
        if status != request.expect_status:
            return WrongAnswer(request, status or 0, "")
    return None


def _text(log: Path) -> str:
    try:
        return log.read_text(errors="replace")
    except OSError:
        return ""


def _write_site(workload: Workload, asked: Sequence[Request], folder: Path) -> None:
    """Write the files that are asked for."""
    paths = {one.path.partition("?")[0] for one in asked}
    folder.mkdir(parents=True, exist_ok=True)
    for file in workload.site:
        # Empty files are scripts, which any path may lead to.
        wanted = file.path in paths or f"{file.path.rpartition('/')[0]}/" in paths
        if wanted or not file.size_bytes:
            place = folder / file.path.removeprefix("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content(file))


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
