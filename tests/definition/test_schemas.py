"""The JSON schemas accept what the readers accept, and refuse what these refuse by key or type.

``docs/schemas/`` has them as files. After a change of a definition's keys, renew them::

    ACCEPT_GOLDEN=1 .venv/bin/pytest tests/definition/test_schemas.py
"""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.spaces import load_space
from tuner.cli.schema import KINDS, described_schema
from tuner.definition import schemas
from tuner.definition.experiment import load_experiment
from tuner.definition.study import load_study
from tuner.errors import DefinitionError
from tuner.space.space import Space
from tuner.workload.workload import load_workload

TOP = Path(__file__).resolve().parents[2]
STUDIES = TOP / "studies"
SHIPPED = {
    "study": sorted(STUDIES.glob("*.yaml")),
    "workload": sorted(STUDIES.glob("workloads/*.yaml")),
    "experiment": sorted(STUDIES.glob("experiments/*.yaml")),
    "configuration": sorted(STUDIES.glob("results/https-proxy-500/configurations/*.yaml")),
    "published": sorted(
        file for file in STUDIES.glob("published/*/*.yaml") if file.stem != "figures"
    ),
}
EVERY_KEY = {
    "study": """
        {name: mine, summary: x, server: nginx, workload: static, objective: [p99, p99.9],
         baseline: [stock, hand], trials: 5, time: 10m, rate: 500, connections: 8,
         allow: [open_file_cache], seed: 1, effect: 0.1, margin: 3%, constraint: [memory <= 1g],
         sequential: off, finalists: 1, ablate: off, only: sendfile, load: native, stalls: keep,
         generator_cpus: 0-1, force: x, keep_upstreams: off, storage: x, inventory: hosts}
    """,
    "workload": """
        {workload: mine, protocol: http2, streams: 8, requests_per_connection: 100,
         tls: {server_name: localhost, verify: on, resume: off, expect: {version: TLSv1.3}},
         connections: 8, timeout: 5s, summary: x,
         arrival: {rates: [{for: 5s, rate: 1, to: 3.5}]},
         backend: {serves: answers, content_type: text/plain, count: 2},
         requests: [{path: /x, weight: 0.5, method: POST, headers: {Accept: x},
                     body: {like: json, size: 2k}, answer: {status: 201, size: 2k, times: [1ms]},
                     expect: {status: 201, length: 5, check: all}}]}
    """,
}
"""Keys that the shipped files do not have."""
MOST_FILES = {"experiment": 2}
"""Files whose mutations are tried, of kinds that take long to read; all of the others."""
WRONG: tuple[object, ...] = ({"no_such_key": 1}, [["x"]], "no such word", -1, 10**12, None)
OF_THE_FILE = {"tune", "tuned", "summary"}
"""Keys with words that other keys define, or that only a list reads, like values of ``alike``."""
OF_THE_HOST = re.compile(r"out of range|is not allowed")
"""Reasons that only the host of a configuration can give for one of its values."""
BY_KEY_OR_TYPE = re.compile(
    r"unknown key|expected |' is missing$|is out of range|is not allowed; allowed"
)


class _Newer(yaml.CSafeLoader):
    """YAML 1.2 as editors read it: ``on`` and ``off`` are text."""


_Newer.yaml_implicit_resolvers = {
    first: [(tag, regex) for tag, regex in found if tag != "tag:yaml.org,2002:bool"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Newer.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("true|false"), list("tf"))


@cache
def validator(kind: str) -> jsonschema.Draft202012Validator:
    """Return the validator of a kind of file."""
    return jsonschema.Draft202012Validator(described_schema(kind))


def accepts(kind: str, text: str) -> bool:
    """Return whether the schema accepts a text, however YAML reads its switches."""
    both = [yaml.load(text, loader) for loader in (yaml.CSafeLoader, _Newer)]  # noqa: S506 - safe ones
    found = {validator(kind).is_valid(data) for data in both}
    assert len(found) == 1, f"the schema depends on the version of YAML: {text}"
    return bool(found.pop())


def read(kind: str, file: Path) -> None:
    """Read a file as tuner does."""
    match kind:
        case "study":
            load_study(file)
        case "workload":
            load_workload(str(file))
        case "experiment":
            load_experiment(str(file))
        case _:
            bound(file.stem.partition("-")[0]).read_configuration(file)


@cache
def bound(server: str) -> Space:
    """Return the space of the shipped configurations of a server."""
    return load_space(f"{server}/proxy", server_cores=4)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "space"])
