"""Alignment of different defaults of servers before a comparison.

If one server compresses answers or writes a log line per request and another does not, the faster
one is the one that does less. ``spaces/alike.yaml`` lists such differences, and each server's
``_alike.yaml`` sets the parameters that align them. An experiment may override them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tuner.errors import DefinitionError
from tuner.paths import data_dir
from tuner.reading.located import Node, did_you_mean, read_yaml
from tuner.reading.shape import AnyText, Either, Entries, Keys
from tuner.record.contenders import AlignedDefault
from tuner.space.configuration import Configuration, Value
from tuner.space.space import Space

RULE = Keys(
    {
        "what": AnyText("Name of the difference, such as compression."),
        "why": AnyText("Reason for the alignment."),
        "servers": Entries(
            Either((Entries(AnyText()), AnyText())),
            "Values by parameter, or the reason why none is needed, by server.",
            at_least=1,
        ),
    },
    about="A difference of defaults that is aligned.",
)
_THINGS = "alike.yaml"
_SERVERS = "*/_alike.yaml"


@dataclass(frozen=True, slots=True)
class AlignmentRule:
    """A difference of defaults, with the aligning settings of each server."""

    what: str
    why: str
    values: Mapping[str, Mapping[str, Node]]
    """Texts of values by parameter, by server."""
    words: Mapping[str, str]
    """Reasons why a server needs no setting, by server."""


def shipped_rules() -> tuple[AlignmentRule, ...]:
    """Return the rules of every comparison of servers.

    Raises:
        DefinitionError: a file is wrong, at its line.
    """
    folder = data_dir("spaces")
    things = read_yaml(folder / _THINGS).sequence()
    servers = {file.parent.name: read_yaml(file).entries() for file in folder.glob(_SERVERS)}
    rules = tuple(_thing(node, servers) for node in things)
    known = [rule.what for rule in rules]
    for entries in servers.values():
        for what, node in entries.items():
            if what not in known:
                message = f"{what!r} is not in {_THINGS}{did_you_mean(what, known)}"
                raise DefinitionError(message, path=node.path, line=node.line)
    return rules


def read_rules(root: Node) -> tuple[AlignmentRule, ...]:
    """Read a list of rules.

    Raises:
        DefinitionError: at the file's line.
    """
    return tuple(_rule(node) for node in root.sequence())


def merged(
    rules: Iterable[AlignmentRule], special: Iterable[AlignmentRule]
) -> tuple[AlignmentRule, ...]:
    """Return the rules, with those of the same name replaced by the special ones."""
    found = {rule.what: rule for rule in rules}
    found |= {rule.what: rule for rule in special}
    return tuple(found.values())


def equalise(
    configuration: Configuration, space: Space, rules: Iterable[AlignmentRule]
) -> Configuration:
    """Return the configuration with the settings of the rules, if they have an effect.

    Raises:
        DefinitionError: a rule's value is not allowed.
    """
    known = {parameter.name for parameter in space.parameters}
    values: dict[str, Value] = {}
    for rule in rules:
        for name, node in rule.values.get(space.server, {}).items():
            if name not in known:
                continue
            try:
                values[name] = space.parameter(name).parse(node.text())
            except ValueError as error:
                raise node.error(str(error)) from None
    return space.complete(values, configuration)


def alignments(
    rules: Iterable[AlignmentRule], spaces: Mapping[str, Space]
) -> tuple[AlignedDefault, ...]:
    """Return the aligned settings for the servers of these spaces, by the names given."""
    return tuple(
        AlignedDefault(
            rule.what, rule.why, {name: _words(rule, space) for name, space in spaces.items()}
        )
        for rule in rules
    )


def _words(rule: AlignmentRule, space: Space) -> str:
    known = {parameter.name for parameter in space.parameters}
    left_out = dict(space.left_out)
    parts = []
    for name, node in rule.values.get(space.server, {}).items():
        if name in known:
            parts.append(f"{name} {node.text()}")
        elif name in left_out:
            parts.append(f"{name} cannot be set here: it {left_out[name]}")
        else:
            parts.append(f"{name} is not a parameter of {space.name}")
    if space.server in rule.words:
        parts.append(rule.words[space.server])
    return ", ".join(parts) or "nothing to set"


def _thing(node: Node, servers: Mapping[str, Mapping[str, Node]]) -> AlignmentRule:
    keys = node.mapping(required=("what", "why"))
    what = keys["what"].text()
    here = {name: entries[what] for name, entries in servers.items() if what in entries}
    return _settled(what, keys["why"], here)


def _rule(node: Node) -> AlignmentRule:
    keys = RULE.read(node)
    rule = _settled(keys["what"].text(), keys["why"], keys["servers"].entries())
    if not rule.values and not rule.words:
        raise DefinitionError(
            "no server has a value; name at least one server's parameters",
            path=node.path,
            line=node.line,
        )
    return rule


def _settled(what: str, why: Node, servers: Mapping[str, Node]) -> AlignmentRule:
    words = {name: node.text() for name, node in servers.items() if isinstance(node.content, str)}
    values = {name: node.entries() for name, node in servers.items() if name not in words}
    return AlignmentRule(what, why.text(), values, words)
