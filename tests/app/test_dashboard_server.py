"""The dashboard's guard, in front of optuna-dashboard itself."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from typing import Any
from urllib.parse import urlsplit
from wsgiref.util import setup_testing_defaults

import optuna
import pytest

from tests.fleet.bed import listens, until
from tuner.app.dashboard_server import COOKIE, Application, address, guarded
from tuner.app.web_guard import ServiceToken, is_loopback

TOKEN = ServiceToken("0123456789abcdef", given=False)
HERE = "127.0.0.1"
ELSEWHERE = "0.0.0.0"  # noqa: S104 - nothing listens


@pytest.fixture(scope="module")
def dashboard() -> Application:
    """Return optuna-dashboard on an empty study."""
    extra = pytest.importorskip("optuna_dashboard")
    storage = optuna.storages.InMemoryStorage()
    optuna.create_study(storage=storage, study_name="mine")
    app: Application = extra.wsgi(storage)
    return app


def ask(
    application: Application, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of a request to a WSGI application."""
    parts = urlsplit(path)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "PATH_INFO": parts.path,
        "QUERY_STRING": parts.query,
        "HTTP_HOST": "127.0.0.1:8080",
        **{f"HTTP_{name.upper()}": value for name, value in headers.items()},
    }
    setup_testing_defaults(environ)
    begun: list[Any] = []
    found = application(environ, lambda status, given, *_: begun.extend([status, dict(given)]))
    body = b"".join(found)
    if hasattr(found, "close"):
        found.close()
    return int(begun[0].split()[0]), begun[1], body


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8080", 200),
        ("localhost:8080", 200),
        ("[::1]:8080", 200),
        ("evil.example", 421),
        ("evil.example:8080", 421),
        ("", 421),
    ],
)
def test_a_name_from_dns_rebinding_is_refused(
    dashboard: Application, host: str, status: int
) -> None:
    """The Host header must be an address or the listener's own name."""
    assert ask(guarded(dashboard, HERE, None), "/api/studies", host=host)[0] == status


@pytest.mark.parametrize("path", ["/etc/passwd", "/static/../../../../etc/passwd", "/metrics"])
def test_no_path_beyond_its_own_is_served(dashboard: Application, path: str) -> None:
    """Another path has no answer, and none leads out of the folder of its files."""
    status, _, body = ask(guarded(dashboard, HERE, None), path)
    assert status >= 400
    assert b"root:" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_the_page_of_another_site_changes_nothing(dashboard: Application, method: str) -> None:
    """A browser names the page's origin in a request that may change something."""
    app = guarded(dashboard, HERE, None)
    assert ask(app, "/api/studies/0", method, origin="http://evil.example")[0] == 403
    assert ask(app, "/api/studies/0", method, origin="null")[0] == 403
    assert ask(app, "/api/studies", origin="http://evil.example")[0] == 200


def test_its_own_page_may_change_something(dashboard: Application) -> None:
    """Such a request reaches the dashboard, which finds no study of this number."""
    app = guarded(dashboard, HERE, None)
    own = "http://127.0.0.1:8080"
    assert ask(app, "/api/studies/7", "DELETE", origin=own)[0] == 404


def test_another_address_needs_the_token(dashboard: Application) -> None:
    """In a header, or in the cookie that the printed address gives; a wrong one does not do."""
    app = guarded(dashboard, ELSEWHERE, TOKEN)
    status, headers, _ = ask(app, "/api/studies")
    assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
    for wrong in ({"authorization": "Bearer wrong"}, {"cookie": f"{COOKIE}=wrong"}):
        assert ask(app, "/api/studies", **wrong)[0] == 401
    assert ask(app, "/?token=wrong")[0] == 401
    assert ask(app, "/api/studies", authorization=f"Bearer {TOKEN.text}")[0] == 200
    printed = address("192.0.2.1", 8080, TOKEN).removeprefix("http://192.0.2.1:8080")
    status, headers, _ = ask(app, printed)
    assert (status, headers["Location"]) == (303, "/dashboard")
    assert "HttpOnly; SameSite=Strict" in headers["Set-Cookie"]
    cookie = headers["Set-Cookie"].partition(";")[0]
    assert ask(app, "/api/studies", cookie=cookie)[0] == 200


def test_loopback_is_what_only_this_machine_reaches() -> None:
    """A name may resolve to anything, but for localhost."""
    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "localhost", "LOCALHOST")))
    assert not any(map(is_loopback, (ELSEWHERE, "::", "192.0.2.1", "web.example", "")))


ANSWERS_NEVER = """
import signal, sys, threading, time
from tuner.app.dashboard_server import serve

def application(environ, start_response):
    print("asked", flush=True)
    if sys.argv[3:]:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    time.sleep(600)

serve(application, sys.argv[1], int(sys.argv[2]), None)
"""


@pytest.mark.parametrize("itself", [False, True])
def test_ctrl_c_during_a_request_ends_it(itself: bool) -> None:
    """The application does not get the signal's exception, which wsgiref would swallow.

    The kernel may also deliver it to the thread that answers, which wakes no other one.
    """
    with socket.create_server((HERE, 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", ANSWERS_NEVER, HERE, str(port), *["itself"] * itself]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            until("the dashboard", lambda: listens(port), 60)
            with socket.create_connection((HERE, port), timeout=60) as client:
                client.sendall(f"GET / HTTP/1.0\r\nHost: {HERE}\r\n\r\n".encode())
                assert process.stdout is not None
                assert process.stdout.readline() == b"asked\n"
                if not itself:
                    process.send_signal(signal.SIGINT)
                _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGINT
    assert said.rstrip().endswith(b"KeyboardInterrupt")
