"""Connections that were closed after more requests than any client sends over one.

A load of few connections at a high rate sends thousands of requests a second over each, so every
connection reaches the server's limit of requests (``keepalive_requests``) again and again. In half
of the pages a browser sends fewer than 3 requests over a connection, and 4 on average (HTTP
Archive, "Distribution of HTTP requests per TCP connection", discuss.httparchive.org, topic 365).
"""

from __future__ import annotations

from collections.abc import Iterable

from tuner.measurement.window import Measurement

_UNREAL = 100
"""Requests over one connection that hardly any client reaches: about those of a whole page, which
HTTP/2 carries over one connection."""


def lifetimes(windows: Iterable[Measurement]) -> dict[str, float]:
    """Return the requests after which connections were closed, by instance.

    Only instances are included that had as many connections reopened as they have.
    """
    by_instance: dict[str, list[Measurement]] = {}
    for window in windows:
        by_instance.setdefault(window.instance, []).append(window)
    found = {}
    for instance, measured in by_instance.items():
        reopened = sum(window.reconnects for window in measured)
        if reopened and reopened >= max(window.connections for window in measured):
            found[instance] = sum(window.completed for window in measured) / reopened
    return found


def warning(windows: Iterable[Measurement]) -> str:
    """Return a warning about connections closed by unreal load; empty without one."""
    unreal = {name: count for name, count in lifetimes(windows).items() if count >= _UNREAL}
    if not unreal:
        return ""
    each = ", ".join(f"{name} after about {count:,.0f}" for name, count in unreal.items())
    return (
        f"connections were closed and reopened while measuring ({each} requests each): real clients"
        " send far fewer over one connection (fewer than 3 in half of the pages of the HTTP"
        " Archive), so the cost of that, or the gain of a higher keepalive_requests, is not what"
        " users see"
    )
