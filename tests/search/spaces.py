"""The spaces that the search is tested on."""

from __future__ import annotations

from pathlib import Path

from tests.spaces import load_space
from tuner.space.space import Space


def bind(name_or_path: str) -> Space:
    """Return a space bound to a host with two cores for the server."""
    return load_space(name_or_path, server_cores=2, modules=("http_ssl", "threads"))


SMALL = bind(str(Path(__file__).parents[1] / "phases" / "space.yaml"))
BUILT_IN = (bind("nginx/static"), bind("nginx/proxy"))
