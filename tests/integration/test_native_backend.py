"""The backend for FastCGI, uwsgi, SCGI and gRPC behind Nginx and Caddy, with real applications."""

from __future__ import annotations

import http.client
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import grpc
import pytest

from tests.hosts.modules import ModuleDeployer
from tests.hosts.nginxes import ask, needs_nginx, nginx_lab
from tests.integration import applications
from tests.own.real import free_port, running
from tests.own.windows import window
from tuner.generators.generator import Endpoint
from tuner.hosts import local
from tuner.paths import loadgen_binary
from tuner.servers import caddy, native_backend, nginx
from tuner.workload.workload import Workload, load_workload

pytestmark = needs_nginx
TEXT = "A page of words that an application would make. " * 120

GRPC = "headers: {Content-Type: application/grpc}"
STREAMS = f"""
backend: {{serves: answers}}
requests:
  - {{path: /any.Service/Watch, {GRPC}, body: hello, answer: {{messages: 3, TIMES}}}}
  - {{path: /any.Service/Put, {GRPC}, body: {"x" * 9_000}, messages: 3, answer: {{TIMES}}}}
  - {{path: /any.Service/Talk, {GRPC}, body: x, messages: 3, answer: {{messages: 3, TIMES}}}}
"""

Behind = Callable[[Workload, Path], AbstractContextManager[str]]
"""Runs an application, and returns its address."""


@dataclass(frozen=True)
class Spoken:
    """One way in which a server passes requests on."""

    location: str
    upstream: str = ""
    http2: bool = False
    caddy: bool = False


