"""Finds the best configuration of a web server for a workload, and proves that it is better."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.api.frame import Frame
    from tuner.api.options import CompareOptions, OptimizeOptions
    from tuner.api.running import compare, optimize
    from tuner.api.study_view import Study, StudyConfiguration, StudyVerdict, load
    from tuner.errors import TunerError
    from tuner.search.sampler import TunerSampler

__version__ = "0.1.0"
__all__ = [
    "CompareOptions",
    "Frame",
    "OptimizeOptions",
    "Study",
    "StudyConfiguration",
    "StudyVerdict",
    "TunerError",
    "TunerSampler",
    "compare",
    "load",
    "optimize",
]

_HOMES = {
    "CompareOptions": "tuner.api.options",
    "Frame": "tuner.api.frame",
    "OptimizeOptions": "tuner.api.options",
    "Study": "tuner.api.study_view",
    "StudyConfiguration": "tuner.api.study_view",
    "StudyVerdict": "tuner.api.study_view",
    "TunerError": "tuner.errors",
    "TunerSampler": "tuner.search.sampler",
    "compare": "tuner.api.running",
    "load": "tuner.api.study_view",
    "optimize": "tuner.api.running",
}
"""Modules of the public names, loaded at the first use: ``import tuner`` stays fast."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
