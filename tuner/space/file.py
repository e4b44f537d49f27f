"""Reader of a space's file, which binds it to the facts: every bound becomes a number.

docs/spaces.md describes the format.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.errors import DefinitionError, quoted
from tuner.machine.facts import SERVER_NAMES
from tuner.reading.expression import ExpressionError, evaluate, names_in
from tuner.reading.located import Node, parse_duration_s, parse_size, read_yaml
from tuner.space.conditions import RESERVED, conditions
from tuner.space.configuration import Value
from tuner.space.facts import SpaceFacts
from tuner.space.never import refusal
from tuner.space.parameter import BASELINES, Apply, Parameter, ParameterKind
from tuner.space.requires import Unavailable, require, version_holds

KINDS: tuple[ParameterKind, ...] = ("boolean", "integer", "real", "choice")
APPLIES: tuple[Apply, ...] = ("reload", "restart")

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_KERNEL_NAME = re.compile(r"[a-z][a-z0-9_.]{0,63}")
"""The kernel's own names have dots: net.core.somaxconn."""
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_UNIT = re.compile(r"[A-Za-z][A-Za-z /]{0,31}")
_SPACE_NAME = re.compile(r"[a-z]+/[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.ya?ml")
_TEMPLATE_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.j2")
_ORDER = re.compile(r"([^<>=]+)(<=?)([^<>=]+)")


@dataclass(frozen=True, slots=True)
class Order:
    """A relation between numbers of several parameters, such as ``a <= (n - 1) * b``."""

    text: str
    left: str
    right: str
    strict: bool
    facts: tuple[tuple[str, int | float], ...]
    """Further names in the relation; parameters of the same name take precedence."""
    names: frozenset[str]
    """Parameters in the relation."""

    def holds(self, values: Mapping[str, Value]) -> bool:
        """Return whether the relation holds; it does if one value is inactive or not a number."""
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
    """A space's file, bound to facts."""

    name: str
    server: str
    template: str
    templates: tuple[str, ...]
    """Further template files in the same folder, for includes."""
    summary: str
    parameters: tuple[Parameter, ...]
    orders: tuple[Order, ...]
    left_out: tuple[tuple[str, str], ...]
    """Parameters that this server or host cannot have, with the reason."""
    unused: tuple[tuple[str, str], ...]
    """Parameters that this workload makes pointless, with the reason."""
    forced: tuple[tuple[str, str], ...]
    """Parameters that ``--force`` enabled, with the reason why they are never searched
    otherwise."""


def bind(root: Node, facts: SpaceFacts, force: Collection[str] = ()) -> BoundFile:
    """Read a space's file.

    Args:
        root: the file.
        facts: facts for its bounds and requirements.
        force: parameters to search although they are on the never-list.

    Raises:
        DefinitionError: the file is wrong, with its line.
    """
    keys = root.mapping(required=("space", "server", "parameters"), optional=_OPTIONAL)
    server = keys["server"].one_of((*SERVER_NAMES, "kernel"))
    name = keys["space"].text()
    if not _SPACE_NAME.fullmatch(name) or not name.startswith(f"{server}/"):
        raise keys["space"].error(f"{quoted(name)} is not a name for a space; write {server}/NAME")
    bound: dict[str, Parameter] = {}
    left_out: dict[str, Unavailable] = {}
    forced: dict[str, str] = {}
    names = _KERNEL_NAME if server == "kernel" else _NAME
    for key, node in parameter_nodes(root):
        if not names.fullmatch(key) or key in RESERVED:
            raise node.error(f"{quoted(key)} is not a name; allowed: a-z, 0-9 and _")
        try:
            parameter = _parameter(node, key, facts, bound, left_out)
        except Unavailable as missing:
            left_out[key] = missing
            continue
        if reason := _never(parameter, server, node, force):
            forced[key] = reason
        bound[key] = parameter
    written = keys["order"].sequence() if "order" in keys else ()
    orders = [_order(node, facts, bound, left_out) for node in written]
    return BoundFile(
        name=name,
        server=server,
        template=keys["template"].text() if "template" in keys else name,
        templates=_templates(keys["templates"]) if "templates" in keys else (),
        summary=keys["summary"].text() if "summary" in keys else "",
        parameters=tuple(bound.values()),
        orders=tuple(order for order in orders if order.names <= bound.keys()),
        left_out=tuple((n, str(r)) for n, r in left_out.items() if not r.workload),
        unused=tuple((n, str(r)) for n, r in left_out.items() if r.workload),
        forced=tuple(forced.items()),
    )


