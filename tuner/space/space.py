"""A space: the parameters of one kind of server, with conditions between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from tuner.errors import DefinitionError, quoted
from tuner.paths import data_dir
from tuner.reading.located import Node, did_you_mean, read_yaml
from tuner.reading.printable import comment_line
from tuner.reading.shipped import shipped_file
from tuner.space.configuration import Configuration, Value
from tuner.space.configuration_keys import BASELINE, CONFIGURATION
from tuner.space.facts import SpaceFacts
from tuner.space.file import Order, bind
from tuner.space.never import text_refusal
from tuner.space.parameter import BASELINES, OWN, Condition, Parameter, notation

__all__ = [
    "BASELINES",
    "Condition",
    "Order",
    "Parameter",
    "Space",
    "SpaceFacts",
    "bind_space",
    "configuration_yaml",
    "load_space",
    "spaces",
]


@dataclass(frozen=True, slots=True)
class Space:
    """Parameters bound to the facts of one host, one server and one workload."""

    name: str
    """``nginx/static``."""
    server: str
    template: str
    summary: str
    parameters: tuple[Parameter, ...]
    """In the order of the file; conditions refer to earlier ones only."""
    orders: tuple[Order, ...]
    left_out: tuple[tuple[str, str], ...]
    """Parameters that this server or host cannot have, with the reason."""
    facts: SpaceFacts
    path: Path
    """The space's file."""
    unused: tuple[tuple[str, str], ...] = ()
    """Parameters that this workload makes pointless, with the reason."""
    templates: tuple[str, ...] = ()
    """Further template files in the same folder, for includes."""
    forced: tuple[tuple[str, str], ...] = ()
    """Parameters that ``--force`` enabled, with the reason why they are never searched
    otherwise."""

    def parameter(self, name: str) -> Parameter:
        """Return a parameter by name.

        Raises:
            DefinitionError: it does not exist here; the message has the reason or a similar name.
        """
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        raise DefinitionError(self._unknown(name))

    def searched(self, allow: Collection[str] = ()) -> tuple[Parameter, ...]:
        """Return the searched parameters: neutral ones, and allowed trade-offs.

        Args:
            allow: parameters with a trade-off. Those that belong to one are allowed with it.

        Raises:
            DefinitionError: a name is unknown, or has no trade-off.
        """
        trades = [parameter.name for parameter in self.parameters if parameter.trades]
        for name in allow:
            if name not in trades:
                raise DefinitionError(self._not_a_trade(name, trades), path="--allow")
        return tuple(
            parameter
            for parameter in self.parameters
            if parameter.searchable
            and (parameter.neutral or parameter.name in allow or parameter.belongs_to in allow)
        )

    def is_active(self, parameter: Parameter, values: Mapping[str, Value]) -> bool:
        """Return whether a parameter has an effect, given the values of earlier ones.

        An earlier parameter that is inactive itself must not be in ``values``.
        """
        return parameter.is_active(values)

    def baseline(self, name: str) -> Configuration:
        """Return the configuration ``stock``, ``distro`` or ``hand``, with the floors applied.

        A space bound to the user's configuration also has ``own``.
        """
        known = [each for each in (*BASELINES, OWN) if each in self.parameters[0].defaults]
        if name not in known:
            raise DefinitionError(f"unknown baseline {quoted(name)}; allowed: {', '.join(known)}")
        return self.complete(self._defaults(name), Configuration.of(self.name, {}))

    def inactive(self, configuration: Configuration) -> dict[str, Value]:
        """Return the values that inactive parameters take when they become active.

        ``complete`` and ``exchange`` give these values to a parameter without one.
        """
        active = configuration.values
        return {p.name: self._unset(p) for p in self.parameters if p.name not in active}

    def complete(self, values: Mapping[str, Value], base: Configuration) -> Configuration:
        """Return a complete configuration from some values; take the rest from ``base``.

        Numbers are rounded to their parameter's grid, inactive parameters have no value, and
        floors hold. A parameter that is active here but not in ``base`` takes its compiled-in
        value, or that of the user's configuration, as in the server.

        Raises:
            DefinitionError: a parameter is unknown, a value has the wrong type or is out of range,
                or a relation between parameters does not hold.
        """
        self._check_space(base.space)
        for name in (*values, *base.values):
            self.parameter(name)
        rest = base.values
        proposed = {
            name: value
            if _same_as_base(value, rest.get(name))
            else self.parameter(name).snap(self._checked(name, value))
            for name, value in values.items()
        }
        return self._finish({**rest, **proposed})

    def carry_over(self, found: Configuration) -> tuple[Configuration, tuple[str, ...]]:
        """Return a configuration that was found for another workload, and the settings it lost.

        Settings without a parameter here are lost, such as those of another protocol.

        Raises:
            DefinitionError: as for ``complete``.
        """
        self._check_space(found.space)
        missing = {name: self.missing(name) for name in found.values}
        lost = tuple(
            f"{name} {notation(value)}: {missing[name]}"
            for name, value in found.values.items()
            if missing[name]
        )
        kept = {name: value for name, value in found.values.items() if not missing[name]}
        return self._finish(kept), lost

    @property
    def gone(self) -> dict[str, str]:
        """Parameters that this server, host or workload cannot have, with the reason."""
        return dict((*self.left_out, *self.unused))

    def missing(self, name: str) -> str:
        """Return why a setting has no parameter here; empty if it has one."""
        if any(parameter.name == name for parameter in self.parameters):
            return ""
        reasons = self.gone
        return f"it {reasons[name]}" if name in reasons else "no such parameter"

    def propose(
        self,
        searched: Iterable[Parameter],
        base: Configuration,
        suggest: Callable[[Parameter], Value],
    ) -> Configuration:
        """Return a configuration from ``suggest`` for each active searched parameter, in order.

        Raises:
            DefinitionError: as for ``complete``.
        """
        names = {parameter.name for parameter in searched}
        rest = base.values
        chosen: dict[str, Value] = {}
        known: dict[str, Value] = {}
        for parameter in self.parameters:
            name = parameter.name
            if not self.is_active(parameter, known):
                continue
            if name in names:
                chosen[name] = known[name] = suggest(parameter)
            else:
                known[name] = rest[name] if name in rest else self._unset(parameter)
        return self.complete(chosen, base)

    def adopt(
        self, source: Configuration, base: Configuration, allow: Collection[str] = ()
    ) -> Configuration:
        """Return ``base`` with the searched values of ``source``.

        So the hand tuning can join a search without settings that are not allowed or that the
        baseline keeps fixed.

        Raises:
            DefinitionError: as for ``searched`` and ``complete``.
        """
        names = {parameter.name for parameter in self.searched(allow)}
        return self.complete({n: v for n, v in source.items if n in names}, base)

    def exchange(
        self, base: Configuration, source: Configuration, names: Collection[str]
    ) -> Configuration:
        """Return ``base`` with the values of ``source`` for some parameters.

        A parameter that becomes active without a value in either takes that of ``inactive``.

        Raises:
            DefinitionError: a relation between parameters does not hold then.
        """
        kept = {name: value for name, value in base.items if name not in names}
        taken = {name: value for name, value in source.items if name in names}
        return self._finish({**kept, **taken})

    def needs(self, parameter: Parameter) -> str:
        """Return the conditions for a parameter's effect, in words; empty without any."""
        every = [self._describe(condition) for condition in parameter.when]
        groups = [" and ".join(map(self._describe, group)) for group in parameter.either]
        return " and ".join([*every, *([f"either {', or '.join(groups)}"] if groups else [])])

    def read_configuration(self, path: str | Path) -> Configuration:
        """Read a configuration's YAML file in the format of ``configuration_yaml``.

        Other values come from its ``baseline`` (default: ``stock``).

        Raises:
            DefinitionError: the file is wrong, with its line. A value for a parameter without
                effect is an error here, because its author expected an effect.
        """
        root = read_yaml(Path(path))
        keys = CONFIGURATION.read(root)
        if "server" in keys:
            keys["server"].one_of((self.server,))
        if keys["space"].text() != self.name:
            raise keys["space"].error(
                f"{quoted(keys['space'].text())} is not {self.name}, the study's"
            )
        base = BASELINE.read(keys["baseline"]) if "baseline" in keys else "stock"
        nodes = keys["values"].entries() if "values" in keys else {}
        given = {name: self._read(name, node) for name, node in nodes.items()}
        try:
            configuration = self._finish({**self._defaults(base), **given})
        except DefinitionError as error:
            raise keys.get("values", root).error(str(error)) from None
        for name in given.keys() - configuration.values.keys():
            needs = self.needs(self.parameter(name))
            raise nodes[name].error(f"has no effect unless {needs}; leave it out")
        return configuration

    def _finish(self, values: Mapping[str, Value]) -> Configuration:
        final: dict[str, Value] = {}
        for parameter in self.parameters:
            if not self.is_active(parameter, final):
                continue
            name = parameter.name
            value = values[name] if name in values else self._unset(parameter)
            final[name] = _raised(parameter, self._checked(name, value))
        for order in self.orders:
            if not order.holds(final):
                here = ", ".join(
                    f"{name} is {self.parameter(name).format(final[name])}"
                    for name in sorted(order.names)
                )
                raise DefinitionError(f"{order.text} does not hold: {here}")
        return Configuration.of(self.name, final)

    def _defaults(self, baseline: str) -> dict[str, Value]:
        """Return every parameter's value in a baseline, or its compiled-in value."""
        return {p.name: p.defaults.get(baseline, p.defaults["stock"]) for p in self.parameters}

    def _unset(self, parameter: Parameter) -> Value:
        """Return a parameter's value where no configuration has one."""
        value = parameter.defaults.get(OWN, parameter.defaults["stock"])
        return _raised(parameter, value)

    def _checked(self, name: str, value: Value) -> Value:
        parameter = self.parameter(name)
        # A floor above the range's end is allowed.
        if parameter.floor is not None and value == parameter.floor:
            return parameter.floor
        try:
            return parameter.check(value)
        except ValueError as error:
            raise DefinitionError(f"{name}: {error}") from None

    def _read(self, name: str, node: Node) -> Value:
        parameter = next((p for p in self.parameters if p.name == name), None)
        if parameter is None:
            raise DefinitionError(self._unknown(name), path=node.path, line=node.line)
        try:
            value = parameter.read(node.text())
            return value if value == parameter.floor else parameter.check(value)
        except ValueError as error:
            raise node.error(str(error)) from None

    def _check_space(self, name: str) -> None:
        if name != self.name:
            raise DefinitionError(f"a configuration of {quoted(name)} is not one of {self.name!r}")

    def _describe(self, condition: Condition) -> str:
        other = self.parameter(condition.parameter)
        words = " or ".join(map(other.format, condition.values))
        relation = {"in": "", "not in": "not ", "above": "above "}[condition.relation]
        return f"{condition.parameter} is {relation}{words}"

    def _unknown(self, name: str) -> str:
        reasons = self.gone
        if name in reasons:
            return f"parameter {quoted(name)} is not available here: it {reasons[name]}"
        known = [parameter.name for parameter in self.parameters]
        hint = did_you_mean(name, known) or f"; known in {self.name}: {', '.join(known)}"
        return f"unknown parameter {quoted(name)}{hint}"

    def _not_a_trade(self, name: str, trades: Collection[str]) -> str:
        known = ", ".join(trades) or "nothing in this space"
        if any(parameter.name == name for parameter in self.parameters):
            return f"{quoted(name)} has no trade-off; --allow accepts: {known}"
        return f"{self._unknown(name)}; --allow accepts: {known}"


