"""Finds the best configuration of a web server for a workload, and proves that it is better."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

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


def _found(name: str) -> Any:
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _found(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(types.ModuleType):
    """The package, in which ``load`` is a function although a subpackage has that name too.

    Python sets a loaded subpackage as an attribute of its parent. Imports of ``tuner.load.native``
    and the like do not need that attribute.
    """

    @property
    def load(self) -> Any:
        """The function ``load``."""
        return _found("load")

    @load.setter
    def load(self, module: object) -> None:
        """Leave the function in its place."""


sys.modules[__name__].__class__ = _Package
