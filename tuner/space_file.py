"""Reads a space's file and binds it to the facts: every bound becomes a number.

docs/spaces.md describes the format.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from tuner.configuration import Value
from tuner.expression import ExpressionError, evaluate, names_in
from tuner.facts import SERVER_NAMES
from tuner.located import Node, parse_duration_s, parse_size
from tuner.parameter import BASELINES, Condition, Kind, Parameter

KINDS: tuple[Kind, ...] = ("boolean", "integer", "real", "choice")

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_UNIT = re.compile(r"[A-Za-z][A-Za-z /]{0,31}")
_SPACE_NAME = re.compile(r"[a-z]+/[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VERSION = re.compile(r"(<=?|>=?)\s*([0-9]+(?:\.[0-9]+)*)")
_ORDER = re.compile(r"([^<>=]+)(<=?)([^<>=]+)")
_COMPARE: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class SpaceFacts:
    """What bounds and requirements may depend on."""

    server_cores: int
    """CPUs that the server may use."""
    connections: int
    """Connections that the workload keeps open."""
    memory_bytes: int
    """The target's memory."""
    server_version: tuple[int, ...]
    modules: tuple[str, ...]
    """Names of compiled-in modules, without ``--with-`` and ``_module``."""

    @property
    def names(self) -> dict[str, int | float]:
        """What an expression may refer to."""
        return {
            "server_cores": self.server_cores,
            "connections": self.connections,
            "memory_bytes": self.memory_bytes,
        }

    @property
    def version(self) -> str:
        """``1.22.1``."""
        return ".".join(map(str, self.server_version))


@dataclass(frozen=True, slots=True)
class Order:
    """A relation between numbers of several parameters, such as ``a <= (n - 1) * b``."""

    text: str
    left: str
    right: str
    strict: bool
    facts: tuple[tuple[str, int | float], ...]
    """What else it may refer to, by name; a parameter of the same name goes before it."""
    names: frozenset[str]
    """Parameters that it is about."""

    def holds(self, values: Mapping[str, Value]) -> bool:
        """Whether it holds; it does where a parameter of it is inactive, or is a word."""
        here = {name: values.get(name) for name in self.names}
        numbers = dict(self.facts)
        for name, value in here.items():
            if value is None or isinstance(value, str | bool):
                return True
            numbers[name] = value
        left, right = evaluate(self.left, numbers), evaluate(self.right, numbers)
        return left < right if self.strict else left <= right


@dataclass(frozen=True, slots=True)
class BoundFile:
    """What a space's file says on these facts."""

    name: str
    server: str
    template: str
    summary: str
    parameters: tuple[Parameter, ...]
    orders: tuple[Order, ...]
    left_out: tuple[tuple[str, str], ...]


class _Unavailable(Exception):  # noqa: N818 - no error: the parameter is left out, and why
    """The parameter cannot exist on this server."""


def bind(root: Node, facts: SpaceFacts) -> BoundFile:
    """Read a space's file.

    Raises:
        DefinitionError: the file is wrong, at its line.
    """
    keys = root.mapping(required=("space", "server", "parameters"), optional=_OPTIONAL)
    server = keys["server"].one_of(SERVER_NAMES)
    name = keys["space"].text()
    if not _SPACE_NAME.fullmatch(name) or not name.startswith(f"{server}/"):
        raise keys["space"].error(f"{name!r} is no name of a space; write {server}/NAME")
    bound: dict[str, Parameter] = {}
    left_out: dict[str, str] = {}
    for key, node in keys["parameters"].entries().items():
        if not _NAME.fullmatch(key):
            raise node.error(f"{key!r} is no name; allowed: a-z, 0-9 and _")
        try:
            bound[key] = _parameter(node, key, facts, bound, left_out)
        except _Unavailable as reason:
            left_out[key] = str(reason)
    written = keys["order"].sequence() if "order" in keys else ()
    orders = [_order(node, facts, bound, left_out) for node in written]
    return BoundFile(
        name=name,
        server=server,
        template=keys["template"].text() if "template" in keys else name,
        summary=keys["summary"].text() if "summary" in keys else "",
        parameters=tuple(bound.values()),
        orders=tuple(order for order in orders if order.names <= bound.keys()),
        left_out=tuple(left_out.items()),
    )


_OPTIONAL = ("template", "summary", "order")
_PARAMETER_KEYS = (
    *("range", "scale", "step", "unit", "choices", "special", "when", "requires"),
    *("trades", "belongs_to", "floor", "fixed", "about", "link"),
)