def _templates(node: Node) -> tuple[str, ...]:
    for item in node.sequence():
        if not _TEMPLATE_FILE.fullmatch(item.text()):
            raise item.error(f"{item.text()!r} is not a .j2 file in the same folder")
    return tuple(item.text() for item in node.sequence())


def parameter_nodes(root: Node) -> Iterator[tuple[str, Node]]:
    """Return the YAML node of each parameter.

    Parameters of included files come first, because the file's own may depend on them.

    Raises:
        DefinitionError: an included file is wrong or missing, or a parameter is given twice.
    """
    keys = root.entries()
    seen: dict[str, Node] = {}
    for item in _included(keys["include"]) if "include" in keys else ():
        yield from _fresh(item.mapping(required=("parameters",))["parameters"], seen)
    yield from _fresh(keys["parameters"], seen)


def _included(node: Node) -> Iterator[Node]:
    for item in node.sequence() if isinstance(node.content, tuple) else (node,):
        if not _FILE_NAME.fullmatch(item.text()):
            raise item.error(f"{quoted(item.text())} is not a .yaml file in the same folder")
        path = Path(item.path).parent / item.text()
        if not path.is_file():
            raise item.error(f"there is no file {path}")
        yield read_yaml(path)


def _fresh(parameters: Node, seen: dict[str, Node]) -> Iterator[tuple[str, Node]]:
    for key, node in parameters.entries().items():
        if key in seen:
            first = seen[key]
            raise node.error(f"{quoted(key)} is given twice; first in {first.path}:{first.line}")
        seen[key] = node
        yield key, node


def _never(parameter: Parameter, server: str, node: Node, force: Collection[str]) -> str:
    """Return why a parameter is forced; empty if it needs no force, like a fixed one."""
    if parameter.role == "fixed":
        return ""
    for name in filter(None, (parameter.name, parameter.directive)):
        reason = refusal(server, name)
        if reason and parameter.name in force:
            return reason
        if reason:
            remedy = (
                "take it out"
                if server == "kernel"
                else "write its value into the template, or force it by name:"
                f" --force {parameter.name}"
            )
            raise DefinitionError(
                f"{name} is never searched: {reason}; {remedy}",
                path=node.path,
                line=node.line,
            )
    return ""


_OPTIONAL = ("template", "templates", "summary", "order", "include")
_PARAMETER_KEYS = (
    *("range", "scale", "step", "unit", "choices", "special", "when", "requires"),
    *("trades", "unseen", "belongs_to", "floor", "fixed", "apply", "directive", "about", "link"),
)


def _parameter(
    node: Node,
    name: str,
    facts: SpaceFacts,
    earlier: Mapping[str, Parameter],
    left_out: Mapping[str, Unavailable],
) -> Parameter:
    keys = node.mapping(required=("type", "default"), optional=_PARAMETER_KEYS)
    kind = keys["type"].one_of(KINDS)
    _check_keys_fit(node, keys, kind)
    if "requires" in keys:
        require(keys["requires"], facts)
    when, either = (
        conditions(keys["when"], earlier, left_out, facts) if "when" in keys else ((), ())
    )
    unit = keys["unit"].text() if "unit" in keys else ""
    if unit and not _UNIT.fullmatch(unit):
        raise keys["unit"].error(f"{quoted(unit)} is not a unit such as bytes, seconds or requests")
    low, high = _range(keys["range"], facts, kind, unit) if "range" in keys else (0, 0)
    floor = None
    if "floor" in keys:
        floor = int(_number(keys["floor"], facts, "integer", unit))
    step = _number(keys["step"], facts, kind, unit) if "step" in keys else None
    if step is not None and step <= 0:
        raise keys["step"].error("a step must be above 0")
    log = "scale" in keys and keys["scale"].one_of(("linear", "log")) == "log"
    if log and low <= 0:
        raise keys["scale"].error(f"a log scale must start above 0; the range starts at {low}")
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
        unseen=keys["unseen"].text() if "unseen" in keys else "",
        belongs_to=_leader(keys["belongs_to"], earlier) if "belongs_to" in keys else "",
        role="floor" if floor is not None else "fixed" if _is_fixed(keys) else "search",
        floor=floor,
        about=" ".join(keys["about"].text().split()) if "about" in keys else "",
        link=keys["link"].text() if "link" in keys else "",
        either=either,
        apply=keys["apply"].one_of(APPLIES) if "apply" in keys else "reload",
        directive=keys["directive"].text() if "directive" in keys else "",
    )
    if "special" in keys:
        draft = replace(draft, special=_special(keys["special"], draft))
    return replace(draft, defaults=_defaults(keys["default"], draft, facts))