def _raised(parameter: Parameter, value: Value) -> Value:
    """Return the value, or the parameter's floor if that is higher."""
    if parameter.floor is not None and isinstance(value, int):
        return max(value, parameter.floor)
    return value


def _same_as_base(value: Value, base: Value | None) -> bool:
    """Return whether a proposal equals the base, on the grid or not."""
    return type(value) is type(base) and value == base


def load_space(
    name_or_path: str,
    *,
    server_cores: int,
    connections: int,
    memory_bytes: int,
    server_version: tuple[int, ...],
    modules: tuple[str, ...],
) -> Space:
    """Bind a space to a workload of small answers over cleartext HTTP/1.1.

    Args:
        name_or_path: as for ``bind_space``.
        server_cores: CPUs that the server may use.
        connections: connections that the workload keeps open.
        memory_bytes: the target's memory.
        server_version: ``(1, 22, 1)``.
        modules: compiled-in modules, without ``--with-`` and ``_module``.

    Raises:
        DefinitionError: as for ``bind_space``.
    """
    facts = SpaceFacts(server_cores, connections, memory_bytes, server_version, modules)
    return bind_space(name_or_path, facts)


def bind_space(name_or_path: str, facts: SpaceFacts, force: Collection[str] = ()) -> Space:
    """Read a built-in space by name (``nginx/static``), or a YAML file by its path.

    Args:
        name_or_path: name, or a path that ends with ``.yaml``.
        facts: of host, server and workload.
        force: parameters to search although they are on the never-list (``tuner.space.never``).

    Raises:
        DefinitionError: the space does not exist, its file is wrong, or it searches a parameter
            of the never-list.
    """
    path = _find(name_or_path)
    bound = bind(read_yaml(path), facts, force)
    forced = dict(bound.forced)
    if bound.template.endswith(".j2"):
        # A user's own template is checked when it is rendered (tuner.render.reach).
        named = {name: text_refusal(bound.server, name) for name in force}
        forced |= {name: reason for name, reason in named.items() if reason}
    for name in force:
        if name not in forced:
            known = [parameter.name for parameter in bound.parameters]
            unknown = "" if name in known else f" of {bound.name}{did_you_mean(name, known)}"
            raise DefinitionError(
                f"{quoted(name)} is not a parameter{unknown} that needs --force", path="--force"
            )
    return Space(
        name=bound.name,
        server=bound.server,
        template=bound.template,
        templates=bound.templates,
        summary=bound.summary,
        parameters=bound.parameters,
        orders=bound.orders,
        left_out=bound.left_out,
        facts=facts,
        path=path,
        unused=bound.unused,
        forced=tuple(forced.items()),
    )


