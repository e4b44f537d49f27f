"""Caddy's matchers: whether a request meets the conditions of a route.

https://caddyserver.com/docs/json/apps/http/servers/routes/match/
"""

from __future__ import annotations

import fnmatch
import ipaddress
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tuner.own.caddy.tree import Json, JsonPath
from tuner.workload.workload import Request

PATH = "{http.request.uri.path}"
"""Placeholder of the path."""
_CLIENT = ipaddress.ip_address("127.0.0.1")


@dataclass(slots=True)
class RoutedRequest:
    """One request on its way through the routes."""

    host: str
    request: Request
    tls: bool
    site: frozenset[str] | None
    """Paths of the files; None if unknown."""
    path: str | None
    """Path after the rewrites so far; None if unknown."""
    root: JsonPath | None = None
    matched: str | None = None
    """The file that the last matcher found; None without one."""


def matches(found: Json, ask: RoutedRequest) -> bool | None:
    """Return whether a request meets a route's matchers; None if unknown."""
    if not found:
        return True
    return _either(_all(_one(name, value, ask) for name, value in one.items()) for one in found)


def covers(pattern: str, host: str) -> bool:
    """Return whether a host name, or a pattern with stars for labels, matches a host."""
    labels, wanted = pattern.lower().split("."), host.lower().split(".")
    return pattern.lower() == host.lower() or (
        len(labels) == len(wanted)
        and all(label in ("*", other) for label, other in zip(labels, wanted, strict=True))
    )


def _either(met: Iterator[bool | None]) -> bool | None:
    found = list(met)
    return True if True in found else None if None in found else False


def _all(met: Iterator[bool | None]) -> bool | None:
    found = list(met)
    return False if False in found else None if None in found else True


def _one(name: str, value: Json, ask: RoutedRequest) -> bool | None:
    match name:
        case "host":
            return _host(value, ask.host)
        case "path":
            return _either(_path(pattern, ask.path) for pattern in value)
        case "path_regexp":
            return _regexp(str(value.get("pattern", "")), ask.path)
        case "method":
            return ask.request.method in value
        case "protocol":
            return {"https": ask.tls, "http": not ask.tls}.get(value, False)
        case "header":
            return _all(_header(field_name, wanted, ask) for field_name, wanted in value.items())
        case "remote_ip" | "client_ip":
            return _either(_address(text) for text in value.get("ranges") or ())
        case "not":
            met = matches(value, ask)
            return None if met is None else not met
        case "file":
            return _file(value, ask)
        case _:
            return None


def _host(wanted: Sequence[str], host: str) -> bool | None:
    if any(covers(each, host) for each in wanted):
        return True
    return None if any("{" in each for each in wanted) else False


def _path(pattern: str, path: str | None) -> bool | None:
    """Match a path: https://caddyserver.com/docs/json/apps/http/servers/routes/match/path/."""
    if pattern == "*":
        return True
    if path is None or "{" in pattern:
        return None
    text, wanted = path.lower(), pattern.lower()
    if wanted.startswith("*") and wanted.endswith("*") and "*" not in wanted[1:-1]:
        return wanted[1:-1] in text
    if wanted.endswith("*") and "*" not in wanted[:-1]:
        return text.startswith(wanted[:-1])
    if wanted.startswith("*") and "*" not in wanted[1:]:
        return text.endswith(wanted[1:])
    return fnmatch.fnmatchcase(text, wanted)


def _regexp(pattern: str, path: str | None) -> bool | None:
    if path is None:
        return None
    try:
        return re.search(pattern, path) is not None
    except re.error:
        return None


def _header(name: str, wanted: Json, ask: RoutedRequest) -> bool | None:
    found = [value for other, value in ask.request.headers if other.lower() == name.lower()]
    if name.lower() == "host":
        return None
    if not wanted:
        return not found if wanted is None else bool(found)
    return any(fnmatch.fnmatchcase(value, pattern) for value in found for pattern in wanted)


def _address(text: str) -> bool | None:
    try:
        return _CLIENT in ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _file(value: Json, ask: RoutedRequest) -> bool | None:
    """Return whether a file exists; None for the user's own files, which are unknown."""
    if ask.site is None or ask.path is None:
        return None
    wanted = value or {}
    tried = [str(each).replace(PATH, ask.path) for each in wanted.get("try_files") or (PATH,)]
    paths = [_before(path if path[:1] == "/" else f"/{path}", wanted) for path in tried]
    found = (path for path in paths if _exists(path, ask.site))
    fallback = paths[-1] if wanted.get("try_policy") == "first_exist_fallback" else None
    ask.matched = next(found, fallback)
    if ask.matched is not None:
        return True
    return None if any("{" in path for path in paths) else False


def _before(path: str, wanted: Json) -> str:
    """Return a path up to the name of a script: ``/index.php`` of ``/index.php/about``."""
    for ending in wanted.get("split_path") or ():
        name, found, _ = path.lower().partition(str(ending).lower())
        if found:
            return path[: len(name) + len(found)]
    return path


def _exists(path: str, site: frozenset[str]) -> bool:
    return path in site or f"{path.rstrip('/')}/index.html" in site
