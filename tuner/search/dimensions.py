"""A space's parameters as Optuna's dimensions, and back.

A parameter with special values (0, "off") becomes two dimensions: a choice of the special value
or the range, and, in the range only, the number. A parameter whose condition does not hold has
none. TPE with ``group=True`` models each set of dimensions that occur together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, cast

from tuner.configuration import Configuration, Value
from tuner.space import Parameter, Space

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import (
        BaseDistribution,
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    Domain = CategoricalDistribution | FloatDistribution | IntDistribution

_RANGE = "in range"
_KIND = " kind"
"""Suffix of the dimension that chooses between special values and the range."""

Dimensions = tuple[dict[str, Value], dict[str, "BaseDistribution"]]
"""Values by dimension, and the domain of each."""


def suggest(
    trial: optuna.Trial, space: Space, allow: Collection[str], base: Configuration
) -> Configuration:
    """Draw a value for every searched parameter that is active; the rest is as in ``base``."""
    return space.propose(space.searched(allow), base, lambda p: _suggest(trial, p))


def vary(
    trial: optuna.Trial,
    space: Space,
    allow: Collection[str],
    centre: Configuration,
    changes: Callable[[], bool],
) -> Configuration:
    """Draw a neighbour: ``changes`` says of each parameter whether it is drawn anew."""
    chosen: Mapping[str, Value] = centre.values

    def pick(parameter: Parameter) -> Value:
        if parameter.name in chosen and not changes():
            return chosen[parameter.name]
        return _suggest(trial, parameter)

    return space.propose(space.searched(allow), centre, pick)


def dimensions_of(space: Space, allow: Collection[str], configuration: Configuration) -> Dimensions:
    """The dimensions and values under which a sampler would have proposed a configuration."""
    values: dict[str, Value] = {}
    domains: dict[str, BaseDistribution] = {}
    chosen: Mapping[str, Value] = configuration.values
    for parameter in space.searched(allow):
        if parameter.name not in chosen:
            continue
        value = chosen[parameter.name]
        if parameter.special:
            domains[parameter.name + _KIND] = _categories((*parameter.special, _RANGE))
            values[parameter.name + _KIND] = value if value in parameter.special else _RANGE
            if value in parameter.special:
                continue
        domains[parameter.name] = _domain(parameter)
        values[parameter.name] = value
    return values, domains


def by_parameter(shares: Mapping[str, float]) -> dict[str, float]:
    """Figures by dimension, added up by the parameter that the dimensions belong to."""
    added: dict[str, float] = {}
    for dimension, share in shares.items():
        name = dimension.removesuffix(_KIND)
        added[name] = added.get(name, 0.0) + share
    return added


def _suggest(trial: optuna.Trial, parameter: Parameter) -> Value:
    import optuna

    if parameter.special:
        kinds = (*parameter.special, _RANGE)
        kind = trial.suggest_categorical(parameter.name + _KIND, kinds)
        if kind != _RANGE:
            return cast("Value", kind)
    domain = _domain(parameter)
    if isinstance(domain, optuna.distributions.CategoricalDistribution):
        return cast("Value", trial.suggest_categorical(parameter.name, domain.choices))
    if isinstance(domain, optuna.distributions.IntDistribution):
        return trial.suggest_int(
            parameter.name, domain.low, domain.high, log=domain.log, step=domain.step
        )
    return trial.suggest_float(parameter.name, domain.low, domain.high, log=domain.log)


def _domain(parameter: Parameter) -> Domain:
    import optuna

    if parameter.kind == "boolean":
        return _categories((False, True))
    if parameter.kind == "choice":
        return _categories(parameter.choices)
    if parameter.kind == "integer":
        step = 1 if parameter.log else int(parameter.step or 1)
        low, high = int(parameter.low), int(parameter.high)
        return optuna.distributions.IntDistribution(low, high, log=parameter.log, step=step)
    return optuna.distributions.FloatDistribution(parameter.low, parameter.high, log=parameter.log)


def _categories(choices: tuple[Value, ...]) -> CategoricalDistribution:
    import optuna

    return optuna.distributions.CategoricalDistribution(choices)
