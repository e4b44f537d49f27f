"""Conversion between a space's parameters and Optuna's dimensions.

A parameter with special values (0, "off") becomes two dimensions: a choice of the special value
or the range, and, in the range only, the number. A parameter with an unmet condition has none. TPE
with ``group=True`` models each set of dimensions that occur together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from tuner.space.configuration import Configuration, Value
from tuner.space.space import Parameter, Space

if TYPE_CHECKING:
    import optuna
    from numpy.typing import NDArray
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
    """Draw a value for every active searched parameter; take the rest from ``base``."""
    return space.propose(space.searched(allow), base, lambda p: _suggest(trial, p))


def vary(
    trial: optuna.Trial,
    space: Space,
    allow: Collection[str],
    centre: Configuration,
    changes: Callable[[], bool],
) -> Configuration:
    """Draw a neighbour; ``changes`` returns whether to draw the next parameter anew."""
    chosen: Mapping[str, Value] = centre.values

    def pick(parameter: Parameter) -> Value:
        if parameter.name in chosen and not changes():
            return chosen[parameter.name]
        return _suggest(trial, parameter)

    return space.propose(space.searched(allow), centre, pick)


def dimensions_of(space: Space, allow: Collection[str], configuration: Configuration) -> Dimensions:
    """Return the dimensions and values with which a sampler would propose a configuration."""
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


def distances(
    space: Space,
    allow: Collection[str],
    some: Sequence[Configuration],
    others: Sequence[Configuration],
) -> NDArray[np.float64]:
    """Return the distances between configurations in each searched parameter, 0 to 1.

    Within a range, the distance is a share of the range, on its search scale. Two different
    choices, a special value and a number, or a value and no value are 1 apart.

    Returns:
        Shape (some, others, parameters).
    """
    kinds: dict[Value | None, int] = {}
    sides = []
    for configurations in (some, others):
        numbers = np.zeros((len(configurations), len(space.searched(allow))))
        codes = np.zeros(numbers.shape, dtype=np.int64)
        for row, configuration in enumerate(configurations):
            for column, parameter in enumerate(space.searched(allow)):
                value = configuration.values.get(parameter.name)
                share = _share_of_range(parameter, value)
                if share is None:
                    codes[row, column] = kinds.setdefault(value, len(kinds) + 1)
                else:
                    numbers[row, column] = share
        sides.append((numbers, codes))
    (first, kind), (second, other_kind) = sides
    return apart(first, kind, second, other_kind)


def apart(
    some: NDArray[np.float64],
    kinds: NDArray[np.int64],
    others: NDArray[np.float64],
    other_kinds: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the distances between points in each column; points of different kinds are 1 apart.

    Args:
        some: positions of points, shape (some, columns).
        kinds: their kinds, of the same shape; 0 for a number in its range.
        others: positions of other points, shape (others, columns).
        other_kinds: their kinds.

    Returns:
        Shape (some, others, columns).
    """
    between = np.abs(some[:, None] - others[None, :])
    return np.where(kinds[:, None] == other_kinds[None, :], between, 1.0)


def _share_of_range(parameter: Parameter, value: Value | None) -> float | None:
    """Return the position of a number in its parameter's range; None if it lies outside."""
    if not isinstance(value, int | float) or parameter.kind not in {"integer", "real"}:
        return None
    if value in parameter.special:
        return None
    if parameter.high <= parameter.low:
        return 0.0
    here = min(max(float(value), parameter.low), parameter.high)
    ends = (parameter.low, parameter.high, here)
    low, high, at = map(math.log, ends) if parameter.log else ends
    return (at - low) / (high - low)


def by_parameter(shares: Mapping[str, float]) -> dict[str, float]:
    """Return the sums of figures by dimension over the dimensions of each parameter."""
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
