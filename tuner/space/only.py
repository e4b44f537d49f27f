"""A space in which only some parameters are searched."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tuner.errors import DefinitionError
from tuner.space.space import Space


def only(space: Space, names: Collection[str], allow: Collection[str] = ()) -> Space:
    """Return a space that searches some parameters, and those without which they have no effect.

    All others keep the baseline's values.

    Args:
        space: the space.
        names: the parameters; empty for all.
        allow: parameters with a trade-off that may be searched.

    Raises:
        DefinitionError: a name is unknown, has a trade-off that is not allowed, or has one value.
    """
    if not names:
        return space
    searched = {parameter.name for parameter in space.searched(allow)}
    for name in names:
        parameter = space.parameter(name)
        if name in searched:
            continue
        if parameter.searchable:
            reason = f"has a trade-off ({parameter.trades}); add --allow {name}"
        else:
            reason = f"has a single value here; searched: {', '.join(sorted(searched))}"
        raise DefinitionError(f"{name} {reason}", path="--only")
    kept = set(names)
    # A parameter comes after those that its conditions name.
    for parameter in reversed(space.parameters):
        if parameter.name in kept:
            groups = (parameter.when, *parameter.either)
            kept |= {condition.parameter for group in groups for condition in group}
    return replace(
        space,
        parameters=tuple(
            replace(parameter, role="fixed")
            if parameter.role == "search" and parameter.name not in kept
            else parameter
            for parameter in space.parameters
        ),
    )
