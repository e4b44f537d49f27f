"""Checks of the readers of foreign texts, each a function of any bytes; a failed check raises.

``make fuzz-python`` calls them with inputs that Atheris chooses by coverage; the tests call them
with changed seeds, and with every input that once failed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from tuner.errors import DefinitionError, StoreError
from tuner.hosts.reason import reason
from tuner.reading import apache_text, caddyfile_text, envoy_text, haproxy_text, nginx_text
from tuner.reading.access_log import LogReader
from tuner.reading.located import Node, parse_yaml
from tuner.reading.log_notation import given_format
from tuner.reading.statement import Statement, options
from tuner.record.file import record_of
from tuner.record.small import small
from tuner.testing.sample_record import sample_record

Check = Callable[[bytes], None]

_FOLDER = Path(__file__).parent

_PARSERS: tuple[Callable[[str], Iterable[Statement]], ...] = (
    nginx_text.statements,
    caddyfile_text.statements,
    haproxy_text.statements,
    envoy_text.statements,
    apache_text.statements,
    options,
)


def record(data: bytes) -> None:
    """A record is read, or refused by one printable line."""
    try:
        record_of(data, "fuzz")
    except StoreError as error:
        _one_line(str(error))


def configuration(data: bytes) -> None:
    """A server's configuration has statements, or is refused with its line; the first byte chooses.

    Words of a statement are texts, and a block is within its own.
    """
    if not data:
        return
    text = data[1:].decode("utf-8", "replace")
    try:
        for found in _PARSERS[data[0] % len(_PARSERS)](text):
            assert all(isinstance(word, str) for word in found.words)
    except DefinitionError as error:
        _words(error.message)


def definition(data: bytes) -> None:
    """A YAML file of ours is a tree of texts that can be written, or refused by one line."""
    try:
        read = parse_yaml(data.decode("utf-8", "replace"), "fuzz.yaml")
    except DefinitionError as error:
        _words(str(error))
    else:
        for text in _texts(read):
            text.encode()


def log(data: bytes) -> None:
    """Lines of a log are requests or refused, in formats that are recognised, and in a given one.

    A refusal prints no control character.
    """
    first, _, rest = data.decode("utf-8", "replace").partition("\n")
    reader = LogReader()
    if first.startswith(("$", "%")):
        try:
            reader = LogReader([given_format(first)], only=True)
        except DefinitionError:
            return
    for line in [first, *rest.split("\n")]:
        try:
            entry = reader.read(line)
        except ValueError:
            shown = reader.refusal(line)
            assert "\x1b" not in shown
        else:
            assert entry is None or 0 <= entry.unix_s < 1e12


def ansible(data: bytes) -> None:
    """Any result of a task has a reason that is not empty."""
    try:
        result = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(result, dict):
        assert reason(result)


CHECKS: Mapping[str, Check] = {
    "record": record,
    "configuration": configuration,
    "definition": definition,
    "log": log,
    "ansible": ansible,
}


def seeds(name: str) -> list[bytes]:
    """Return valid inputs of a reader, from which a fuzzer starts."""
    if name == "record":
        made = small(sample_record("better", trials=6))
        # A fuzzer changes short inputs more often, and the reader treats all blocks alike.
        short = tuple(replace(block, windows=block.windows[:1]) for block in made.blocks[-2:])
        made = replace(made, blocks=short, trials=made.trials[:2])
        return [json.dumps(msgspec.to_builtins(made), separators=(",", ":")).encode()]
    files = sorted((_FOLDER / "seeds" / name).iterdir())
    if name == "configuration":
        # The place of the parser comes first.
        return [bytes([int(file.name[0])]) + file.read_bytes() for file in files]
    return [file.read_bytes() for file in files]


def failed(name: str) -> list[bytes]:
    """Return the inputs on which a reader's check once failed."""
    return [file.read_bytes() for file in sorted((_FOLDER / "failed").glob(f"{name}/*"))]


def _texts(node: Node) -> Iterator[str]:
    """Yield all keys and values of a file."""
    if isinstance(node.content, str):
        yield node.content
    elif isinstance(node.content, tuple):
        for each in node.content:
            yield from _texts(each)
    else:
        yield from node.content
        for each in node.content.values():
            yield from _texts(each)


def _words(text: str) -> None:
    assert text.strip()


def _one_line(words: str) -> None:
    assert words.isprintable(), ascii(words)
    assert len(words) <= 800
