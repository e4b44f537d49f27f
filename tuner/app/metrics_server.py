"""The metrics of running studies over HTTP, for ``--metrics``.

A thread waits for scrapes and renders the record only for a scrape, so that it costs nothing
otherwise. Only ``/metrics`` is served, and not to everybody (``tuner.app.web_guard``).
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from tuner.app.progress import RunProgress
from tuner.app.web_guard import ServiceToken, names_listener, token_for
from tuner.definition.study import StudyDefinition
from tuner.errors import DefinitionError, HostError, quoted
from tuner.judge.results import evaluate
from tuner.outputs.live_metrics import live_families
from tuner.outputs.openmetrics import CONTENT_TYPE, render_openmetrics
from tuner.paths import has_record
from tuner.store.listing import list_names
from tuner.store.store import Store, sqlite_url

OPTION = "--metrics"
_LOOPBACK = "127.0.0.1"
_PATIENCE_S = 5.0


def listen_address(text: str) -> tuple[str, int]:
    """Return host and port of ``9464``, ``127.0.0.1:9464`` or ``[::1]:9464``.

    Raises:
        DefinitionError: the text is not an address.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or _LOOPBACK
    if not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise DefinitionError(
            f"{quoted(text)} is not an address; write HOST:PORT, such as 127.0.0.1:9464",
            path=OPTION,
        )
    return host, int(port)


def check_listen(text: str | None) -> None:
    """Raise unless the metrics can be served at an address, before a study is created.

    Raises:
        DefinitionError: the text is not an address, or the token is not usable.
        HostError: the address cannot be bound.
    """
    if text is not None:
        at = listen_address(text)
        token_for(at[0], OPTION)
        with serving(at, str):
            pass


def study_metrics(
    address: str | None, definition: StudyDefinition, folder: Path, progress: RunProgress
) -> contextlib.AbstractContextManager[None]:
    """Serve the metrics of a study inside the block; do nothing without an address.

    Args:
        address: value of ``--metrics``.
        definition: definition of the study.
        folder: folder of its results.
        progress: display of the progress, which knows the phase.

    Raises:
        DefinitionError: the address is wrong.
        HostError: the address cannot be bound.
    """
    url = definition.storage or sqlite_url(folder)
    return _metrics(address, url, lambda: [definition.name], progress)


def run_metrics(
    address: str | None, folder: Path, progress: RunProgress
) -> contextlib.AbstractContextManager[None]:
    """Serve the metrics of the studies that a run has begun, like `study_metrics`.

    Args:
        address: value of ``--metrics``.
        folder: folder of the run.
        progress: display of the progress, which knows the phase.
    """
    url = sqlite_url(folder)

    def names() -> list[str]:
        return list_names(url) if has_record(folder) else []

    return _metrics(address, url, names, progress)


@contextlib.contextmanager
def _metrics(
    address: str | None,
    url: str,
    names: Callable[[], Sequence[str]],
    progress: RunProgress,
) -> Iterator[None]:
    if address is None:
        yield
        return

    def render() -> str:
        # A reader of its own: Optuna's storages are not shared between threads here.
        records = [Store.open(url, name, writing=False).record() for name in names()]
        begun = sorted(records, key=lambda record: record.started_unix_s)
        return render_openmetrics(live_families(list(map(evaluate, begun)), progress.now))

    at = listen_address(address)
    token = token_for(at[0], OPTION)
    with serving(at, render, token) as served:
        progress.note(f"metrics at {served}" + (f" with {token.words()}" if token else ""))
        yield


@contextlib.contextmanager
def serving(
    address: tuple[str, int], render: Callable[[], str], token: ServiceToken | None = None
) -> Iterator[str]:
    """Serve a rendered exposition inside the block; yield its URL.

    Args:
        address: host and port; port 0 takes a free one.
        render: called by the thread for each scrape.
        token: the token that a scrape needs; None for none.

    Raises:
        HostError: the address cannot be bound.
    """
    host, port = address

    class Server(HTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        def server_bind(self) -> None:
            # `HTTPServer.server_bind` looks up the host's name, which may take long.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind(self.server_address)
            self.server_address = self.socket.getsockname()

        def handle_error(self, request: object, client_address: object) -> None:
            """Ignore a client that goes away."""

    try:
        server = Server((host, port), _handler(host, render, token))
    except OSError as error:
        raise HostError(
            f"{OPTION}: cannot listen on {host}:{port}: {error.strerror or error}; choose another"
            " port, or stop the program that uses it"
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    bound = server.server_address[1]
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{bound}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(
    host: str, render: Callable[[], str], token: ServiceToken | None
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE_S
        server_version = "tuner"
        sys_version = ""

        def do_GET(self) -> None:
            """Answer a scrape."""
            if not names_listener(self.headers.get("Host", ""), host):
                self._answer(421, "this is the metrics of a study; use its address\n")
            elif token and not token.is_in(self.headers.get("Authorization", "")):
                self._answer(401, "this needs the token that tuner printed, or TUNER_TOKEN's\n")
            elif self.path.partition("?")[0] != "/metrics":
                self._answer(404, "only /metrics is here\n")
            else:
                try:
                    text = render()
                except Exception:  # noqa: BLE001 - a scrape must never end a study
                    self._answer(503, "the record cannot be read now; try again\n")
                else:
                    self._answer(200, text, CONTENT_TYPE)

        def _answer(self, code: int, text: str, kind: str = "text/plain; charset=utf-8") -> None:
            body = text.encode()
            self.send_response(code)
            if code == HTTPStatus.UNAUTHORIZED:
                self.send_header("WWW-Authenticate", "Bearer")
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            """Print nothing: the terminal shows the study."""

    return Handler
