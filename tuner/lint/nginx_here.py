"""Findings that need more than the text of an Nginx configuration: its program, and its logs."""

from __future__ import annotations

import re
import subprocess
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from tuner.errors import DefinitionError
from tuner.lint.finding import Finding
from tuner.lint.nginx_scope import spots
from tuner.own.copies import is_installed
from tuner.own.nginx.tree import Tree
from tuner.reading.access_log import parse_line

_PATIENCE_S = 20.0
_MESSAGE = re.compile(r"\[(emerg|alert|crit|error|warn)\] (?:\d+#\d+: )?(.*)")
_PLACE = re.compile(r" in (\S+):(\d+)$")
_END_BYTES = 256 << 10
_FEWEST_LINES = 100
_SWITCHES = "https://nginx.org/en/docs/switches.html"


def refuse_empty(tree: Tree) -> None:
    """Raise DefinitionError if a file holds no configuration.

    Raises:
        DefinitionError: it is empty, or has only comments.
    """
    if tree.directives:
        return
    raise DefinitionError(
        "holds no directive; name the main file of the configuration (--config"
        " /etc/nginx/nginx.conf)",
        path=tree.file,
    )


def messages(tree: Tree, program: str) -> Iterator[Finding]:
    """Yield the messages of ``nginx -t`` on an installed configuration.

    A copy names files of another machine, so nothing is run for it.
    """
    if not program or tree.copies.is_copy or not is_installed(tree.file):
        return
    try:
        done = subprocess.run(
            [program, "-t", "-q", "-c", tree.file],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_PATIENCE_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    for level, message in _MESSAGE.findall(done.stderr):
        place = _PLACE.search(message)
        said = _PLACE.sub("", message)
        if "Permission denied" in said:
            continue
        yield Finding(
            rule="nginx-test",
            severity="style" if level == "warn" and "ignored" not in said else "wrong",
            file=place.group(1) if place else tree.file,
            line=int(place.group(2)) if place else None,
            place="nginx -t",
            what=said,
            why="Nginx itself reports it when it reads these files",
            remedy="change what it names, and run nginx -t again",
            link=_SWITCHES,
        )


def log_rates(tree: Tree) -> dict[str, float]:
    """Return the rates of the lines at the ends of the access logs that are here, by path."""
    if tree.copies.is_copy:
        return {}
    paths = {spot.directive.args[0] for spot in spots(tree, "access_log") if spot.directive.args}
    found = ((path, _rate(Path(path))) for path in sorted(paths) if path.startswith("/"))
    return {path: rate for path, rate in found if rate is not None}


def _rate(path: Path) -> float | None:
    """Return the lines per second at the end of a log; None if they cannot be counted."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _END_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()[1:]
    except OSError:
        return None
    times: deque[float] = deque()
    for line in lines:
        try:
            times.append(parse_line(line).unix_s)
        except ValueError:
            continue
    if len(times) < _FEWEST_LINES:
        return None
    # The times of a log have whole seconds.
    return len(times) / (max(times) - min(times) + 1)
