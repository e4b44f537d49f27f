"""A user's own configuration as the tests of both servers have it: laid out, adapted, and asked."""

from __future__ import annotations

import gzip
import http.client
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from tests.own.windows import window
from tuner.generators.generator import Endpoint
from tuner.machine.facts import ServerFacts
from tuner.measurement.window import Measurement
from tuner.own.server import OwnConfiguration, OwnOptions, OwnServer
from tuner.servers import native_backend
from tuner.servers.certificate import make_certificate
from tuner.servers.ground import TargetGround
from tuner.space.space import SpaceFacts, bind_space
from tuner.workload.site import content
from tuner.workload.workload import Request, Workload, load_workload

ENCODINGS = ("identity", "gzip")
Answer = tuple[int, list[tuple[str, str]], bytes]
"""Status, headers and body."""


class Case(Protocol):
    """One configuration, and what is known of it."""

    @property
    def name(self) -> str:
        """Return the name of the main file."""
        ...

    @property
    def host(self) -> str:
        """Asked for; empty: the address."""
        ...

    @property
    def proxied(self) -> bool:
        """True if it passes on what is asked for."""
        ...

    @property
    def tls(self) -> bool:
        """True if it is asked over TLS."""
        ...

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths that the workload requests."""
        ...

    @property
    def left_out(self) -> frozenset[str]:
        """Parameters that stay as the user has them."""
        ...

    def texts(self) -> Mapping[str, str]:
        """Return the files by their path, with marks where a place stands."""
        ...


OwnT = TypeVar("OwnT", bound=OwnServer)
CaseT = TypeVar("CaseT", bound=Case)


@dataclass(frozen=True)
class Taken(Generic[OwnT, CaseT]):
    """A configuration that was read and adapted."""

    case: CaseT
    folder: Path
    port: int
    own: OwnT
    notes: tuple[str, ...]
    ground: TargetGround

    @property
    def main(self) -> Path:
        """The main file."""
        return self.folder / self.case.name

    @property
    def left_out(self) -> frozenset[str]:
        """Parameters that stay as the user has them, for a reason in the configuration."""
        return frozenset(
            name
            for name, reason in self.own.bound.space.left_out
            if "as you have it" in reason or "left out" in reason
        )


@contextmanager
def taken_over(
    case: CaseT,
    back: int,
    server: ServerFacts,
    read: Callable[[OwnOptions, Workload], OwnConfiguration],
    kind: type[OwnT],
) -> Iterator[Taken[OwnT, CaseT]]:
    """A configuration in a folder that the lab's account may enter, read and adapted.

    Args:
        case: the configuration.
        back: port of the server behind.
        server: which reads it.
        read: reads it.
        kind: what it is made to.
    """
    folder = Path(tempfile.mkdtemp(prefix="tuner-own-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        port, shown = free_port(), make_certificate()
        places = {"@DIR@": folder, "@PORT@": port, "@PLAIN@": free_port(), "@BACK@": back}
        files = {
            "www/index.html": "<p>" + "a page of some length " * 40,
            "www/style.css": "p { color: red }\n" * 40,
            "cert.pem": shown.chain,
            "key.pem": shown.key,
            "site.pem": shown.chain + shown.key,
            **{name: _filled(text, places) for name, text in case.texts().items()},
        }
        for name in ("run", "empty"):
            (folder / name).mkdir()
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        wishes = OwnOptions(str(folder / case.name), case.host)
        mine = read(wishes, load_workload("proxy" if case.proxied else "static"))
        facts = SpaceFacts(
            1,
            32,
            8 << 30,
            server.version_tuple,
            server.modules,
            tls=mine.workload.wire.tls is not None,
            proxied=case.proxied,
        )
        space = bind_space(f"{server.name}/{'proxy' if case.proxied else 'static'}", facts)
        own, notes = mine.adapt(space, server)
        assert isinstance(own, kind)
        ground = TargetGround(
            binary=server.binary,
            instances_dir=folder / "lab",
            backends_dir=folder / "lab",
            site_dir=folder / ("empty" if case.proxied else "www"),
            cpus=(max(os.sched_getaffinity(0)),),
            backend_cpus=(),
            upstreams=(f"127.0.0.1:{back}",) if case.proxied else (),
            certificate=shown if case.tls else None,
        )
        yield Taken(case, folder, port, own, notes, ground)
    finally:
        shutil.rmtree(folder)


def _filled(text: str, places: Mapping[str, object]) -> str:
    for mark, value in places.items():
        text = text.replace(mark, str(value))
    return text


def the_lab_answers_as(user: list[Answer], taken: Taken[OwnT, CaseT]) -> None:
    """The baseline in all, and a tuned configuration in its status, prove themselves and answer."""
    bound = taken.own.bound
    hand = bound.space.adopt(bound.space.baseline("hand"), bound.baseline)
    for configuration in (bound.baseline, hand):
        port = free_port()
        spec = taken.own.instance("i", configuration, bound.space, taken.ground, port)
        directory = Path(spec.directory)
        for name in spec.folders:
            (directory / name).mkdir(parents=True)
        for name, text in spec.files.items():
            (directory / name).parent.mkdir(exist_ok=True)
            (directory / name).write_text(text)
        with running(["env", "-C", str(directory), *spec.start], Path(spec.pid_file)):
            lab = answers(taken.case, port)
            status, _, body = ask(taken.case, port, "/.tuner/live", "identity")
        assert (status, body) == (200, configuration.digest.encode())
        if configuration is bound.baseline:
            assert lab == user
        else:
            # What upstreams are asked with is what was tuned there.
            assert [status for status, _, _ in lab] == [status for status, _, _ in user]
        shutil.rmtree(directory)
    assert {status for status, _, _ in user} & {200}


@contextmanager
def patched(taken: Taken[OwnT, CaseT], files: Mapping[str, str]) -> Iterator[Path]:
    """A copy of the user's folder after ``patch -p0``: what the export holds, file for file."""
    copy = taken.folder.with_name(f"{taken.folder.name}-copy")
    # A server that ends may leave its socket in the lab for a moment.
    shutil.copytree(taken.folder, copy, ignore=shutil.ignore_patterns("lab", "run"))
    try:
        command = ["patch", "-p0", "-s", "-d", str(copy)]
        subprocess.run(command, input=files["own.patch"], text=True, check=True)
        yield copy
        for name, text in files.items():
            if name.startswith("own/"):
                assert (copy / name.removeprefix("own/")).read_text() == text
    finally:
        shutil.rmtree(copy)


