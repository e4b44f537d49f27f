"""A name has one meaning in the whole package."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
ROOMS_WITH_OWN_NAMES = {"cli": "a module of `cli` has the name of its command"}
SHARED = {
    "__init__.py": "every package has one",
    "ansible.py": "`hosts` runs Ansible, `export` writes a role for it",
    "catalog.py": "`servers` and `own` each list their adapters",
    "check.py": "each room checks its own data",
    "configuration.py": "`export` writes what `space` defines",
    "contest.py": "`judge` decides what `phases` measures",
    "facts.py": "of a machine, of a space, and of a study for its readers",
    "file.py": "a space and a record as one file",
    "home.py": "a folder of an account, and a folder of a server's files",
    "host_noise.py": "`app` prints what `phases` measures",
    "kernel.py": "`hosts` sets the parameters that `space` reads",
    "lab.py": "a server's lab, and the simulated one",
    "program.py": "an external load generator, and a server's program",
    "results.py": "`judge` computes, `app` shows, `export` writes",
    "server.py": "the ports for a server and for the user's own one",
    "service.py": "a service on a host, and what it listens on",
    "study.py": "`phases` runs what `definition` reads",
}
"""File names that several rooms may use, with the reason."""


def test_every_public_class_and_type_has_a_name_of_its_own() -> None:
    """Two meanings of one name are two names: a reader may search for it."""
    found = defaultdict(list)
    for file in sorted((TOP / "tuner").rglob("*.py")):
        for name in public_types(file.read_text(encoding="utf-8")):
            found[name].append(file.relative_to(TOP).as_posix())
    assert repeated(found) == {}


def test_modules_of_different_rooms_have_different_names() -> None:
    """A file name says what the module holds, and the list gives the reason for each exception."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted((TOP / "tuner").rglob("*.py")):
        room = file.relative_to(TOP / "tuner").parts[0]
        if room not in ROOMS_WITH_OWN_NAMES and room not in found[file.name]:
            found[file.name].append(room)
    shared = repeated(found)
    assert {name: rooms for name, rooms in shared.items() if name not in SHARED} == {}
    assert SHARED.keys() - shared.keys() == set(), "no longer shared: take it off the list"


def test_types_are_found_in_every_form() -> None:
    """Classes, aliases and annotated aliases count; constants and private names do not."""
    text = "class A: ...\nB = int | str\nC: TypeAlias = 'A'\nMOST = 3\n_D = int\nclass _E: ...\n"
    assert public_types(text) == ["A", "B", "C"]


def public_types(text: str) -> list[str]:
    """Return the public classes and type aliases at the top level of a module."""
    names = []
    for node in ast.parse(text).body:
        match node:
            case ast.ClassDef(name=name):
                names.append(name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if name != name.upper() or len(name) == 1:
                    names.append(name)
            case _:
                pass
    return [name for name in names if name[0].isupper()]


def repeated(places: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return the names with several places."""
    return {name: found for name, found in places.items() if len(found) > 1}
