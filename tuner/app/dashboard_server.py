"""optuna-dashboard behind a guard, for ``tuner dashboard``.

The dashboard can rename and delete studies and has no access control of its own. The guard refuses
names from DNS rebinding, requests that another site's page sends, and, on an address that is not
loopback, requests without the token. A browser opens the printed address with ``?token=``, and gets
a cookie that other sites' pages do not send.
"""

from __future__ import annotations

import http.cookies
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from tuner.app.web_guard import ServiceToken, names_listener

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""A WSGI application (PEP 3333)."""

COOKIE = "tuner-token"
_READING = ("GET", "HEAD")
_LOOK_S = 0.5
"""Longest time until a signal is handled."""


class _QuietHandler(WSGIRequestHandler):
    timeout = 30.0

    def address_string(self) -> str:
        """Return the address without a query to DNS."""
        return str(self.client_address[0])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Print no line for each request: its query may hold the token."""


def serve(application: Application, host: str, port: int, token: ServiceToken | None) -> None:
    """Serve an application at an address until the process is interrupted.

    Raises:
        OSError: the address cannot be bound.
    """

    class Server(WSGIServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    with Server((host, port), _QuietHandler) as server:
        server.set_app(guarded(application, host, token))
        # wsgiref reports every exception in a request as the application's, also that of a signal,
        # which ends the process only if no request is answered in the thread that handles signals.
        thread = threading.Thread(target=server.serve_forever, name="dashboard", daemon=True)
        thread.start()
        # The kernel may give a signal to that thread, as after SIGCONT; it ends no wait here, so
        # this thread handles it only when its own wait is over (signal(7)).
        while thread.is_alive():
            thread.join(_LOOK_S)


def address(host: str, port: int, token: ServiceToken | None) -> str:
    """Return the URL that opens the dashboard."""
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    if token is None:
        return url
    return f"{url}?token={'$TUNER_TOKEN' if token.given else token.text}"


def guarded(application: Application, host: str, token: ServiceToken | None) -> Application:
    """Return the application behind the guard.

    Args:
        application: what is guarded.
        host: address or name of the listener.
        token: the token that requests need; None for none.
    """

    def guard(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        asked = environ.get("HTTP_HOST", "")
        if not names_listener(asked, host):
            return _refuse(start_response, "421 Misdirected Request", "use the dashboard's address")
        origin = environ.get("HTTP_ORIGIN")
        if environ["REQUEST_METHOD"] not in _READING and origin not in (None, f"http://{asked}"):
            return _refuse(start_response, "403 Forbidden", "another site sent this request")
        if token is None:
            return application(environ, start_response)
        query = parse_qs(environ.get("QUERY_STRING", "")).get("token", [])
        if any(map(token.equals, query)):
            cookie = f"{COOKIE}={token.text}; Path=/; HttpOnly; SameSite=Strict"
            start_response("303 See Other", [("Location", "/dashboard"), ("Set-Cookie", cookie)])
            return []
        if token.is_in(environ.get("HTTP_AUTHORIZATION", "")) or _has_cookie(environ, token):
            return application(environ, start_response)
        return _refuse(start_response, "401 Unauthorized", "open the address that tuner printed")

    return guard


def _has_cookie(environ: dict[str, Any], token: ServiceToken) -> bool:
    try:
        cookies = http.cookies.SimpleCookie(environ.get("HTTP_COOKIE", ""))
    except http.cookies.CookieError:
        return False
    return COOKIE in cookies and token.equals(cookies[COOKIE].value)


def _refuse(start_response: Callable[..., Any], status: str, reason: str) -> Iterable[bytes]:
    body = f"{reason}\n".encode()
    headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))]
    if status.startswith("401"):
        headers.append(("WWW-Authenticate", "Bearer"))
    start_response(status, headers)
    return [body]
