"""Tests of rendered files with a real Nginx: it accepts them, serves, and proves them live."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.spaces import load_space
from tuner.render.render import EXPORT, Placement, cpu_mask, render, render_backend
from tuner.space.configuration import Configuration
from tuner.space.space import BASELINES, Space, spaces
from tuner.workload.site import generate
from tuner.workload.workload import Backend, load_workload

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(NGINX is None, reason="no nginx on this machine: nothing real was tested"),
]

LIVE = "/.tuner/live"
SPACES = [name for name in spaces() if name.startswith("nginx/")]


def bind(name: str) -> Space:
    """Return a space for the Nginx that is installed."""
    reported = subprocess.run([str(NGINX), "-v"], capture_output=True, text=True, check=True).stderr
    version = reported.partition("/")[2].split()[0]
    return load_space(
        name, server_cores=2, server_version=tuple(int(part) for part in version.split("."))
    )


def place(folder: Path, **changes: Any) -> Placement:
    """Return a placement under one folder, on a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for name in ("run", "logs", "site"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    placement = Placement(
        listen=f"127.0.0.1:{port}",
        server_name="localhost",
        root=str(folder / "site"),
        run_dir=str(folder / "run"),
        log_dir=str(folder / "logs"),
        digest="0123456789ab",
        live_path=LIVE,
        user=getpass.getuser() if os.geteuid() == 0 else "",
    )
    return replace(placement, **changes)


def command(folder: Path) -> list[str]:
    """Return the command that starts an instance apart from the system's Nginx."""
    log = folder / "logs" / "error.log"
    return [str(NGINX), "-p", f"{folder}/", "-c", str(folder / "nginx.conf"), "-e", str(log)]


def refusal(folder: Path, text: str) -> str:
    """Return the complaint of ``nginx -t``, warnings included; empty if there is none."""
    (folder / "nginx.conf").write_text(text, encoding="utf-8")
    done = subprocess.run([*command(folder), "-t"], capture_output=True, text=True, check=False)
    clean = done.returncode == 0 and "[warn]" not in done.stderr
    return "" if clean else done.stderr


@pytest.fixture
def start() -> Iterator[Callable[[Path, str], int]]:
    """Start an Nginx with a text; returns its master's process id. All are stopped at the end."""
    started: list[tuple[int, Path]] = []

    def run(folder: Path, text: str) -> int:
        (folder / "nginx.conf").write_text(text, encoding="utf-8")
        subprocess.run(command(folder), check=True, capture_output=True)
        # The master writes its id just after the command has returned.
        file = folder / "run" / "nginx.pid"
        wait(lambda: file.is_file() and file.read_text().strip() != "")
        pid = int(file.read_text())
        started.append((pid, file))
        return pid

    yield run
    for pid, file in started:
        os.kill(pid, signal.SIGTERM)
        wait(lambda file=file: not file.exists())  # type: ignore[misc]


def wait(happened: Callable[[], bool]) -> None:
    """Wait until it has happened; a machine that needs 30 s for it is broken."""
    for _ in range(3000):
        if happened():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def fetch(placement: Placement, path: str) -> tuple[bytes, str]:
    """Body and type of one answer."""
    with urllib.request.urlopen(f"http://{placement.listen}{path}", timeout=30) as answer:
        return answer.read(), answer.headers["Content-Type"]


def text_of(space: Space, configuration: Configuration, placement: Placement) -> str:
    """Rendered, with an upstream where one is needed."""
    if space.template == "nginx/proxy" and not placement.upstreams:
        placement = replace(placement, upstreams=("127.0.0.1:9",))
    return render(space.template, configuration, space, placement)


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("baseline", BASELINES)
def test_nginx_accepts_every_baseline(tmp_path: Path, name: str, baseline: str) -> None:
    """In the lab and, but for folders that only root may write, as an export."""
    space = bind(name)
    lab = place(tmp_path)
    export = replace(
        EXPORT,
        listen=lab.listen,
        run_dir=lab.run_dir,
        log_dir=lab.log_dir,
        user=lab.user,
        temp_paths=lab.temp_paths,
    )
    for placement in (lab, export):
        assert refusal(tmp_path, text_of(space, space.baseline(baseline), placement)) == ""


@pytest.mark.parametrize("baseline", BASELINES)
def test_a_real_nginx_serves_the_site_and_proves_what_it_runs(
    tmp_path: Path, start: Callable[[Path, str], int], baseline: str
) -> None:
    """The page to the byte, its type, and the configuration's digest at the live path."""
    workload = load_workload("static")
    space = bind("nginx/static")
    configuration = space.baseline(baseline)
    placement = place(tmp_path, digest=configuration.digest)
    for path, data in generate(workload).items():
        (tmp_path / "site" / path).write_bytes(data)
    start(tmp_path, text_of(space, configuration, placement))
    assert fetch(placement, "/index.html") == (generate(workload)["index.html"], "text/html")
    assert fetch(placement, LIVE) == (configuration.digest.encode(), "text/plain")
    log = (tmp_path / "logs" / "access.log").read_text()
    assert "GET /index.html" in log
    assert LIVE not in log


@pytest.mark.parametrize("baseline", BASELINES)
def test_a_real_proxy_passes_on_what_the_backend_answers(
    tmp_path: Path, start: Callable[[Path, str], int], baseline: str
) -> None:
    """The proxy passes the body on unchanged, over new and kept connections."""
    workload = load_workload("proxy")
    assert workload.backend is not None
    behind = place(tmp_path / "backend", digest="backend")
    start(tmp_path / "backend", render_backend(workload, behind))
    space = bind("nginx/proxy")
    configuration = space.baseline(baseline)
    front = place(tmp_path / "proxy", digest=configuration.digest, upstreams=(behind.listen,))
    start(tmp_path / "proxy", text_of(space, configuration, front))
    for _ in range(3):
        answer = fetch(front, workload.requests[0].path)
        assert answer == (workload.backend.body, "application/json")
    assert fetch(front, LIVE)[0] == configuration.digest.encode()
    assert fetch(behind, LIVE)[0] == b"backend"


def test_a_real_backend_answers_any_text(tmp_path: Path, start: Callable[[Path, str], int]) -> None:
    """Quotes, dollar signs and line ends, beyond what Nginx reads at once."""
    body = ('{"a": "it\'s \\\\ ${b} $c; #d",\n\t"é": ["\\"", "…"]}\r\n' * 400).encode()
    workload = replace(load_workload("proxy"), backend=Backend(body, "text/plain; charset=utf-8"))
    placement = place(tmp_path)
    start(tmp_path, render_backend(workload, placement))
    assert len(body) > 3 * 4096
    assert fetch(placement, "/x.html") == (body, "text/plain; charset=utf-8")


def test_a_real_nginx_reads_quoted_paths_as_they_were_meant(
    tmp_path: Path, start: Callable[[Path, str], int]
) -> None:
    """A study may live in a folder with blanks, quotes, semicolons and backslashes."""
    folder = tmp_path / 'it\'s "mine"; {a} \\ #b é'
    folder.mkdir()
    placement = place(folder)
    (folder / "site" / "index.html").write_bytes(b"found")
    space = bind("nginx/static")
    start(folder, text_of(space, space.baseline("stock"), placement))
    assert fetch(placement, "/")[0] == b"found"


def test_workers_stay_on_the_cores_they_are_given(
    tmp_path: Path, start: Callable[[Path, str], int]
) -> None:
    """Even where the configuration asks for affinity, which would undo the one from outside."""
    cpu = max(os.sched_getaffinity(0))
    space = bind("nginx/static")
    configuration = space.complete(
        {"worker_processes": 2, "worker_cpu_affinity": "auto"}, space.baseline("stock")
    )
    placement = place(tmp_path, cpu_mask=cpu_mask([cpu]))
    master = start(tmp_path, text_of(space, configuration, placement))
    children = Path(f"/proc/{master}/task/{master}/children")
    wait(lambda: len(children.read_text().split()) == 2)
    fetch(placement, LIVE)  # the workers are up, and have set their affinity before
    for worker in children.read_text().split():
        wait(lambda worker=worker: os.sched_getaffinity(int(worker)) == {cpu})  # type: ignore[misc]
