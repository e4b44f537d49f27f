"""A space bound to the user's own configuration, for any server.

Each server has groups of parameters, which locate them in its configuration. Values, omitted
parameters with their reasons, and changes are the same for all servers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol, TypeVar

from tuner.errors import DefinitionError
from tuner.reading.located import SIZE, parse_size
from tuner.record.changes import changes_between
from tuner.space.configuration import Configuration, Value
from tuner.space.parameter import OWN, Parameter
from tuner.space.space import Space

_Scope_contra = TypeVar("_Scope_contra", contravariant=True)
_Edit_co = TypeVar("_Edit_co", covariant=True)
_S = TypeVar("_S")
_E = TypeVar("_E")


class UnplaceableError(Exception):
    """A parameter that cannot be found or changed safely; the message is the reason."""


def agreed(values: Iterable[tuple[str, str | None]]) -> str | None:
    """Return the one value of several places, which are given in words; None without a place.

    Raises:
        UnplaceableError: they differ.
    """
    found = list(values)
    if len({value for _, value in found}) > 1:
        words = ", ".join(f"{place} has {value or 'none'}" for place, value in found)
        raise UnplaceableError(f"the workload's requests have different values: {words}")
    return found[0][1] if found else None


def in_bytes(text: str) -> str:
    """Return a size of a space (``64k``) as a number of bytes; any other value stays as it is."""
    return str(parse_size(text)) if SIZE.fullmatch(text) else text


class FixedValue(str):
    """A value that other settings of the user need; it is never changed."""

    __slots__ = ()


class BoundGroup(Protocol[_Scope_contra, _Edit_co]):
    """Parameters with one place, or that belong together."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        ...

    def read(self, scope: _Scope_contra) -> Mapping[str, str | None]:
        """Return the configured values by parameter; None for unset ones.

        Raises:
            UnplaceableError: no rule can change the configured value.
        """
        ...

    def edits(self, scope: _Scope_contra, wanted: Mapping[str, str]) -> Iterator[_Edit_co]:
        """Yield the changes that set the wanted values.

        Args:
            scope: the part of the configuration with the parameters.
            wanted: values in the user's notation, without parameters that have no effect.
        """
        ...


@dataclass(frozen=True, slots=True)
class OneParameter:
    """A group of one parameter."""

    name: str

    @property
    def names(self) -> tuple[str, ...]:
        """Implement ``BoundGroup``."""
        return (self.name,)


@dataclass(frozen=True, slots=True)
class BoundSpace:
    """A space with the user's configuration as one of its baselines."""

    space: Space
    """The space without parameters that cannot be changed in this configuration."""
    baseline: Configuration
    configured: Mapping[str, Value]
    """Configured or compiled-in value of each parameter."""

    @property
    def raised(self) -> Mapping[str, tuple[str, str]]:
        """Settings of the baseline that the load needs to raise: configured and needed value."""
        return {
            name: (parameter.format(self.configured[name]), parameter.format(value))
            for name, value in self.baseline.items
            for parameter in (self.space.parameter(name),)
            if value != self.configured[name]
        }


