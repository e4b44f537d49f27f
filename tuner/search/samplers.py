"""Samplers of Optuna that make a search's proposals in place of tuner's own search."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.definition.sampler_names import AUTO, is_code
from tuner.errors import DefinitionError, summary
from tuner.search.propose import tpe_sampler

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

_OPTION = "--sampler"
_NEEDS = {"gp": ("torch", "gp"), "cmaes": ("cmaes", "cmaes")}
"""Library and extra of the samplers that need one."""


@dataclass(frozen=True, slots=True)
class SamplerChoice:
    """A sampler that makes the proposals of a search."""

    name: str
    make: Callable[[int], BaseSampler]
    """Function from a seed to the sampler."""
    replays: bool = False
    """True if the sampler keeps its state in attributes of the trials that it proposed; it then
    sees them one after another, each with its first figure."""


def choose_sampler(sampler: str) -> SamplerChoice | None:
    """Return the sampler of a study; None for tuner's own search.

    A class (``MODULE:CLASS``) is imported, so the caller has to know that the user named it.

    Raises:
        DefinitionError: a library is missing, or the class cannot be imported.
    """
    if sampler == AUTO:
        return None
    if is_code(sampler):
        return _imported(sampler)
    _check_installed(sampler)
    makers: dict[str, SamplerChoice] = {
        "tpe": SamplerChoice("tpe", tpe_sampler),
        "gp": SamplerChoice("gp", _gp),
        "cmaes": SamplerChoice("cmaes", _cmaes, replays=True),
        "nsgaii": SamplerChoice("nsgaii", _nsgaii, replays=True),
        "qmc": SamplerChoice("qmc", _qmc, replays=True),
        "random": SamplerChoice("random", _random),
    }
    return makers[sampler]


def _check_installed(sampler: str) -> None:
    if sampler not in _NEEDS:
        return
    library, extra = _NEEDS[sampler]
    if importlib.util.find_spec(library) is None:
        raise DefinitionError(
            f"{sampler} needs {library}, which is not installed; run:"
            f" pip install 'servertune[{extra}]'",
            path=_OPTION,
        )


def _gp(seed: int) -> BaseSampler:
    from optuna.samplers import GPSampler

    return GPSampler(seed=seed, warn_independent_sampling=False)


def _cmaes(seed: int) -> BaseSampler:
    from optuna.samplers import CmaEsSampler

    return CmaEsSampler(seed=seed, warn_independent_sampling=False)


_POPULATION = 16
"""Trials of a generation: two blocks. Optuna's 50 are more than most searches try."""


def _nsgaii(seed: int) -> BaseSampler:
    from optuna.samplers import NSGAIISampler

    return NSGAIISampler(seed=seed, population_size=_POPULATION)


def _qmc(seed: int) -> BaseSampler:
    from optuna.exceptions import ExperimentalWarning
    from optuna.samplers import QMCSampler

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        return QMCSampler(seed=seed, scramble=True, warn_independent_sampling=False)


def _random(seed: int) -> BaseSampler:
    from optuna.samplers import RandomSampler

    return RandomSampler(seed=seed)


def _imported(text: str) -> SamplerChoice:
    """Return a class of the user's own, from an installed module or a file of this folder."""
    from optuna.samplers import BaseSampler

    module_name, _, class_name = text.partition(":")
    here = str(Path.cwd())
    # At the end, so that no file of the folder takes the place of an installed module.
    sys.path.append(here)
    try:
        found: object = importlib.import_module(module_name)
        for part in class_name.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise DefinitionError(
            f"{text} cannot be imported: {summary(error)}", path=_OPTION
        ) from error
    finally:
        sys.path.remove(here)
    if not (isinstance(found, type) and issubclass(found, BaseSampler)):
        raise DefinitionError(
            f"{text} is not a class derived from optuna.samplers.BaseSampler", path=_OPTION
        )
    seeded = "seed" in inspect.signature(found).parameters
    make = found

    def made(seed: int) -> BaseSampler:
        return make(seed=seed) if seeded else make()  # type: ignore[call-arg]

    try:
        made(0)
    except Exception as error:
        raise DefinitionError(
            f"{text} cannot be created without arguments other than seed: {summary(error)}",
            path=_OPTION,
        ) from error
    return SamplerChoice(text, made)
