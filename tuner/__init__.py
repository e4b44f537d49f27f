"""Finds the best configuration of a web server for a workload, and proves that it is better."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.search.sampler import TunerSampler

__version__ = "0.1.0"
__all__ = ["TunerSampler"]

_HOMES = {"TunerSampler": "tuner.search.sampler"}
"""Modules of the public names, loaded at the first use: ``import tuner`` stays fast."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
