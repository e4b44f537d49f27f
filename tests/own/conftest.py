"""Fixtures of the backends behind the tests' proxies."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was asked: so a proxy's own headers are part of the answer."""

    protocol_version = "HTTP/1.1"
    fixed: tuple[str, bytes] | None = None
    """Media type and body of all answers instead."""

    def do_GET(self) -> None:
        """Echo the request."""
        headers = sorted(f"{name}: {value}" for name, value in self.headers.items())
        echo = "\n".join([self.path, self.request_version, *headers]).encode()
        media, body = self.fixed or ("text/plain", echo)
        self.send_response(200)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """The port of a server behind, with these answers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def back() -> Iterator[int]:
    """The port of a server behind."""
    with serving(Echo) as port:
        yield port