def spaces() -> tuple[str, ...]:
    """Return names of the built-in spaces of servers, without ``kernel/net``.

    Files with a leading ``_`` are parts of others.
    """
    folder = data_dir("spaces")
    files = folder.glob("*/[!_]*.yaml")
    found = sorted(str(file.relative_to(folder).with_suffix("")) for file in files)
    return tuple(name for name in found if name not in _KERNELS)


_KERNELS = ("kernel/net",)


def _find(name_or_path: str) -> Path:
    if name_or_path.endswith((".yaml", ".yml")):
        return Path(name_or_path)
    folder = data_dir("spaces")
    if name_or_path in _KERNELS:
        return folder / f"{name_or_path}.yaml"
    return shipped_file(name_or_path, "space", spaces(), folder, "--space")


def configuration_yaml(configuration: Configuration, comment_lines: Iterable[str] = ()) -> str:
    """Format a configuration as YAML for ``Space.read_configuration``.

    Args:
        configuration: configuration of any space.
        comment_lines: lines of the comment above it.
    """
    comment = "".join(f"{comment_line(line)}\n" for line in comment_lines)
    data = {
        "server": configuration.space.partition("/")[0],
        "space": configuration.space,
        "values": configuration.values,
    }
    return comment + yaml.safe_dump(data, sort_keys=False)
