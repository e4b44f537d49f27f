"""Real applications behind Nginx: PHP-FPM, uwsgi with Python, and a gRPC server."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from tests.own.real import free_port
from tuner.workload.workload import Workload

_PATIENCE_S = 10.0


def missing(name: str) -> str:
    """Return why tests of an application are skipped."""
    return f"no {name} in this system's packages (.ci/require applications)"


@contextlib.contextmanager
def php_fpm(workload: Workload, folder: Path) -> Iterator[str]:
    """Run PHP-FPM with a script that answers as the workload's backend, and yield its address."""
    found = [shutil.which(f"php-fpm{version}", path="/usr/sbin") for version in ("", "8.2", "8.4")]
    program = next((path for path in found if path), None)
    if program is None:
        pytest.skip(missing("php-fpm"))
    assert workload.backend is not None
    body = folder / "body"
    body.write_bytes(workload.backend.body)
    script = folder / "site" / "index.php"
    script.parent.mkdir(exist_ok=True)
    script.write_text(f"<?php header_remove('X-Powered-By'); readfile('{body}');")
    port = free_port()
    (folder / "fpm.conf").write_text(
        f"[global]\ndaemonize = no\nerror_log = {folder}/fpm.log\n"
        f"[www]\nuser = nobody\ngroup = nogroup\nlisten = 127.0.0.1:{port}\n"
        "pm = static\npm.max_children = 8\n"
        f"php_admin_value[default_mimetype] = {workload.backend.content_type}\n"
        "php_admin_value[default_charset] = \n"
    )
    with _running([program, "-n", "-y", str(folder / "fpm.conf")], folder, port) as address:
        yield address


@contextlib.contextmanager
def uwsgi(workload: Workload, folder: Path) -> Iterator[str]:
    """Run uwsgi with an application that answers as the workload's backend."""
    program = shutil.which("uwsgi")
    if program is None:
        pytest.skip(missing("uwsgi"))
    assert workload.backend is not None
    (folder / "body").write_bytes(workload.backend.body)
    (folder / "app.py").write_text(
        f"BODY = open({str(folder / 'body')!r}, 'rb').read()\n"
        "def application(environ, start_response):\n"
        "    environ['wsgi.input'].read()\n"
        f"    start_response('200 OK', [('Content-Type', {workload.backend.content_type!r}),\n"
        "        ('Content-Length', str(len(BODY)))])\n"
        "    return [BODY]\n"
    )
    port = free_port()
    options = ("--plugin", "python3", "--need-app", "--processes", "2", "--listen", "64")
    # Without a master one process outlives the other, and SIGTERM is a request to reload.
    command = [program, *options, "--master", "--die-on-term", "--socket", f"127.0.0.1:{port}"]
    with _running([*command, "--wsgi-file", str(folder / "app.py")], folder, port) as address:
        yield address


@contextlib.contextmanager
def grpc_server(workload: Workload, folder: Path) -> Iterator[str]:  # noqa: ARG001 - as the others
    """Run a gRPC server with methods that answer as the workload's backend.

    ``Watch`` answers with a stream of three of its messages, ``Put`` takes a stream of three, and
    ``Talk`` does both.
    """
    assert workload.backend is not None
    answer = workload.requests[0].answer
    body = workload.backend.body if answer is None else answer.body or b""

    def once(requests: Iterable[bytes]) -> bytes:
        return body if len(list(requests)) == 3 else b""

    def stream(message: bytes) -> Iterator[bytes]:
        yield from (message,) * 3

    methods = {
        "Method": grpc.unary_unary_rpc_method_handler(lambda _request, _context: body),
        "Watch": grpc.unary_stream_rpc_method_handler(lambda _request, _context: stream(body)),
        "Put": grpc.stream_unary_rpc_method_handler(lambda request, _context: once(request)),
        "Talk": grpc.stream_stream_rpc_method_handler(
            lambda request, _context: stream(once(request))
        ),
    }
    service = grpc.method_handlers_generic_handler("any.Service", methods)
    server = grpc.server(ThreadPoolExecutor(4), handlers=(service,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait()


@contextlib.contextmanager
def _running(command: list[str], folder: Path, port: int) -> Iterator[str]:
    """Run a program that listens on a port of the loopback, and yield the address."""
    log = folder / "application.log"
    with log.open("w") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, cwd=folder)
    try:
        until = time.monotonic() + _PATIENCE_S
        while not _listens(port):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.02)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
