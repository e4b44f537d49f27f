"""Fixtures of the backends behind the tests' proxies."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


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
