"""Lines of a Caddyfile for places in the JSON that Caddy makes of it."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.own.caddy.caddyfile import at, spots
from tuner.own.caddy.origin import CaddyOrigin
from tuner.own.caddy.tree import JsonPath
from tuner.reading.caddyfile_text import Line, parse

_NAMES = {
    "keep_alive": ("keepalive", "keepalive_idle_conns", "keepalive_interval"),
    "max_idle_conns_per_host": ("keepalive_idle_conns_per_host",),
    "level": ("debug", "level"),
    "idle_timeout": ("idle",),
}
"""Names of settings in a Caddyfile by their key in the JSON, where they differ."""


def line_of(origin: CaddyOrigin, place: str) -> tuple[str, int | None]:
    """Return file and line of a place in the JSON; None where no line is known.

    Args:
        origin: the configuration.
        place: path in the admin API's notation.
    """
    path: JsonPath = tuple(int(part) if part.isdigit() else part for part in _parts(place))
    names = _NAMES.get(str(path[-1]), (str(path[-1]),)) if path else ()
    for size in range(len(path), 0, -1):
        anchor = origin.anchors.get(path[:size])
        if anchor is not None:
            file, spot = anchor
            owner = at(parse(origin.texts[file], file), spot)
            return file, _inner(owner.lines, names) or owner.number
    if not origin.is_json:
        for file, text in origin.texts.items():
            number = _inner(parse(text, file), names)
            if number is not None:
                return file, number
    return origin.file, None


def _inner(lines: Sequence[Line], names: Sequence[str]) -> int | None:
    """Return the first line with one of the names, in any block."""
    found = (line.number for _, line in spots(lines) if line.name in names)
    return next(found, None)


def _parts(place: str) -> list[str]:
    return place.strip("/").split("/")
