"""Published configurations and figures, one folder of ``studies/published/`` each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tuner.errors import DefinitionError
from tuner.paths import data_dir
from tuner.reading.located import Node, read_yaml
from tuner.reading.shape import AnyText, Keys, ListOf
from tuner.record.contenders import STOCK, Published, PublishedRow
from tuner.space.configuration import Configuration, Value
from tuner.space.configuration_keys import BASELINE, CONFIGURATION
from tuner.space.space import Space

_ROW = ("case", "server", "arm")
PUBLISHED_CONFIGURATION = Keys(
    CONFIGURATION.required,
    {
        **CONFIGURATION.optional,
        "not_carried": ListOf(AnyText(), "Settings without a parameter, with the reason."),
    },
    about="A published configuration in the parameters of a space of tuner.",
)
"""A published configuration's file."""


def find_published(name: str) -> Published | None:
    """Read the published figures of an experiment, if there are any.

    Raises:
        DefinitionError: the file is wrong.
    """
    return load_published(name) if _figures(name).is_file() else None


def _figures(name: str) -> Path:
    return data_dir("studies") / "published" / name / "figures.yaml"


def load_published(name: str) -> Published:
    """Read the published figures of an experiment.

    Raises:
        DefinitionError: the file does not exist, or it is wrong.
    """
    path = _figures(name)
    if not path.is_file():
        raise DefinitionError(f"there is nothing published under {name!r}", path=str(path))
    keys = read_yaml(path).mapping(
        required=("title", "source", "year", "setting", "figures"), optional=("concluded", "weak")
    )
    return Published(
        title=keys["title"].text(),
        source=keys["source"].text(),
        year=keys["year"].text(),
        setting=keys["setting"].text(),
        concluded=_texts(keys, "concluded"),
        weak=_texts(keys, "weak"),
        rows=tuple(_row(node) for node in keys["figures"].sequence()),
    )


def _row(node: Node) -> PublishedRow:
    entries = node.entries()
    missing = [key for key in _ROW[1:] if key not in entries]
    if missing:
        raise node.error(f"{missing[0]!r} is missing")
    figures = {key: found.text() for key, found in entries.items() if key not in _ROW}
    if not figures:
        raise node.error("holds no figure")
    case = entries["case"].text() if "case" in entries else ""
    return PublishedRow(case, entries["server"].text(), entries["arm"].text(), figures)


def _texts(keys: Mapping[str, Node], key: str) -> tuple[str, ...]:
    return tuple(node.text() for node in keys[key].sequence()) if key in keys else ()


def has_configuration(name: str, server: str) -> bool:
    """Return whether a server's configuration was published with the experiment."""
    return _configuration(name, server).is_file()


def load_configuration(name: str, space: Space) -> tuple[Configuration, tuple[str, ...]]:
    """Return the published configuration of a server in an experiment, see ``carried_over``."""
    return carried_over(_configuration(name, space.server), space)


def carried_over(path: Path, space: Space) -> tuple[Configuration, tuple[str, ...]]:
    """Return a published configuration in a space's parameters, and the settings it lost.

    Other values come from its ``baseline`` (default: ``stock``). Settings without a parameter in
    this space are reported and not refused, because a publication cannot be changed.

    Raises:
        DefinitionError: the file is missing or wrong, or a value is not allowed.
    """
    keys = PUBLISHED_CONFIGURATION.read(read_yaml(path))
    if "server" in keys:
        keys["server"].one_of((space.server,))
    if keys["space"].text() != space.name:
        raise keys["space"].error(f"{keys['space'].text()!r} is not {space.name}, the study's")
    base = BASELINE.read(keys["baseline"]) if "baseline" in keys else STOCK
    values: dict[str, Value] = {}
    lost = list(_texts(keys, "not_carried"))
    for setting, node in (keys["values"].entries() if "values" in keys else {}).items():
        text = str(space.facts.server_cores) if node.text() == _CORES else node.text()
        if missing := space.missing(setting):
            lost.append(f"{setting} {text}: {missing}")
            continue
        try:
            values[setting] = space.parameter(setting).parse(text)
        except ValueError as error:
            raise node.error(str(error)) from None
    return space.complete(values, space.baseline(base)), tuple(lost)


_CORES = "server_cores"
"""Name for ``auto`` in place of a number: the server's cores."""


def _configuration(name: str, server: str) -> Path:
    return data_dir("studies") / "published" / name / f"{server}.yaml"