@contextmanager
def running(command: list[str], pid_file: Path) -> Iterator[None]:
    """A server while it is asked."""
    # Caddy's default port of administration may be another test's.
    admin = f"unix/{pid_file.with_suffix('.admin')}"
    subprocess.run(command, check=True, env={**os.environ, "CADDY_ADMIN": admin})
    try:
        yield
    finally:
        pid = int(pid_file.read_text())
        os.kill(pid, signal.SIGTERM)
        while _lives(pid):
            time.sleep(0.01)


def _lives(pid: int) -> bool:
    """Return whether a process has not ended; one that nobody waited for has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def statuses(made: OwnServer, workload: Workload, folder: Path, back: int) -> list[int]:
    """Start the baseline in the lab, and return the status of every request of its workload."""
    with baseline(made, workload, folder, back) as endpoint:
        tls = workload.wire.tls is not None
        return [_status(endpoint.address, request, tls=tls) for request in workload.requests]


def first_window(made: OwnServer, workload: Workload, folder: Path, back: int) -> Measurement:
    """Start the baseline in the lab, and return a short window of its workload."""
    with baseline(made, workload, folder, back) as endpoint:
        if workload.wire.tls is not None:
            tls = replace(workload.wire.tls, ca_file=str(folder / "ca.pem"))
            workload = replace(workload, wire=replace(workload.wire, tls=tls))
        workload = replace(workload, connections=4)
        return window(workload, endpoint, warmup_s=0.02, duration_s=0.1)


@contextmanager
def baseline(made: OwnServer, workload: Workload, folder: Path, back: int) -> Iterator[Endpoint]:
    """The baseline in the lab while it serves a workload.

    Args:
        made: the user's server in the lab.
        workload: as it is asked here.
        folder: a folder that the lab's account may enter.
        back: port of the server behind.
    """
    for file in workload.site:
        path = folder / "site" / file.path.removeprefix("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(file))
    tls = workload.wire.tls
    shown = make_certificate(tls.server_name) if tls else None
    if shown is not None:
        (folder / "ca.pem").write_text(shown.ca)
    for name in ("lab", "site"):
        (folder / name).mkdir(exist_ok=True)
    ground = TargetGround(
        binary=made.detect().binary,
        instances_dir=folder / "lab",
        backends_dir=folder / "lab",
        site_dir=folder / "site",
        cpus=(0,),
        backend_cpus=(),
        upstreams=(f"127.0.0.1:{back}",) if workload.backend else (),
        certificate=shown,
    )
    protocols = {*workload.backend.protocols} if workload.backend else set()
    with ExitStack() as stack:
        if protocols - {"http"}:
            address = stack.enter_context(native_backend.running(workload, folder))
            ground = replace(ground, native_backend=address)
        yield stack.enter_context(_started(made, ground))


@contextmanager
def _started(made: OwnServer, ground: TargetGround) -> Iterator[Endpoint]:
    port = free_port()
    spec = made.instance("i", made.bound.baseline, made.bound.space, ground, port)
    directory = Path(spec.directory)
    for name in (*spec.folders, "tls"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    for name, text in spec.files.items():
        (directory / name).write_text(text)
    with running(["env", "-C", str(directory), *spec.start], Path(spec.pid_file)):
        yield Endpoint("one", f"127.0.0.1:{port}")


def _status(address: str, request: Request, *, tls: bool) -> int:
    context = ssl._create_unverified_context()  # noqa: S323 - the lab's own certificate
    connection = (
        http.client.HTTPSConnection(address, timeout=60, context=context)
        if tls
        else http.client.HTTPConnection(address, timeout=60)
    )
    headers = dict(request.headers)
    connection.request(request.method, request.path, request.body or None, headers)
    status = connection.getresponse().status
    connection.close()
    return status


def answers(case: Case, port: int) -> list[Answer]:
    """Return the answers for every path and every encoding."""
    return [ask(case, port, path, code) for path in case.paths for code in ENCODINGS]


def ask(case: Case, port: int, path: str, encoding: str) -> Answer:
    """Status, headers and body; the port, which must differ, and the time left out."""
    context = ssl._create_unverified_context()  # noqa: S323 - two certificates are compared here
    connection = (
        http.client.HTTPSConnection("localhost", port, timeout=60, context=context)
        if case.tls
        else http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    )
    host = {"Host": case.host} if case.host else {}
    connection.request("GET", path, headers={"Accept-Encoding": encoding, **host})
    answer = connection.getresponse()
    body = answer.read()
    if answer.getheader("Content-Encoding") == "gzip":
        body = gzip.decompress(body)
    body = body.replace(str(port).encode(), b"PORT")
    # What counts from the moment of the answer cannot be equal; that it is there can.
    timed = {"date": "", "expires": "", "via": ""}
    headers = [
        (name, timed.get(name.lower(), value).replace(str(port), "PORT"))
        for name, value in answer.getheaders()
    ]
    connection.close()
    return answer.status, headers, body


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
