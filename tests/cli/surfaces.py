"""The public surface as lists: commands with their options, exit codes, keys of JSON and files."""

from __future__ import annotations

import dataclasses
import os
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from tuner import errors
from tuner.cli.commands import cli
from tuner.cli.lint import EXIT_WRONG

LISTS = Path(__file__).parent / "surface"


def check(name: str, lines: Sequence[str]) -> None:
    """Compare lines with a committed list; ACCEPT_GOLDEN=1 writes it anew."""
    file = LISTS / f"{name}.txt"
    if os.environ.get("ACCEPT_GOLDEN"):
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    assert list(lines) == file.read_text(encoding="utf-8").splitlines(), (
        f"{file.name}: the public surface changed; see tests/cli/test_public_surface.py"
    )


def commands() -> list[str]:
    """Return every command, and below it its arguments and options."""
    return [line for path, command in _walk(cli, "tuner") for line in _described(path, command)]


def exit_codes() -> list[str]:
    """Return every code with which a command ends."""
    named = {code for name, code in vars(errors).items() if name.startswith("EXIT_")}
    return [str(code) for code in sorted(named | {EXIT_WRONG} | _codes(errors.TunerError))]


def record_keys(record: type) -> list[str]:
    """Return the keys of a record's JSON, which are the fields of its classes."""
    return sorted(set(_fields(record, "")))


def schema_keys(schema: Mapping[str, Any]) -> list[str]:
    """Return the keys that a JSON schema allows, as paths: ``hosts.each[].ratio``."""
    return sorted(set(_properties(schema, schema, "", ())))


def json_keys(value: object, by_name: frozenset[str] = frozenset()) -> list[str]:
    """Return the keys of a JSON document, as paths.

    Args:
        value: the document.
        by_name: paths of objects whose keys are names of things; they count as ``*``.
    """
    return sorted(set(_keys(value, "", by_name)))


def _walk(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in sorted(command.list_commands(context)):
            found = command.get_command(context, name)
            assert found is not None
            yield from _walk(found, f"{path} {name}")


def _described(path: str, command: click.Command) -> Iterator[str]:
    yield path
    yield from sorted(
        f"    {_parameter(parameter)}"
        for parameter in command.params
        if not getattr(parameter, "hidden", False)
    )


def _parameter(parameter: click.Parameter) -> str:
    words = [", ".join([*parameter.opts, *parameter.secondary_opts])]
    if isinstance(parameter, click.Argument):
        words = [f"{parameter.name} (argument)"]
    flag = isinstance(parameter, click.Option) and parameter.is_flag and not parameter.type.name
    if isinstance(parameter.type, click.Choice):
        words.append("|".join(map(str, parameter.type.choices)))
    elif not flag and getattr(parameter, "is_flag", False) is False:
        words.append(parameter.type.name.upper())
    words += ["several"] if parameter.multiple or parameter.nargs == -1 else []
    words += ["required"] if parameter.required else []
    if isinstance(parameter, click.Option) and parameter.envvar:
        words.append(f"${parameter.envvar}")
    return "  ".join(words)


def _codes(error: type[errors.TunerError]) -> set[int]:
    below = [_codes(kind) for kind in error.__subclasses__()]
    # The base is never raised itself.
    return set().union(*below) if error is errors.TunerError else {error.exit_code}.union(*below)


def _fields(kind: object, path: str) -> Iterator[str]:
    """Yield the paths below a type: through unions, sequences and mappings."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            below = f"{path}.{field.name}" if path else field.name
            yield below
            yield from _fields(hints[field.name], below)
    elif origin in {typing.Union, types.UnionType}:
        for choice in inner:
            yield from _fields(choice, path)
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield from _fields(inner[1], f"{path}.*")
    elif isinstance(origin, type) and inner:
        yield from _fields(inner[0], f"{path}[]")


def _properties(
    schema: Mapping[str, Any], whole: Mapping[str, Any], path: str, seen: tuple[str, ...]
) -> Iterator[str]:
    reference = schema.get("$ref")
    if reference is not None:
        if reference in seen:
            return
        found: Any = whole
        for word in reference.removeprefix("#/").split("/"):
            found = found[word]
        yield from _properties(found, whole, path, (*seen, reference))
    for name, below in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here
        yield from _properties(below, whole, here, seen)
    for name in ("additionalProperties", "items"):
        below = schema.get(name)
        if isinstance(below, Mapping):
            mark = "[]" if name == "items" else ".*" if path else "*"
            yield from _properties(below, whole, path + mark, seen)
    for name in ("anyOf", "oneOf", "allOf"):
        for choice in schema.get(name, ()):
            yield from _properties(choice, whole, path, seen)


def _keys(value: object, path: str, by_name: frozenset[str]) -> Iterator[str]:
    if isinstance(value, dict):
        for key, below in value.items():
            name = "*" if path in by_name else key
            here = f"{path}.{name}" if path else name
            yield here
            yield from _keys(below, here, by_name)
    elif isinstance(value, list):
        for below in value:
            yield from _keys(below, f"{path}[]", by_name)