def _parameter(
    node: Node,
    name: str,
    facts: SpaceFacts,
    earlier: Mapping[str, Parameter],
    left_out: Mapping[str, str],
) -> Parameter:
    keys = node.mapping(required=("type", "default"), optional=_PARAMETER_KEYS)
    kind = keys["type"].one_of(KINDS)
    _check_keys_fit(node, keys, kind)
    if "requires" in keys:
        _require(keys["requires"], facts)
    when = _conditions(keys["when"], earlier, left_out) if "when" in keys else ()
    unit = keys["unit"].text() if "unit" in keys else ""
    if unit and not _UNIT.fullmatch(unit):
        raise keys["unit"].error(f"{unit!r} is no unit such as bytes, seconds or requests")
    low, high = _range(keys["range"], facts, kind, unit) if "range" in keys else (0, 0)
    floor = None
    if "floor" in keys:
        floor = int(_number(keys["floor"], facts, "integer", unit))
    step = _number(keys["step"], facts, kind, unit) if "step" in keys else None
    if step is not None and step <= 0:
        raise keys["step"].error("a step is above 0")
    log = "scale" in keys and keys["scale"].one_of(("linear", "log")) == "log"
    if log and low <= 0:
        raise keys["scale"].error(f"a log scale starts above 0; the range starts at {low}")
    draft = Parameter(
        name=name,
        kind=kind,
        low=low,
        high=high,
        log=log,
        step=step,
        unit=unit,
        choices=_choices(keys["choices"]) if "choices" in keys else (),
        special=(),
        defaults={},
        when=when,
        trades=keys["trades"].text() if "trades" in keys else "",
        belongs_to=_leader(keys["belongs_to"], earlier) if "belongs_to" in keys else "",
        role="floor" if floor is not None else "fixed" if _is_fixed(keys) else "search",
        floor=floor,
        about=" ".join(keys["about"].text().split()) if "about" in keys else "",
        link=keys["link"].text() if "link" in keys else "",
    )
    if "special" in keys:
        draft = replace(draft, special=_special(keys["special"], draft))
    return replace(draft, defaults=_defaults(keys["default"], draft, facts))


def _check_keys_fit(node: Node, keys: Mapping[str, Node], kind: Kind) -> None:
    numeric = kind in ("integer", "real")
    for key in ("range", "scale", "step", "unit", "special", "floor"):
        if key in keys and not numeric:
            raise keys[key].error(f"only numbers have a {key}; this is a {kind}")
    if ("choices" in keys) != (kind == "choice"):
        raise node.error("a choice, and nothing else, has 'choices'")
    if numeric and "range" not in keys:
        raise node.error("'range' is missing")
    if "floor" in keys and kind != "integer":
        raise keys["floor"].error("a floor is for integers")
    if "belongs_to" in keys and "trades" not in keys:
        raise keys["belongs_to"].error("only what trades something needs to be allowed")


def _is_fixed(keys: Mapping[str, Node]) -> bool:
    return "fixed" in keys and keys["fixed"].boolean()


def _leader(node: Node, earlier: Mapping[str, Parameter]) -> str:
    name = node.text()
    if name not in earlier or earlier[name].neutral:
        raise node.error(f"{name!r} is no earlier parameter that trades something")
    return name


def _number(node: Node, facts: SpaceFacts, kind: Kind, unit: str) -> int | float:
    """A number with its unit (``64k``), or an expression over the facts."""
    text = node.text()
    try:
        if unit == "bytes":
            return parse_size(text)
        if unit == "seconds":
            return _integral(parse_duration_s(text), kind)
    except ValueError:
        pass  # no plain quantity: perhaps an expression
    try:
        return _integral(evaluate(text, facts.names), kind)
    except (ExpressionError, ValueError) as error:
        raise node.error(str(error)) from None


def _integral(value: float, kind: Kind) -> int | float:
    if kind == "real":
        return float(value)
    if value != int(value):
        raise ValueError(f"{value:g} is no integer; // rounds down")
    return int(value)


def _range(node: Node, facts: SpaceFacts, kind: Kind, unit: str) -> tuple[int | float, int | float]:
    ends = node.sequence()
    if len(ends) != 2:
        raise node.error("write [lowest, highest]")
    low, high = (_number(end, facts, kind, unit) for end in ends)
    if low > high:
        raise node.error(f"the range is empty here: {low} to {high}")
    return low, high