FASTCGI = (
    "try_files /index.php =404; fastcgi_param REQUEST_METHOD $request_method;"
    " fastcgi_param CONTENT_LENGTH $content_length;"
    " fastcgi_param SCRIPT_FILENAME $document_root/index.php;"
)
UWSGI = "uwsgi_param REQUEST_METHOD $request_method; uwsgi_param CONTENT_LENGTH $content_length;"
SPOKEN = {
    "fastcgi": Spoken(FASTCGI + "fastcgi_pass @BACK@;"),
    "fastcgi, kept": Spoken(FASTCGI + "fastcgi_keep_conn on; fastcgi_pass app;", "keepalive 8;"),
    "uwsgi": Spoken(UWSGI + "uwsgi_pass uwsgi://@BACK@;"),
    "scgi": Spoken(UWSGI.replace("uwsgi_", "scgi_") + "scgi_pass @BACK@;"),
    "grpc": Spoken("grpc_pass grpc://@BACK@;", http2=True),
    "grpc, kept": Spoken("grpc_pass app;", "keepalive 8;", http2=True),
    "php_fastcgi": Spoken("php_fastcgi @BACK@", caddy=True),
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the account of the servers may enter."""
    with tempfile.TemporaryDirectory(prefix="tuner-native-", dir="/var/tmp") as name:
        (Path(name) / "site").mkdir()
        (Path(name) / "site" / "index.php").write_text("")
        for path in (Path(name), Path(name) / "site"):
            path.chmod(0o755)
        yield Path(name)


@contextmanager
def proxied(spoken: Spoken, back: str, folder: Path) -> Iterator[Endpoint]:
    """Run a server in front of an application."""
    port = free_port()
    if spoken.caddy:
        site = f"root * {folder}/site\n{spoken.location.replace('@BACK@', back)}"
        (folder / "Caddyfile").write_text(f"http://:{port} {{\nbind 127.0.0.1\n{site}\n}}\n")
        pid_file = folder / "caddy.pid"
        options = ["--config", str(folder / "Caddyfile"), "--pidfile", str(pid_file)]
        with running([caddy.detect().binary, "start", *options], pid_file):
            yield Endpoint("one", f"127.0.0.1:{port}", (int(pid_file.read_text()),))
        return
    upstream = f"upstream app {{ server {back}; {spoken.upstream} }}" if spoken.upstream else ""
    temporary = "".join(
        f"{name}_temp_path {folder}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"pid {folder}/nginx.pid; error_log {folder}/error.log;\nevents {{}}\n"
        f"http {{ access_log off;\n{temporary}{upstream}\n"
        f"server {{ listen 127.0.0.1:{port}{' http2' if spoken.http2 else ''};"
        f" root {folder}/site;\n"
        f"location / {{ {spoken.location.replace('@BACK@', back)} }} }} }}\n"
    )
    command = [nginx.detect().binary, "-p", f"{folder}/", "-c", f"{folder}/nginx.conf"]
    with running(command, folder / "nginx.pid"):
        pid = int((folder / "nginx.pid").read_text())
        yield Endpoint("one", f"127.0.0.1:{port}", (pid,))


def workload_of(folder: Path, lines: str, *, grpc: bool = False) -> Workload:
    """Return a workload of four connections."""
    path = folder / "mine.yaml"
    wire = "protocol: http2\n" if grpc else ""
    path.write_text(f"workload: mine\nconnections: 4\n{wire}{lines}")
    return load_workload(str(path))


@pytest.mark.parametrize("name", SPOKEN)
def test_a_window_through_a_server(name: str, folder: Path) -> None:
    """Each request gets its own answer: its size, its hash, and not before its time."""
    spoken = SPOKEN[name]
    header = "headers: {Content-Type: application/grpc}, " if spoken.http2 else ""
    method = "POST" if spoken.http2 else "PUT"
    workload = workload_of(
        folder,
        f"""
backend: {{serves: answers, content_type: text/html}}
requests:
  - {{path: /a, {header}answer: {{size: 0}}}}
  - {{path: /b, {header}answer: {{size: 100k, times: [2ms, 4ms]}}}}
  - {{path: /c, {header}method: {method}, body: {{text: 40k}}, answer: {{size: 300, times: [2ms]}}}}
""".replace("body: {text: 40k}", f"body: {'x' * 40_000}"),
        grpc=spoken.http2,
    )
    with (
        native_backend.running(workload, folder) as back,
        proxied(spoken, back, folder) as endpoint,
    ):
        found = window(workload, endpoint)
        waited = [one for one in workload.requests if one.answer and one.answer.times_s]
        slow = window(replace(workload, requests=tuple(waited)), endpoint)
    for one in (found, slow):
        assert one.invalid == ()
        assert one.completed > 0
    assert slow.raw.p50_us >= 2_000


@pytest.mark.parametrize("status", [201, 204, 302, 404, 503])
def test_statuses_pass_through_nginx(status: int, folder: Path) -> None:
    """In each protocol of CGI's kind, as over HTTP."""
    workload = workload_of(
        folder,
        "backend: {serves: answers}\n"
        f"requests: [{{path: /a, answer: {{status: {status}, size: 7}}}}]\n",
    )
    number = dict(workload.requests[0].headers)
    with native_backend.running(workload, folder) as back:
        for name in ("fastcgi", "uwsgi", "scgi"):
            with proxied(SPOKEN[name], back, folder) as endpoint:
                for method in ("GET", "HEAD"):
                    connection = http.client.HTTPConnection(endpoint.address, timeout=10)
                    connection.request(method, "/a", headers=number)
                    answer = connection.getresponse()
                    empty = method == "HEAD" or status in {204, 302}
                    assert (answer.status, len(answer.read())) == (status, 0 if empty else 7), name
                    connection.close()


@pytest.mark.parametrize(
    ("name", "real"),
    [
        ("fastcgi", applications.php_fpm),
        ("fastcgi, kept", applications.php_fpm),
        ("php_fastcgi", applications.php_fpm),
        ("uwsgi", applications.uwsgi),
        ("grpc", applications.grpc_server),
        ("grpc, kept", applications.grpc_server),
    ],
)
def test_a_window_beside_a_real_application(name: str, real: Behind, folder: Path) -> None:
    """Behind the same server both answer all requests with the same heads and bodies."""
    spoken = SPOKEN[name]
    header = "headers: {Content-Type: application/grpc}, " if spoken.http2 else ""
    path = "/any.Service/Method" if spoken.http2 else "/index.php"
    workload = workload_of(
        folder,
        f"backend: {{content_type: text/html, body: '{TEXT}'}}\n"
        f"requests: [{{path: {path}, {header}method: POST, body: hello}}]\n",
        grpc=spoken.http2,
    )
    heads = []
    for behind in (real, native_backend.running):
        with behind(workload, folder) as back, proxied(spoken, back, folder) as endpoint:
            found = window(workload, endpoint)
            assert found.invalid == (), behind
            assert found.completed > 0
            if not spoken.http2:
                heads.append(_head(endpoint.address))
    assert heads[:1] == heads[1:]


@pytest.mark.parametrize("name", ["grpc", "grpc, kept"])
def test_streams_beside_a_real_server(name: str, folder: Path) -> None:
    """Streams of the server, the client and both pass Nginx with every message."""
    workload = workload_of(folder, STREAMS.replace("TIMES", "size: 30k"), grpc=True)
    for behind in (applications.grpc_server, native_backend.running):
        with behind(workload, folder) as back, proxied(SPOKEN[name], back, folder) as endpoint:
            found = window(workload, endpoint)
            assert found.invalid == (), behind
            assert found.completed > 0


def test_the_latency_of_a_stream_is_the_time_to_its_end(folder: Path) -> None:
    """Messages come one by one: the first byte is there before the last message is due."""
    workload = workload_of(folder, STREAMS.replace("TIMES", "size: 40, every: 4ms"), grpc=True)
    workload = replace(workload, requests=workload.requests[:1])
    with (
        native_backend.running(workload, folder) as back,
        proxied(SPOKEN["grpc, kept"], back, folder) as endpoint,
    ):
        found = window(workload, endpoint)
    assert found.invalid == ()
    assert found.raw.p50_us >= 8_000
    assert found.first_byte is not None
    assert found.first_byte.p50_us < found.stall_free.p50_us


def _head(address: str) -> tuple[int, list[str]]:
    """Return the status and the header of an answer, without the date."""
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.request("GET", "/index.php")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, sorted(f"{n}: {v}" for n, v in answer.getheaders() if n != "Date")


def test_a_real_client_of_grpc_is_answered(folder: Path) -> None:
    """Many calls on one connection at once, larger than the client's windows, and a stream."""
    workload = workload_of(
        folder,
        "backend: {serves: answers}\n"
        "requests: [{path: /a, headers: {Content-Type: application/grpc},"
        " answer: {size: 200k, times: [1ms, 3ms]}},"
        " {path: /b, headers: {Content-Type: application/grpc},"
        " answer: {size: 70k, messages: 5, every: 1ms}}]\n",
        grpc=True,
    )
    answer = workload.requests[0].answer
    assert answer is not None
    with native_backend.running(workload, folder) as back, grpc.insecure_channel(back) as channel:
        call = channel.unary_unary("/any.Service/Method")
        number = (("tuner-answer", "0"),)
        calls = [call.future(b"x" * 1000, metadata=number, timeout=20) for _ in range(50)]
        assert {bytes(one.result()) for one in calls} == {answer.body}
        watch = channel.stream_stream("/any.Service/Watch")
        streamed = workload.requests[1].answer
        assert streamed is not None
        number = (("tuner-answer", "1"),)
        messages = watch(iter((b"a", b"b")), metadata=number, timeout=20)
        assert [bytes(one) for one in messages] == [streamed.body] * 5
        with pytest.raises(grpc.RpcError) as error:
            call(b"", timeout=20)
        assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_the_backend_is_deployed_and_proved_live(tmp_path: Path) -> None:
    """As the backends over HTTP are, with the program where its account can run it."""
    workload = load_workload("proxy")
    with nginx_lab(tmp_path / "study", ModuleDeployer) as lab:
        program = local.runnable(str(loadgen_binary()), lab.lab)
        ground = replace(lab.ground, binary=program)
        (port,) = local.free_ports(1)
        spec = native_backend.instance(workload, ground, port)
        state = lab.deployer.deploy_backends([spec])[native_backend.LABEL]
        assert (state.state, state.message) == ("live", "")
        assert len(state.pids) == 1
        assert ask(spec.live_url) == native_backend.LABEL
