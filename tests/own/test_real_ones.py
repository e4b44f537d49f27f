"""Configurations as people have them: taken over, equal in the lab, tuned, and patched."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.hosts.nginxes import needs_nginx
from tests.own.configurations import CASES, Case
from tuner.errors import DefinitionError
from tuner.own.nginx import OwnNginx, adapt, read
from tuner.own.port import Wishes
from tuner.own.tree import equal, parse, write
from tuner.servers import nginx
from tuner.servers.certificate import make_certificate
from tuner.servers.ground import Ground
from tuner.space import SpaceFacts, bind_space
from tuner.workload import load_workload

pytestmark = needs_nginx
ENCODINGS = ("identity", "gzip")
SECTION = re.compile(r"^# configuration file (.+):$\n", re.MULTILINE)


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was asked: so a proxy's own headers are part of the answer."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Echo the request."""
        headers = sorted(f"{name}: {value}" for name, value in self.headers.items())
        body = "\n".join([self.path, self.request_version, *headers]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def back() -> Iterator[int]:
    """The port of a server behind."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass(frozen=True)
class Taken:
    """A configuration that was read and adapted."""

    case: Case
    folder: Path
    port: int
    own: OwnNginx
    notes: tuple[str, ...]
    ground: Ground

    @property
    def main(self) -> Path:
        """The main file."""
        return self.folder / "nginx.conf"


@pytest.fixture(params=CASES)
def taken(request: pytest.FixtureRequest, back: int) -> Iterator[Taken]:
    """Each configuration in a folder that the workers may enter."""
    folder = Path(tempfile.mkdtemp(prefix="tuner-own-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        yield take(CASES[request.param], folder, back)
    finally:
        shutil.rmtree(folder)


def take(case: Case, folder: Path, back: int) -> Taken:
    """Write a configuration, read it, adapt it."""
    port, plain = free_port(), free_port()
    for name in ("run", "www", "empty"):
        (folder / name).mkdir()
    (folder / "www" / "index.html").write_text("<p>" + "a page of some length " * 40)
    (folder / "www" / "style.css").write_text("p { color: red }\n" * 40)
    shown = make_certificate()
    (folder / "cert.pem").write_text(shown.chain)
    (folder / "key.pem").write_text(shown.key)
    places = {"@DIR@": folder, "@PORT@": port, "@PLAIN@": plain, "@BACK@": back}
    for name, text in case.texts().items():
        for mark, value in places.items():
            text = text.replace(mark, str(value))  # noqa: PLW2901 - the text with its marks filled
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    server = nginx.detect()
    workload = load_workload("proxy" if case.proxied else "static")
    mine = read(Wishes(str(folder / "nginx.conf")), workload)
    facts = SpaceFacts(
        1,
        32,
        8 << 30,
        server.version_tuple,
        server.modules,
        tls=mine.workload.wire.tls is not None,
        proxied=case.proxied,
    )
    space = bind_space("nginx/proxy" if case.proxied else "nginx/static", facts)
    own, notes = adapt(mine, space, server)
    ground = Ground(
        binary=server.binary,
        instances_dir=folder / "lab",
        backends_dir=folder / "lab",
        site_dir=folder / ("empty" if case.proxied else "www"),
        cpus=(max(os.sched_getaffinity(0)),),
        backend_cpus=(),
        upstreams=(f"127.0.0.1:{back}",) if case.proxied else (),
        certificate=shown if case.tls else None,
    )
    return Taken(case, folder, port, own, notes, ground)


def test_nginx_reads_the_same_files_and_the_same_directives(taken: Taken) -> None:
    """``nginx -T`` of the user's files, and of the one file that they are rebuilt to."""
    tree = taken.own.own.tree
    shown = dump(taken.main)
    assert shown == {name: text.rstrip("\n") for name, text in tree.texts.items()}
    rebuilt = taken.folder / "rebuilt.conf"
    rebuilt.write_text(write(tree.directives))
    (again,) = dump(rebuilt).values()
    (taken.folder / "again.conf").write_text(again)
    assert equal(parse(taken.folder / "again.conf").directives, tree.directives)


def test_the_lab_answers_as_the_user_does(taken: Taken) -> None:
    """Status, headers and body of every path, plain and compressed; the baseline, and tuned."""
    with started(taken, taken.main):
        user = answers(taken, taken.port)
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
        with running(spec.start, Path(spec.pid_file)):
            lab = answers(taken, port)
            status, _, body = ask(taken, port, "/.tuner/live", "identity")
        assert (status, body) == (200, configuration.digest.encode())
        if configuration is bound.baseline:
            assert lab == user
        else:
            # What upstreams are asked with is what was tuned there.
            assert [status for status, _, _ in lab] == [status for status, _, _ in user]
        shutil.rmtree(directory)
    assert {status for status, _, _ in user} & {200}


def test_what_can_be_tuned_is_known_and_the_rest_has_a_reason(taken: Taken) -> None:
    """Nothing else is left out, and whatever the lab does otherwise is said."""
    left = {
        name: reason
        for name, reason in taken.own.bound.space.left_out
        if "as you have it" in reason or "left out" in reason
    }
    assert set(left) == taken.case.left_out
    assert taken.notes[0].startswith("own configuration:")
    assert taken.case.tls == any("the lab's own certificate" in note for note in taken.notes)


def test_the_patch_makes_the_tuned_configuration_of_the_users_files(taken: Taken) -> None:
    """``patch -p0``, then ``nginx -T``, then the tuned tree; the user's own files stay."""
    before = {path: path.read_bytes() for path in taken.folder.glob("**/*.conf")}
    bound = taken.own.bound
    hand = bound.space.adopt(bound.space.baseline("hand"), bound.baseline)
    files = taken.own.export_files(hand, bound.space, nginx.detect())
    copy = taken.folder.with_name(f"{taken.folder.name}-copy")
    shutil.copytree(taken.folder, copy)
    try:
        command = ["patch", "-p0", "-s", "-d", str(copy)]
        subprocess.run(command, input=files["own.patch"], text=True, check=True)
        dump(copy / "nginx.conf")
        (copy / "want.conf").write_text(taken.own.export_text(hand, bound.space))
        assert equal(parse(copy / "nginx.conf").directives, parse(copy / "want.conf").directives)
        for name, text in files.items():
            if name.startswith("own/"):
                assert (copy / name.removeprefix("own/")).read_text() == text
    finally:
        shutil.rmtree(copy)
    assert {path: path.read_bytes() for path in before} == before


def test_a_workload_may_ask_for_the_users_own_files(tmp_path: Path) -> None:
    """Where they are, or below another folder; one that cannot be entered is said."""
    workload = tmp_path / "mine.yaml"
    workload.write_text("workload: mine\nsite: own\nrequests: [{path: /index.html}]\n")
    config = tmp_path / "nginx.conf"
    server = nginx.detect()
    space = bind_space(
        "nginx/static", SpaceFacts(1, 32, 8 << 30, server.version_tuple, server.modules)
    )

    def text(written: str, root: str = "") -> str:
        config.write_text(f"events {{}}\nhttp {{ server {{ listen 80; root {written}; }} }}\n")
        own = read(Wishes(str(config), root=root), load_workload(str(workload)))
        made, _ = adapt(own, space, server)
        ground = Ground(server.binary, tmp_path, tmp_path, tmp_path / "site", (0,), (), ())
        baseline = made.bound.baseline
        return made.instance("i", baseline, made.bound.space, ground, 18080).files["nginx.conf"]

    assert "root /usr/share;" in text("/usr/share")
    assert "root /usr/lib;" in text("/nowhere/at/all", root="/usr/lib")
    with pytest.raises(DefinitionError, match=r"nginx.conf:2: root /nowhere .*--root FOLDER"):
        text("/nowhere")


def test_what_this_build_lacks_is_left_out_and_said(tmp_path: Path) -> None:
    """A module's directives, and asynchronous reading; the rest is served."""
    config = tmp_path / "nginx.conf"
    config.write_text(
        "events {}\nhttp {\n upload_progress uploads 1m;\n"
        " server { listen 80; location / { aio on; root /usr; } }\n}\n"
    )
    server = nginx.detect()
    if "file-aio" in server.modules:
        pytest.skip("this Nginx reads asynchronously: that it may not was not tested")
    space = bind_space("nginx/static", SpaceFacts(1, 32, 8 << 30, server.version_tuple, ()))
    _, notes = adapt(read(Wishes(str(config)), load_workload("static")), space, server)
    for name, line in (("upload_progress uploads 1m", 3), ("aio on", 4)):
        reason = "this build of Nginx does not know it"
        assert f"{config}:{line}: {name} is not carried over: {reason}" in notes


def dump(main: Path) -> dict[str, str]:
    """What ``nginx -T`` shows, by file."""
    command = [nginx.detect().binary, "-T", "-q", "-p", f"{main.parent}/", "-c", str(main)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    _, *parts = SECTION.split(done.stdout)
    return {name: text.rstrip("\n") for name, text in zip(parts[::2], parts[1::2], strict=True)}


@contextmanager
def started(taken: Taken, main: Path) -> Iterator[None]:
    """The user's own server, as it would run."""
    command = [nginx.detect().binary, "-p", f"{taken.folder}/", "-c", str(main)]
    with running(command, taken.folder / "run" / "nginx.pid"):
        yield


@contextmanager
def running(command: list[str] | tuple[str, ...], pid_file: Path) -> Iterator[None]:
    """A server while it is asked."""
    subprocess.run(command, check=True)
    try:
        yield
    finally:
        pid = int(pid_file.read_text())
        os.kill(pid, signal.SIGTERM)
        while lives(pid):
            time.sleep(0.01)


def lives(pid: int) -> bool:
    """Whether a process has not ended; one that nobody waited for has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def answers(taken: Taken, port: int) -> list[tuple[int, list[tuple[str, str]], bytes]]:
    """Of every path, for every encoding."""
    return [ask(taken, port, path, code) for path in taken.case.paths for code in ENCODINGS]


def ask(
    taken: Taken, port: int, path: str, encoding: str
) -> tuple[int, list[tuple[str, str]], bytes]:
    """Status, headers and body; the port, which must differ, and the time left out."""
    context = ssl._create_unverified_context()  # noqa: S323 - two certificates are compared here
    connection = (
        http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
        if taken.case.tls
        else http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    )
    connection.request("GET", path, headers={"Accept-Encoding": encoding})
    answer = connection.getresponse()
    body = answer.read().replace(str(port).encode(), b"PORT")
    # What counts from the moment of the answer cannot be equal; that it is there can.
    timed = {"Date": "", "Expires": ""}
    headers = [(n, timed.get(n, v).replace(str(port), "PORT")) for n, v in answer.getheaders()]
    connection.close()
    return answer.status, headers, body


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
