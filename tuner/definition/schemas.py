"""JSON schemas of the files that users write, for editors; made from the readers' own shapes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from tuner.definition.experiment import EXPERIMENT
from tuner.definition.published import PUBLISHED_CONFIGURATION
from tuner.definition.study_keys import STUDY
from tuner.paths import data_dir
from tuner.reading.located import Node, read_yaml
from tuner.reading.shape import AnyText, OneWord, OnOff, Schema, Shape, described, document
from tuner.space.configuration_keys import CONFIGURATION
from tuner.space.file import parameter_nodes
from tuner.space.space import spaces
from tuner.workload.workload_keys import WORKLOAD


def schema(kind: str) -> Schema:
    """Return the JSON schema of a kind of file, one of ``KINDS``."""
    return KINDS[kind]()


def _configuration() -> Schema:
    """Return the schema of configurations, with the parameters of every built-in space."""
    made = document("A configuration of tuner", CONFIGURATION)
    folder = data_dir("spaces")
    return {**made, "allOf": [_values(name, folder / f"{name}.yaml") for name in spaces()]}


def _values(space: str, path: Path) -> Schema:
    """Return the condition that a configuration of a space has its parameters only."""
    parameters = {
        name: described(_parameter(node)) for name, node in parameter_nodes(read_yaml(path))
    }
    return {
        "if": {"properties": {"space": {"const": space}}, "required": ["space"]},
        "then": {
            "properties": {"values": {"properties": parameters, "additionalProperties": False}}
        },
    }


def _parameter(node: Node) -> Shape:
    keys: Mapping[str, Node] = node.entries()
    about = " ".join(keys["about"].text().split()) if "about" in keys else ""
    if "choices" in keys:
        return OneWord(tuple(item.text() for item in keys["choices"].sequence()), about)
    return OnOff(about) if keys["type"].text() == "boolean" else AnyText(about)


def _space() -> Schema:
    """Return the schema of spaces, which is written by hand."""
    text = (data_dir("spaces") / "space.schema.json").read_text(encoding="utf-8")
    found: Schema = json.loads(text)
    return found


KINDS: Mapping[str, Callable[[], Schema]] = {
    "study": lambda: document("A study of tuner", STUDY),
    "workload": lambda: document("A workload of tuner", WORKLOAD),
    "experiment": lambda: document("An experiment of tuner", EXPERIMENT),
    "configuration": _configuration,
    "published": lambda: document("A published configuration", PUBLISHED_CONFIGURATION),
    "space": _space,
}
"""Schemas by kind of file."""
