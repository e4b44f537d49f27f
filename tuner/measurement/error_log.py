"""Excerpts of a server's error log that are safe to show: why requests failed.

Only the server's own words are kept. Text from a client, a backend or an application may hold
secrets, so requests, queries, headers and quoted messages are left out.
"""

from __future__ import annotations

import json
import re

MOST_LINES = 3
MOST_CHARACTERS = 160
"""Longest excerpt of a line."""
_NGINX = re.compile(r"\S+ \S+ \[(?P<level>[a-z]+)\] [\d#]+: (?:\*\d+ )?(?P<words>.*)")
_NGHTTPX = re.compile(
    r"\S+ \d+ \d+ [0-9a-f]+ (?P<level>[A-Z]+) \([^)]*\) (?:\[[^]]*\] )?(?P<words>.*)"
)
"""With --errorlog-file, see https://nghttp2.org/documentation/nghttpx.1.html."""
_QUIET = frozenset(("debug", "info", "notice"))
_ADMIN = "admin"
"""Caddy's logger of its admin endpoint: Caddy warns at every start, even of a Unix socket."""
_LEFT_OUT = (
    # Nginx: the request follows the sentence.
    (re.compile(r", client: .*"), ""),
    # Text from others follows a colon in quotes: a header, an application's message.
    (re.compile(r': ".*"?'), ": …"),
    (re.compile(r"(?<=//)[^/@\s]*@"), "***@"),
    (re.compile(r"\?[^\s\"']*"), "?…"),
)


def complaints(tail: bytes) -> tuple[str, ...]:
    """Return the last distinct complaints of a server, oldest first.

    Of lines that differ only in numbers, the last one is kept.

    Args:
        tail: whole lines of Nginx, Caddy (JSON) or nghttpx; lines of other forms are shown
            unchanged.
    """
    different: dict[str, str] = {}
    for line in tail.decode(errors="replace").splitlines():
        words = _complaint(line)
        if words:
            kind = re.sub(r"\d+", "0", words)
            different.pop(kind, None)
            different[kind] = words
    return tuple(different.values())[-MOST_LINES:]


def signal_of(pid: int, tail: bytes) -> int | None:
    """Return the signal that ended a process, from Nginx's log of its children; None if missing."""
    found = re.findall(rb"process %d exited on signal (\d+)" % pid, tail)
    return int(found[-1]) if found else None


def _complaint(line: str) -> str:
    """Return the complaint of a line; empty if it holds none."""
    level, words = _json(line) or _plain(line)
    if level.lower() in _QUIET:
        return ""
    for secret, instead in _LEFT_OUT:
        words = secret.sub(instead, words)
    line = f"[{level.lower()}] {words}" if level and words else words
    shown = "".join(char if char.isprintable() else " " for char in line).strip()
    return shown if len(shown) <= MOST_CHARACTERS else f"{shown[: MOST_CHARACTERS - 1]}…"


def _plain(line: str) -> tuple[str, str]:
    for form in (_NGINX, _NGHTTPX):
        found = form.fullmatch(line)
        if found:
            return found["level"], found["words"]
    return "", line


def _json(line: str) -> tuple[str, str] | None:
    """Return level and message of a JSON line; None for other lines."""
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    if not isinstance(fields, dict):
        return None
    if fields.get("logger") == _ADMIN:
        return "info", ""
    words = [fields[key] for key in ("msg", "error") if isinstance(fields.get(key), str)]
    return str(fields.get("level", "")), ": ".join(words)