def bind(
    space: Space,
    groups: Sequence[BoundGroup[_S, _E]],
    scope: _S,
    *,
    unplaced: Mapping[str, str],
    path: str,
) -> BoundSpace:
    """Read every parameter's value from a configuration.

    A parameter that cannot be read or changed is left out of the space with the reason, and so are
    those that depend on it: both arms of every comparison keep the user's setting.

    Args:
        space: the parameters.
        groups: groups of the server.
        scope: the configuration.
        unplaced: parameters that cannot be in a configuration, with the reason.
        path: path of the configuration, for messages.

    Raises:
        DefinitionError: no parameter of the space is left.
    """
    configured: dict[str, Value] = {}
    lost: dict[str, str] = {}
    needed: set[str] = set()
    for group in groups_of(space, groups):
        try:
            texts = group.read(scope)
            configured.update(_values(space, group, texts))
            needed.update(name for name, text in texts.items() if isinstance(text, FixedValue))
        except UnplaceableError as error:
            lost.update(dict.fromkeys(names_of(space, group), f"stays as you have it: {error}"))
    for parameter in space.parameters:
        if parameter.name not in configured and parameter.name not in lost:
            lost[parameter.name] = unplaced.get(parameter.name, "cannot be located in your files")
        for name in _needed(parameter):
            if name in lost and parameter.name not in lost:
                lost[parameter.name] = f"depends on {name}, which is left out"
    kept = tuple(
        _own(found, configured[found.name], stays=found.name in needed)
        for found in space.parameters
        if found.name not in lost
    )
    if not kept:
        raise DefinitionError(
            f"no parameter of {space.name} can be changed here: "
            + "; ".join(f"{name} {reason}" for name, reason in lost.items()),
            path=path,
        )
    bound = replace(
        space,
        parameters=kept,
        orders=tuple(order for order in space.orders if not order.names & lost.keys()),
        left_out=(*space.left_out, *lost.items()),
    )
    values = {found.name: configured[found.name] for found in kept}
    baseline = bound.complete(values, Configuration.of(space.name, {}))
    return BoundSpace(bound, baseline, MappingProxyType(values))


def changed(
    bound: BoundSpace,
    groups: Sequence[BoundGroup[_S, _E]],
    configuration: Configuration,
    *,
    reference: Configuration | None = None,
    apart: Callable[[BoundGroup[_S, _E]], bool] = lambda _: False,
) -> Iterator[tuple[BoundGroup[_S, _E], Mapping[str, str]]]:
    """Yield the groups that a configuration changes, with their wanted values.

    Args:
        bound: the space with the user's values.
        groups: groups of the server.
        configuration: the wanted configuration.
        reference: the user's own configuration; by default the values of the files. The baseline
            differs from them where a floor of the lab raised a value.
        apart: groups of independent parameters, of which only the changed ones are wanted.
    """
    values = configuration.values
    before = (
        (reference.values, bound.space.inactive(reference)) if reference else (bound.configured, {})
    )
    changes = {change.name for change in changes_between(before[0], values, before[1])}
    for group in groups_of(bound.space, groups):
        names = [name for name in names_of(bound.space, group) if name in values]
        other = [name for name in names if name in changes]
        if other:
            named = other if apart(group) else names
            yield (
                group,
                {name: bound.space.parameter(name).format(values[name]) for name in named},
            )


def groups_of(space: Space, groups: Sequence[BoundGroup[_S, _E]]) -> Iterator[BoundGroup[_S, _E]]:
    """Yield the groups with parameters of a space."""
    return (group for group in groups if names_of(space, group))


def names_of(space: Space, group: BoundGroup[_S, _E]) -> list[str]:
    """Return the parameters of a group that a space has."""
    known = {parameter.name for parameter in space.parameters}
    return [name for name in group.names if name in known]


def _values(
    space: Space, group: BoundGroup[_S, _E], texts: Mapping[str, str | None]
) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name in names_of(space, group):
        parameter, text = space.parameter(name), texts[name]
        if text is None:
            found[name] = parameter.defaults["stock"]
            continue
        try:
            # The record encodes plain values, and a ``FixedValue`` is a ``str`` of its own type.
            found[name] = parameter.read(str(text))
        except ValueError:
            raise UnplaceableError(f"{name} is {text}, which the space cannot express") from None
        if parameter.kind == "choice" and text not in (*parameter.choices, *parameter.special):
            raise UnplaceableError(f"{name} is {text}; allowed: {parameter.allowed}")
    return found


def _needed(parameter: Parameter) -> list[str]:
    """Return the parameters that its conditions refer to."""
    either = (condition for group in parameter.either for condition in group)
    return [condition.parameter for condition in (*parameter.when, *either)]


def _own(parameter: Parameter, value: Value, *, stays: bool) -> Parameter:
    """Return the parameter with the user's value as a default, even outside the range."""
    # A fixed parameter has the user's value in every baseline.
    if stays or parameter.role == "fixed":
        every = dict.fromkeys((*parameter.defaults, OWN), value)
        return replace(parameter, role="fixed", defaults=every)
    return replace(parameter, defaults={**parameter.defaults, OWN: value})
