"""The spaces that the search is tested on."""

from __future__ import annotations

from pathlib import Path

from tuner.space.space import Space, load_space


def bind(name_or_path: str) -> Space:
    """Return a space bound to a host with two cores for the server."""
    return load_space(
        name_or_path,
        server_cores=2,
        connections=32,
        memory_bytes=8 << 30,
        server_version=(1, 22, 1),
        modules=("http_ssl", "threads"),
    )


SMALL = bind(str(Path(__file__).parents[1] / "phases" / "space.yaml"))
BUILT_IN = (bind("nginx/static"), bind("nginx/proxy"))
