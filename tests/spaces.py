"""Spaces bound to a host that a test need not care about."""

from __future__ import annotations

from tuner.space import space
from tuner.space.space import Space


def load_space(
    name_or_path: str,
    *,
    server_cores: int = 1,
    connections: int = 32,
    memory_bytes: int = 8 << 30,
    server_version: tuple[int, ...] = (1, 22, 1),
    modules: tuple[str, ...] = (),
) -> Space:
    """Return what ``tuner.space.space.load_space`` does, with facts by default."""
    return space.load_space(
        name_or_path,
        server_cores=server_cores,
        connections=connections,
        memory_bytes=memory_bytes,
        server_version=server_version,
        modules=modules,
    )