def _choices(node: Node) -> tuple[str, ...]:
    choices = tuple(_word(item) for item in node.sequence())
    if len(choices) < 2 or len(set(choices)) != len(choices):
        raise node.error("write two or more different words")
    return choices


def _word(node: Node) -> str:
    word = node.text()
    if not _WORD.fullmatch(word):
        raise node.error(f"{word!r} is no plain word")
    return word


def _special(node: Node, draft: Parameter) -> tuple[Value, ...]:
    values: list[Value] = []
    for item in node.sequence():
        try:
            values.append(draft.read(item.text()))
        except ValueError:
            values.append(_word(item))
    return tuple(values)


def _defaults(node: Node, draft: Parameter, facts: SpaceFacts) -> dict[str, Value]:
    if isinstance(node.content, str):
        return dict.fromkeys(BASELINES, _default(node, draft, facts))
    keys = node.mapping(required=("stock",), optional=("distro", "hand"))
    return {
        baseline: _default(keys.get(baseline, keys["stock"]), draft, facts)
        for baseline in BASELINES
    }


def _default(node: Node, draft: Parameter, facts: SpaceFacts) -> Value:
    """One value, or one for each range of the server's versions."""
    if not isinstance(node.content, str):
        for condition, entry in node.entries().items():
            if _version_holds(entry, condition, facts):
                return _default(entry, draft, facts)
        raise node.error(f"no condition holds for version {facts.version}")
    text = node.text()
    try:
        value = draft.read(text)
    except ValueError as error:
        if draft.kind not in ("integer", "real"):
            raise node.error(str(error)) from None
        return _number(node, facts, draft.kind, draft.unit)
    if draft.kind == "choice" and value not in draft.choices:
        raise node.error(f"{text!r} is not allowed; allowed: {draft.allowed}")
    return value


def _version_holds(node: Node, condition: str, facts: SpaceFacts) -> bool:
    match = _VERSION.fullmatch(condition.strip())
    if match is None:
        raise node.error(f"{condition!r} is no condition on the version such as >= 1.9.10")
    wanted = tuple(int(part) for part in match[2].split("."))
    # 1.22 and 1.22.0 are the same version.
    length = max(len(wanted), len(facts.server_version))
    here = facts.server_version + (0,) * (length - len(facts.server_version))
    return _COMPARE[match[1]](here, wanted + (0,) * (length - len(wanted)))


def _require(node: Node, facts: SpaceFacts) -> None:
    keys = node.mapping(optional=("version", "module"))
    if "version" in keys:
        condition = keys["version"].text()
        if not _version_holds(keys["version"], condition, facts):
            raise _Unavailable(f"needs version {condition}; this is {facts.version}")
    if "module" in keys and keys["module"].text() not in facts.modules:
        raise _Unavailable(f"needs the module {keys['module'].text()}, which is not built in")


def _conditions(
    node: Node, earlier: Mapping[str, Parameter], left_out: Mapping[str, str]
) -> tuple[Condition, ...]:
    conditions = []
    for name, wanted in node.entries().items():
        if name in left_out:
            raise _Unavailable(f"applies only with {name}, which is left out: {left_out[name]}")
        if name not in earlier:
            raise wanted.error(
                f"{name!r} is no earlier parameter; earlier: {', '.join(earlier) or 'none'}"
            )
        conditions.append(_condition(wanted, earlier[name]))
    return tuple(conditions)


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
        raise _Unavailable(f"applies only with {other.name} above {limit[0]}, which cannot be here")
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


def _order(
    node: Node, facts: SpaceFacts, bound: Mapping[str, Parameter], left_out: Mapping[str, str]
) -> Order:
    text = node.text()
    match = _ORDER.fullmatch(text)
    if match is None:
        raise node.error(f"{text!r} is no relation such as 'a < b' or 'a <= 2 * b'")
    left, right = match[1].strip(), match[3].strip()
    try:
        names = names_in(left) | names_in(right)
    except ExpressionError as error:
        raise node.error(str(error)) from None
    about = frozenset(name for name in names if name in bound or name not in facts.names)
    for name in sorted(about - left_out.keys()):
        if name not in bound or bound[name].kind not in ("integer", "real"):
            raise node.error(f"{name!r} is no parameter with a number")
    return Order(text, left, right, match[2] == "<", tuple(facts.names.items()), about)
