"""Lists of URLs: files with a request in each line."""

from __future__ import annotations

import re
from pathlib import Path

from tuner.errors import DefinitionError, quoted
from tuner.reading.inputs import URLS_BYTES, read_input
from tuner.reading.located import parse_real


def read_urls(path: Path) -> list[tuple[str, str, float, int]]:
    """Read lines of ``[METHOD] TARGET [WEIGHT]``; ``#`` begins a comment line.

    TARGET is a path or a URL; scheme and host of a URL are ignored.

    Returns:
        Method, path, weight and line number of each.

    Raises:
        DefinitionError: with the line.
    """
    found = []
    text = read_input(path, URLS_BYTES).decode("utf-8", "replace")
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or line.startswith("#"):
            continue
        method = words.pop(0) if not words[0].startswith(("/", "http://", "https://")) else "GET"
        target = words.pop(0) if words else ""
        weight = words.pop(0) if words else "1"
        try:
            share = parse_real(weight)
        except ValueError:
            share = 0.0
        path_only = re.sub(r"^https?://[^/]*", "", target) or "/"
        if not target or words or share <= 0:
            raise DefinitionError(
                f"expected [METHOD] TARGET [WEIGHT], found {quoted(line.strip()[:80])}",
                path=str(path),
                line=number,
            )
        found.append((method, path_only, share, number))
    if not found:
        raise DefinitionError("holds no URL", path=str(path))
    return found
