"""The spaces that the search is tested on."""

from __future__ import annotations

import math
from pathlib import Path

from tests.spaces import load_space
from tuner.space.configuration import Configuration
from tuner.space.space import Space


def bind(name_or_path: str) -> Space:
    """Return a space bound to a host with two cores for the server."""
    return load_space(name_or_path, server_cores=2, modules=("http_ssl", "threads"))


SMALL = bind(str(Path(__file__).parents[1] / "phases" / "space.yaml"))
BUILT_IN = (bind("nginx/static"), bind("nginx/proxy"))


def loss_of(configuration: Configuration) -> float:
    """Return a truth of ``SMALL`` with one optimum: fast on and a large size."""
    values = configuration.values
    return -0.3 * bool(values["fast"]) - 0.1 * math.log(float(values["size"]) / 512)


def tiny_space(folder: Path) -> Space:
    """Return a space of four configurations; its file is written into a folder."""
    path = folder / "tiny.yaml"
    path.write_text(
        "space: nginx/tiny\nserver: nginx\nparameters:\n"
        "  a: {type: boolean, default: off}\n  b: {type: boolean, default: off}\n"
    )
    return bind(str(path))
