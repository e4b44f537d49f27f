"""The conditions under which a parameter of a space has an effect.

Conditions on the workload are the same for the whole study, so binding the space settles them. The
others are on the values of earlier parameters. docs/spaces.md describes the format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tuner.errors import quoted
from tuner.reading.located import SWITCH, Node
from tuner.space.configuration import Value
from tuner.space.facts import SpaceFacts
from tuner.space.parameter import Condition, Parameter
from tuner.space.requires import Unavailable, require_workload

RESERVED = ("workload", "any")
"""Keys under ``when`` that are not names of parameters."""

ConditionGroup = tuple[Condition, ...]


def conditions(
    node: Node,
    earlier: Mapping[str, Parameter],
    left_out: Mapping[str, Unavailable],
    facts: SpaceFacts,
) -> tuple[ConditionGroup, tuple[ConditionGroup, ...]]:
    """Read a parameter's ``when``.

    Returns:
        Conditions that must all hold, and alternative groups, one of which must hold if there
        are any.

    Raises:
        Unavailable: the conditions cannot hold here.
        DefinitionError: the file is wrong, with its line.
    """
    entries = node.entries()
    any_of = entries.pop("any", None)
    every = _group(entries, earlier, left_out, facts)
    if any_of is None:
        return every, ()
    return every, _either(any_of, earlier, left_out, facts)


def _either(
    node: Node,
    earlier: Mapping[str, Parameter],
    left_out: Mapping[str, Unavailable],
    facts: SpaceFacts,
) -> tuple[ConditionGroup, ...]:
    groups: list[ConditionGroup] = []
    impossible: list[Unavailable] = []
    for item in node.sequence():
        try:
            groups.append(_group(item.entries(), earlier, left_out, facts))
        except Unavailable as reason:
            impossible.append(reason)
    if not groups and not impossible:
        raise node.error("write a list of conditions, one of which must hold")
    if not groups:
        raise Unavailable(
            ", and ".join(map(str, impossible)),
            workload=all(reason.workload for reason in impossible),
            itself=False,
        )
    # The workload has settled all conditions of an empty group: it holds.
    return () if any(not group for group in groups) else tuple(groups)


def _group(
    entries: Mapping[str, Node],
    earlier: Mapping[str, Parameter],
    left_out: Mapping[str, Unavailable],
    facts: SpaceFacts,
) -> ConditionGroup:
    found: list[Condition] = []
    for name, wanted in entries.items():
        if name == "workload":
            require_workload(wanted, facts)
        elif name in left_out:
            # A parameter that does not exist here is off.
            if isinstance(wanted.content, str) and SWITCH.get(wanted.content.lower()) is False:
                continue
            gone = left_out[name]
            because = f": {gone}" if gone.itself else ""
            raise Unavailable(
                f"applies only with {name}, which is left out{because}",
                workload=gone.workload,
                itself=False,
            )
        elif name not in earlier:
            raise wanted.error(
                f"{quoted(name)} is not an earlier parameter; earlier:"
                f" {', '.join(earlier) or 'none'}"
            )
        else:
            found.append(_condition(wanted, earlier[name]))
    return tuple(found)


def _condition(node: Node, other: Parameter) -> Condition:
    if isinstance(node.content, str | tuple):
        return Condition(other.name, "in", _wanted(node, other))
    keys = node.mapping(optional=("not", "above"))
    if len(keys) != 1:
        raise node.error("write a value, a list of values, {not: …} or {above: …}")
    if "not" in keys:
        return Condition(other.name, "not in", _wanted(keys["not"], other))
    if other.kind not in ("integer", "real"):
        raise keys["above"].error(f"{other.name} is a {other.kind}, not a number")
    limit = _read_all(keys["above"], other.read, [keys["above"]])
    numbers = [value for value in (other.high, *other.special) if not isinstance(value, str)]
    if isinstance(limit[0], str) or max(numbers) <= limit[0]:
        raise Unavailable(
            f"applies only with {other.name} above {limit[0]}, which is impossible here"
        )
    return Condition(other.name, "above", limit)


def _wanted(node: Node, other: Parameter) -> tuple[Value, ...]:
    items = node.sequence() if isinstance(node.content, tuple) else (node,)
    if not items:
        raise node.error("a condition without a value can never hold")
    return _read_all(node, other.parse, items)


def _read_all(node: Node, read: Callable[[str], Value], items: Iterable[Node]) -> tuple[Value, ...]:
    try:
        return tuple(read(item.text()) for item in items)
    except ValueError as error:
        raise node.error(f"impossible condition: {error}") from None
