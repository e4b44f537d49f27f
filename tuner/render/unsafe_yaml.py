"""Data as YAML that Ansible never evaluates as a template.

Ansible evaluates each string of a file of variables as a Jinja template, which may run any command
on the controller. The tag ``!unsafe`` prevents that for one string. All strings get it here, so no
heuristic decides what looks like a template. Only texts that YAML reads as another type (``yes``,
``1``) go without: with the tag Ansible would convert them, and none of them is a template.
https://docs.ansible.com/ansible/latest/playbook_guide/playbooks_advanced_syntax.html#unsafe-or-raw-strings
"""

from __future__ import annotations

from collections.abc import Mapping

import yaml

_WIDTH = 96
_TEXT = "tag:yaml.org,2002:str"


class Trusted(str):
    """A trusted text, which Ansible may evaluate as a template."""

    __slots__ = ()


def trusted(values: Mapping[str, object]) -> dict[str, object]:
    """Return trusted variables, which Ansible may evaluate."""
    return {name: Trusted(v) if isinstance(v, str) else v for name, v in values.items()}


class IndentedDumper(yaml.SafeDumper):
    """A dumper of plain data that indents lists."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - PyYAML's signature
        """See `yaml.Emitter`; lists are indented as yamllint asks."""
        super().increase_indent(flow, indentless=False)


class _Dumper(IndentedDumper):
    """A dumper that marks texts as data."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's signature
        """See `yaml.SafeDumper`; every value is written out."""
        return True


def _data(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    is_text = dumper.resolve(yaml.ScalarNode, value, (True, False)) == _TEXT  # type: ignore[no-untyped-call]
    return dumper.represent_scalar("!unsafe" if is_text else _TEXT, str(value))


def _trusted(dumper: yaml.SafeDumper, value: Trusted) -> yaml.Node:
    return dumper.represent_scalar(_TEXT, str(value))


def _mapping(dumper: yaml.SafeDumper, value: dict[object, object]) -> yaml.Node:
    """Represent a mapping with plain keys, which Ansible does not evaluate."""
    items = [(Trusted(key) if isinstance(key, str) else key, each) for key, each in value.items()]
    return dumper.represent_mapping("tag:yaml.org,2002:map", items)


_Dumper.add_representer(dict, _mapping)
_Dumper.add_representer(Trusted, _trusted)
_Dumper.add_representer(str, _data)
_Dumper.add_multi_representer(str, _data)


def unsafe_yaml(value: object) -> str:
    """Return a YAML document in which every string but a `Trusted` one is data.

    Args:
        value: plain data: dictionaries, lists, strings, numbers, booleans, None.

    Raises:
        yaml.representer.RepresenterError: the value has another type.
    """
    # ASCII, because PyYAML writes U+0085 unescaped and reads it as a space.
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=_WIDTH)
    return text