def _check_keys_fit(node: Node, keys: Mapping[str, Node], kind: ParameterKind) -> None:
    numeric = kind in ("integer", "real")
    for key in ("range", "scale", "step", "unit", "special", "floor"):
        if key in keys and not numeric:
            raise keys[key].error(f"only numbers have a {key}; this is a {kind}")
    if ("choices" in keys) != (kind == "choice"):
        raise node.error("'choices' belongs to a choice, and a choice needs it")
    if numeric and "range" not in keys:
        raise node.error("'range' is missing")
    if "floor" in keys and kind != "integer":
        raise keys["floor"].error("a floor is for integers")
    if "belongs_to" in keys and "trades" not in keys:
        raise keys["belongs_to"].error("belongs_to is only for a parameter with a trade-off")


def _is_fixed(keys: Mapping[str, Node]) -> bool:
    return "fixed" in keys and keys["fixed"].boolean()


def _leader(node: Node, earlier: Mapping[str, Parameter]) -> str:
    name = node.text()
    if name not in earlier or earlier[name].neutral:
        raise node.error(f"{quoted(name)} is not an earlier parameter with a trade-off")
    return name


def _number(node: Node, facts: SpaceFacts, kind: ParameterKind, unit: str) -> int | float:
    """Return a number with its unit (``64k``), or an expression over the facts."""
    text = node.text()
    try:
        if unit == "bytes":
            return parse_size(text)
        if unit == "seconds":
            return _integral(parse_duration_s(text), kind)
    except ValueError:
        pass  # not a plain quantity: perhaps an expression
    try:
        return _integral(evaluate(text, facts.names), kind)
    except (ExpressionError, ValueError) as error:
        raise node.error(str(error)) from None


def _integral(value: float, kind: ParameterKind) -> int | float:
    if kind == "real":
        return float(value)
    if value != int(value):
        raise ValueError(f"{value:g} is not an integer; // rounds down")
    return int(value)


def _range(
    node: Node, facts: SpaceFacts, kind: ParameterKind, unit: str
) -> tuple[int | float, int | float]:
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
        raise node.error(f"{quoted(word)} is not a plain word")
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
    """Return the default, chosen by the server's version if there are several."""
    if not isinstance(node.content, str):
        for condition, entry in node.entries().items():
            if version_holds(entry, condition, facts.server_version):
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
        raise node.error(f"{quoted(text)} is not allowed; allowed: {draft.allowed}")
    return value


def _order(
    node: Node,
    facts: SpaceFacts,
    bound: Mapping[str, Parameter],
    left_out: Mapping[str, Unavailable],
) -> Order:
    text = node.text()
    match = _ORDER.fullmatch(text)
    if match is None:
        raise node.error(f"{quoted(text)} is not a relation such as 'a < b' or 'a <= 2 * b'")
    left, right = match[1].strip(), match[3].strip()
    try:
        names = names_in(left) | names_in(right)
    except ExpressionError as error:
        raise node.error(str(error)) from None
    about = frozenset(name for name in names if name in bound or name not in facts.names)
    for name in sorted(about - left_out.keys()):
        if name not in bound or bound[name].kind not in ("integer", "real"):
            raise node.error(f"{quoted(name)} is not a parameter with a number")
    return Order(text, left, right, match[2] == "<", tuple(facts.names.items()), about)