def test_the_schema_is_published(kind: str) -> None:
    """docs/schemas holds each schema, and the schema is valid by its meta-schema."""
    text = json.dumps(described_schema(kind), indent=2) + "\n"
    jsonschema.Draft202012Validator.check_schema(json.loads(text))
    file = TOP / "docs" / "schemas" / f"{kind}.schema.json"
    if os.environ.get("ACCEPT_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text, "renew it; see the top of this file"


def test_every_kind_has_a_schema() -> None:
    """The command names its kinds without an import of the readers."""
    assert tuple(schemas.KINDS) == KINDS


@pytest.mark.parametrize("kind", SHIPPED)
def test_shipped_files_are_valid(kind: str) -> None:
    """Every shipped file of a kind is valid by its schema."""
    assert SHIPPED[kind]
    wrong = [
        str(file) for file in SHIPPED[kind] if not accepts(kind, file.read_text(encoding="utf-8"))
    ]
    assert wrong == []


@pytest.mark.parametrize("kind", ["study", "workload", "experiment", "configuration"])
def test_readers_and_schemas_refuse_the_same(kind: str, tmp_path: Path) -> None:
    """A wrong key or type is refused by both; what the reader accepts, the schema accepts."""
    shipped = SHIPPED[kind][: MOST_FILES.get(kind)]
    files = [(file.stem, file.read_text(encoding="utf-8")) for file in shipped]
    files += [("mine", EVERY_KEY[kind])] if kind in EVERY_KEY else []
    seen: set[tuple[object, ...]] = set()
    lenient, strict = [], []
    for stem, text in files:
        for path, data in mutations(yaml.load(text, _Newer), seen):  # noqa: S506 - a safe one
            file = tmp_path / f"{stem}.yaml"
            file.write_text(written := yaml.dump(data, Dumper=yaml.CSafeDumper), encoding="utf-8")
            reason = refused(kind, file)
            if reason is None and not accepts(kind, written):
                strict.append((path, written))
            if path[0] == "values" and reason and OF_THE_HOST.search(reason):
                continue
            if reason and BY_KEY_OR_TYPE.search(reason) and accepts(kind, written):
                lenient.append((path, reason))
    assert len(seen) > 100
    assert not lenient, "\n".join(map(str, lenient))
    assert not strict, "\n".join(map(str, strict))


def refused(kind: str, file: Path) -> str | None:
    """Return the reader's message; None if it accepts the file."""
    try:
        read(kind, file)
    except DefinitionError as error:
        return error.message
    return None


def mutations(data: Any, seen: set[tuple[object, ...]]) -> Iterator[tuple[tuple[object, ...], Any]]:
    """Yield copies of a document with one change each; the same change of a key only once."""
    for path in paths(data, ()):
        if OF_THE_FILE & set(path) or (path[:1] == ("alike",) and len(path) > 4):
            continue
        place = tuple("*" if isinstance(step, int) else step for step in path)
        for number, value in enumerate(WRONG):
            if path and (*place, number) not in seen:
                seen.add((*place, number))
                changed = copy.deepcopy(data)
                at(changed, path[:-1])[path[-1]] = copy.deepcopy(value)
                yield (*place, value), changed
        if isinstance(at(data, path), dict) and (*place, "new") not in seen:
            seen.add((*place, "new"))
            changed = copy.deepcopy(data)
            at(changed, path)["no_such_key"] = 1
            yield (*place, "no_such_key"), changed


def paths(data: Any, above: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every node."""
    yield above
    steps: Sequence[Any] = list(data) if isinstance(data, dict) else []
    if isinstance(data, list):
        steps = range(len(data))
    for step in steps:
        yield from paths(data[step], (*above, step))


def at(data: Any, path: tuple[Any, ...]) -> Any:
    """Return a node by its path."""
    for step in path:
        data = data[step]
    return data
