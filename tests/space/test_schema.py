"""The published schema of spaces: it takes what the reader takes, and refuses what it refuses."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tuner.errors import DefinitionError
from tuner.machine.facts import SERVER_NAMES
from tuner.paths import data_dir
from tuner.space.file import APPLIES, KINDS
from tuner.space.space import SpaceFacts, bind_space

SCHEMA: dict[str, Any] = json.loads((data_dir("spaces") / "space.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
OF_SERVERS = {"_never.yaml", "_alike.yaml"}
"""Files about a server, for all of its spaces."""
FILES = sorted(f for f in data_dir("spaces").glob("*/*.yaml") if f.name not in OF_SERVERS)
FACTS = SpaceFacts(2, 32, 8 << 30, (1, 22, 1), ())
HEAD = "space: nginx/mine\nserver: nginx\nparameters:\n"


class _Plain(yaml.SafeLoader):
    """YAML as editors read it (1.2): ``on`` and ``off`` are text."""


_Plain.yaml_implicit_resolvers = {
    first: [(tag, regex) for tag, regex in found if tag != "tag:yaml.org,2002:bool"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def refused(text: str) -> bool:
    """Return whether the schema refuses a text, read by YAML 1.1 or 1.2."""
    both = [yaml.load(text, loader) for loader in (yaml.SafeLoader, _Plain)]  # noqa: S506 - safe ones
    answers = {VALIDATOR.is_valid(data) for data in both}
    assert len(answers) == 1, "the two ways of reading YAML differ"
    return not answers.pop()


def test_the_schema_is_one() -> None:
    """By the meta-schema that it names."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_every_shipped_space_is_valid_and_names_the_schema(file: Path) -> None:
    """In its first line, so that editors complete it."""
    text = file.read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=../space.schema.json\n")
    assert not refused(text), [
        error.message for error in VALIDATOR.iter_errors(yaml.safe_load(text))
    ]


def test_the_words_are_the_readers_own() -> None:
    """A new kind would have to be added to both."""
    parameter = SCHEMA["$defs"]["parameter"]["properties"]
    assert tuple(parameter["type"]["enum"]) == KINDS
    assert tuple(parameter["apply"]["enum"]) == APPLIES
    assert set(SCHEMA["properties"]["server"]["examples"]) == {*SERVER_NAMES, "kernel"}


RIGHT = [
    "p: {type: boolean, default: on}",
    "p: {type: integer, range: [1, 2 * server_cores], default: {stock: 1, hand: server_cores}}",
    "p: {type: integer, range: [4k, 1m], unit: bytes, scale: log, special: [0], default: 0}",
    "p: {type: choice, choices: ['1.0', '1.1'], default: {stock: {'< 2': '1.0', '>= 2': '1.1'}}}",
    "p: {type: boolean, default: off, requires: {version: '>= 1.9, < 2', tls: off}}",
    "p: {type: boolean, default: off, when: {any: [{workload: {protocol: http1}}]}}",
    "p: {type: integer, range: [1, 9], floor: connections, default: 1, apply: restart}",
]
WRONG = [
    "p: {type: boolean}",
    "p: {default: on}",
    "p: {type: whole, range: [1, 2], default: 1}",
    "p: {type: integer, default: 1}",
    "p: {type: integer, range: [1], default: 1}",
    "p: {type: boolean, range: [1, 2], default: on}",
    "p: {type: boolean, step: 2, default: on}",
    "p: {type: boolean, choices: [a, b], default: on}",
    "p: {type: choice, default: a}",
    "p: {type: choice, choices: [a], default: a}",
    "p: {type: choice, choices: [a, a], default: a}",
    "p: {type: boolean, default: {hand: on}}",
    "p: {type: boolean, default: {stock: on, best: on}}",
    "p: {type: boolean, default: {stock: {'new': on}}}",
    "p: {type: boolean, default: on, unti: x}",
    "p: {type: boolean, default: on, requires: {version: new}}",
    "p: {type: boolean, default: on, requires: {colour: red}}",
    "p: {type: boolean, default: on, requires: {protocol: spdy}}",
    "p: {type: boolean, default: on, requires: {streams: {over: 1}}}",
    "p: {type: boolean, default: on, when: {any: []}}",
    "p: {type: boolean, default: on, when: {workload: {colour: red}}}",
    "p: {type: boolean, default: on, apply: reboot}",
    "p: {type: boolean, default: on, belongs_to: q}",
    "p: {type: boolean, default: on, fixed: maybe}",
    "p: {type: integer, range: [1, 2], unit: '5!', default: 1}",
    "p: {type: real, range: [1, 2], floor: 1, default: 1}",
    "P: {type: boolean, default: on}",
    "any: {type: boolean, default: on}",
]


@pytest.mark.parametrize("line", RIGHT)
def test_what_is_right_is_right_for_both(tmp_path: Path, line: str) -> None:
    """For the schema and for the reader."""
    text = HEAD + textwrap.indent(line, "  ") + "\n"
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    assert not refused(text)
    bind_space(str(tmp_path / "s.yaml"), FACTS)


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_is_wrong_for_both(tmp_path: Path, line: str) -> None:
    """So an editor marks what the reader would refuse."""
    text = HEAD + textwrap.indent(line, "  ") + "\n"
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    assert refused(text)
    with pytest.raises(DefinitionError, match=r"s\.yaml:4: "):
        bind_space(str(tmp_path / "s.yaml"), FACTS)


@pytest.mark.parametrize(
    "text",
    [
        "space: nginx/mine\nserver: nginx\n",
        "space: mine\nserver: nginx\nparameters: {}\n",
        "space: nginx/mine\nparameters: {}\n",
        "space: nginx/mine\nserver: 7\nparameters: {}\n",
        "space: nginx/mine\nserver: nginx\ninclude: ../other.yaml\nparameters: {}\n",
        "space: nginx/mine\nserver: nginx\norder: [a]\nparameters: {}\n",
        "space: nginx/mine\nserver: nginx\ncolour: red\nparameters: {}\n",
        "- a\n",
    ],
)
def test_a_wrong_file_is_wrong_for_both(tmp_path: Path, text: str) -> None:
    """The schema and the reader refuse the same files."""
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    assert refused(text)
    with pytest.raises(DefinitionError):
        bind_space(str(tmp_path / "s.yaml"), FACTS)


def test_which_servers_there_are_only_the_reader_knows(tmp_path: Path) -> None:
    """Editors are shown the shipped ones; one more is added without a change to the schema."""
    text = "space: iis/mine\nserver: iis\nparameters: {}\n"
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    assert not refused(text)
    with pytest.raises(DefinitionError, match=r"s\.yaml:2: .*'iis' is not allowed; allowed: nginx"):
        bind_space(str(tmp_path / "s.yaml"), FACTS)
