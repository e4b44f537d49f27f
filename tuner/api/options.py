"""Options of the functions that run studies: those of the commands, by their names in a study file.

Values are those of a study file, such as ``"10m"`` or ``600`` for ``time``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

TextsOption = str | Sequence[str]
NumberOption = str | int | float


class CompareOptions(TypedDict, total=False):
    """Options of ``tuner.compare``."""

    server: str
    server_binary: TextsOption
    objective: TextsOption
    slo: str
    constraint: TextsOption
    workload: str | Path
    space: str | Path
    layer: str | Path
    rate: NumberOption
    connections: int
    load: str
    stalls: str
    time: NumberOption
    seed: int
    config: str | Path
    server_name: str
    location: str
    root: str | Path
    prefix: TextsOption
    env_file: str | Path
    keep_upstreams: bool
    margin: NumberOption
    sequential: bool
    name: str
    storage: str
    inventory: str | Path
    generator_cpus: str
    server_cpus: str
    backend_cpus: str
    idle_cpus: str


class OptimizeOptions(CompareOptions, total=False):
    """Options of ``tuner.optimize``."""

    in_place: str
    baseline: TextsOption
    only: TextsOption
    allow: TextsOption
    force: TextsOption
    choose: str
    trials: int
    sampler: str
    finalists: int
    ablate: str
