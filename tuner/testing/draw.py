"""Random configurations of a space, without a search."""

from __future__ import annotations

import random
from collections.abc import Collection

from tuner.space.configuration import Configuration, Value
from tuner.space.parameter import Parameter
from tuner.space.space import Space


def draw_configuration(
    rng: random.Random, space: Space, base: Configuration, allow: Collection[str] = ()
) -> Configuration:
    """Return a configuration with random values for searched parameters; the rest is from ``base``.

    Args:
        rng: generator; the same state gives the same configuration.
        space: space bound to the facts.
        base: baseline as for ``Space.complete``.
        allow: allowed parameters with a trade-off.
    """
    return space.propose(space.searched(allow), base, lambda parameter: draw_value(rng, parameter))


def draw_value(rng: random.Random, parameter: Parameter) -> Value:
    """Draw an allowed value; special ones with a probability of 30 %, because they are rare."""
    if parameter.kind == "boolean":
        return rng.random() < 0.5
    if parameter.kind == "choice":
        return rng.choice(parameter.choices)
    if parameter.special and rng.random() < 0.3:
        return rng.choice(parameter.special)
    low, high = float(parameter.low), float(parameter.high)
    value = low * (high / low) ** rng.random() if parameter.log else rng.uniform(low, high)
    value = min(max(value, low), high)
    return round(value) if parameter.kind == "integer" else value
