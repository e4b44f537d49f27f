"""Configurations of Caddy as people have them: taken over, equal in the lab, tuned, and patched."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.own.caddyfiles import CASES, Case, here
from tests.own.test_real_ones import Echo, free_port, running
from tuner.own.caddy.home import ThisMachine
from tuner.own.caddy.origin import adapted, change_config
from tuner.own.caddy.server import OwnCaddy, read
from tuner.own.caddy.table import changes
from tuner.own.port import Wishes
from tuner.servers.certificate import make_certificate
from tuner.servers.ground import Ground
from tuner.space import SpaceFacts, bind_space
from tuner.workload import load_workload

ENCODINGS = ("identity", "gzip")


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
    own: OwnCaddy
    notes: tuple[str, ...]
    ground: Ground

    @property
    def main(self) -> Path:
        """The main file."""
        return self.folder / self.case.name


@pytest.fixture(scope="module", params=CASES)
def taken(request: pytest.FixtureRequest, back: int) -> Iterator[Taken]:
    """Each configuration in a folder that the lab's account may enter."""
    folder = Path(tempfile.mkdtemp(prefix="tuner-own-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        yield take(CASES[request.param], folder, back)
    finally:
        shutil.rmtree(folder)


def take(case: Case, folder: Path, back: int) -> Taken:
    """Write a configuration, read it, adapt it."""
    port, plain = free_port(), free_port()
    for name in ("run", "www"):
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
    server = here()
    workload = load_workload("proxy" if case.proxied else "static")
    mine = read(Wishes(str(folder / case.name), case.host), workload, ThisMachine(server.binary))
    facts = SpaceFacts(
        1,
        32,
        8 << 30,
        server.version_tuple,
        server.modules,
        tls=mine.workload.wire.tls is not None,
        proxied=case.proxied,
    )
    space = bind_space("caddy/proxy" if case.proxied else "caddy/static", facts)
    own, notes = mine.adapt(space, server)
    assert isinstance(own, OwnCaddy)
    ground = Ground(
        binary=server.binary,
        instances_dir=folder / "lab",
        backends_dir=folder / "lab",
        site_dir=folder / "www",
        cpus=(max(os.sched_getaffinity(0)),),
        backend_cpus=(),
        upstreams=(f"127.0.0.1:{back}",) if case.proxied else (),
        certificate=shown if case.tls else None,
    )
    return Taken(case, folder, port, own, notes, ground)


def test_caddy_reads_the_same_in_the_files_and_in_what_they_are_rebuilt_to(taken: Taken) -> None:
    """``caddy adapt`` of the copy says what it says of the user's own; no change is none."""
    origin, bound = taken.own.own.origin, taken.own.bound
    assert origin.opaque == ""
    assert list(changes(bound, origin, taken.own.own.serving, bound.baseline)) == []
    assert change_config(origin, []) == origin.config
    if not origin.is_json:
        said = subprocess.run(
            [here().binary, "adapt", "--config", str(taken.main), "--adapter", "caddyfile"],
            capture_output=True,
            check=True,
        )
        assert json.loads(said.stdout) == origin.config
        assert adapted(origin.texts, origin.file, origin.home) == origin.config
    assert taken.own.unsaid() == ""


def test_the_lab_answers_as_the_user_does(taken: Taken) -> None:
    """Status, headers and body of every path, plain and compressed; the baseline, and tuned."""
    adapter = [] if taken.own.own.origin.is_json else ["--adapter", "caddyfile"]
    pid_file = taken.folder / "run" / "own.pid"
    command = [taken.ground.binary, "start", "--config", str(taken.main), *adapter]
    with running([*command, "--pidfile", str(pid_file)], pid_file):
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
        start = ["env", "-C", str(directory), *spec.start]
        with running(start, Path(spec.pid_file)):
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
        name
        for name, reason in taken.own.bound.space.left_out
        if "as you have it" in reason or "left out" in reason
    }
    assert left == taken.case.left_out
    assert taken.notes[0].startswith("own configuration:")
    assert taken.case.tls == any("the lab's own certificate" in note for note in taken.notes)


def test_the_patch_makes_the_tuned_configuration_of_the_users_files(taken: Taken) -> None:
    """``patch -p0``, then ``caddy adapt``, then the tuned JSON; the user's own files stay."""
    origin, bound = taken.own.own.origin, taken.own.bound
    before = {file: Path(file).read_bytes() for file in origin.texts}
    # Whatever there is of it: the static space has one parameter in the file.
    values = {"idle_timeout": 75} | (
        {
            "upstream_keepalive_connections": 200,
            "upstream_keepalive_timeout": 45,
            "upstream_read_buffer": 16384,
            "upstream_connections": 512,
            "upstream_compression": False,
            "gogc": 400,
        }
        if taken.case.proxied
        else {}
    )
    tuned = bound.space.complete(values, bound.baseline)
    files = taken.own.export_files(tuned, bound.space, here())
    copy = taken.folder.with_name(f"{taken.folder.name}-copy")
    shutil.copytree(taken.folder, copy)
    try:
        command = ["patch", "-p0", "-s", "-d", str(copy)]
        subprocess.run(command, input=files["own.patch"], text=True, check=True)
        texts = {
            file: (copy / Path(file).relative_to(taken.folder)).read_text() for file in origin.texts
        }
        wanted = change_config(
            origin, changes(bound, origin, taken.own.own.serving, tuned, reference=bound.baseline)
        )
        assert wanted != origin.config
        if origin.is_json:
            assert json.loads(texts[origin.file]) == wanted
        else:
            assert adapted(texts, origin.file, origin.home) == wanted
        for name, text in files.items():
            if name.startswith("own/"):
                assert (copy / name.removeprefix("own/")).read_text() == text
    finally:
        shutil.rmtree(copy)
    assert {file: Path(file).read_bytes() for file in before} == before
    assert ("caddy.env" in files) == taken.case.proxied


def answers(taken: Taken, port: int) -> list[tuple[int, list[tuple[str, str]], bytes]]:
    """Of every path, for every encoding."""
    return [ask(taken, port, path, code) for path in taken.case.paths for code in ENCODINGS]


def ask(
    taken: Taken, port: int, path: str, encoding: str
) -> tuple[int, list[tuple[str, str]], bytes]:
    """Status, headers and body; the port, which must differ, and the time left out."""
    context = ssl._create_unverified_context()  # noqa: S323 - two certificates are compared here
    connection = (
        http.client.HTTPSConnection("localhost", port, timeout=10, context=context)
        if taken.case.tls
        else http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    )
    host = {"Host": taken.case.host} if taken.case.host else {}
    connection.request("GET", path, headers={"Accept-Encoding": encoding, **host})
    answer = connection.getresponse()
    body = answer.read().replace(str(port).encode(), b"PORT")
    timed = {"Date": "", "Via": ""}
    headers = [(n, timed.get(n, v).replace(str(port), "PORT")) for n, v in answer.getheaders()]
    connection.close()
    return answer.status, headers, body
