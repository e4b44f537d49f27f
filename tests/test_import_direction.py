"""Imports point one way: edges → phases → adapters → pure logic and data → errors.

`ROOMS` lists the rooms of the house in order. A new room takes its place there; the test fails
until it does. Imports inside functions count for the direction (they are dependencies all the
same), not for cycles (they happen after loading).
"""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[1]

# The rooms of the house (modules and packages right under tuner/), from the ground up. A room
# imports from the rooms above its own line only, so each room is one layer.
ROOMS = (
    # what everything stands on
    "errors",
    "paths",
    # pure logic and plain data
    "stats",
    "reading",
    "machine",
    "workload",
    "measurement",
    "space",
    "goals",
    "render",
    "record",
    "definition",
    "words",
    "judge",
    # adapters, which touch the world
    "generators",
    "hosts",
    "servers",
    "own",
    "store",
    "search",
    "lint",
    # what a study does, in terms of ports; the simulated lab plugs into the same ports
    "phases",
    "testing",
    # edges
    "report",
    "outputs",
    "export",
    "app",
    "api",
    "cli",
    "__main__",
)
LAYER = {name: layer for layer, name in enumerate(ROOMS)}
PURE = LAYER["judge"]
"""The last room that must not touch the world."""

# Room → rooms it must not import, with the reason.
FORBIDDEN = {
    "report": ({"phases", "hosts", "generators"}, "a report is a function of the record alone"),
    "outputs": ({"phases", "hosts", "generators"}, "a document is a function of the record alone"),
    "export": ({"phases", "hosts", "generators"}, "an export is a function of the record alone"),
    "testing": ({"phases"}, "the simulated lab stands behind the ports, like a real one"),
}
# Room → the only rooms it may import, with the reason.
CONFINED = {
    "stats": ({"errors"}, "statistics are NumPy and SciPy only"),
}
WORLDLY = {"ansible_runner", "optuna", "sqlalchemy", "subprocess"}
# Modules of pure rooms that import one of them all the same, with the reason.
EXCUSED = {
    ("tuner.render.confined", "subprocess"): "templates of users run in a process with limits",
}


@dataclass(frozen=True, slots=True)
class Import:
    """One import statement's target, as seen from one module."""

    module: str
    """Full name of the importing module."""
    target: str
    """Full name of what is imported: a module, or a name in a module."""
    line: int
    at_load: bool
    """True if it happens when the module is loaded."""


def modules(top: Path) -> dict[str, Path]:
    """Return the modules of the package `tuner` below `top`, full name to file."""
    names = {}
    for file in sorted((top / "tuner").rglob("*.py")):
        parts = file.relative_to(top).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return names


def imports(module: str, file: Path) -> Iterator[Import]:
    """Yield every import of a module, those inside functions too."""
    is_package = file.name == "__init__.py"

    def visit(node: ast.AST, *, at_load: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for name in node.names:
                yield Import(module, name.name, node.lineno, at_load)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                kept = len(parts) - node.level + is_package
                base = ".".join([*parts[:kept], *filter(None, [node.module])])
            for name in node.names:
                yield Import(module, f"{base}.{name.name}", node.lineno, at_load)
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            inside = True
        for child in ast.iter_child_nodes(node):
            yield from visit(child, at_load=at_load and not inside)

    yield from visit(ast.parse(file.read_text(encoding="utf-8")), at_load=True)


def all_imports(top: Path) -> list[Import]:
    """Return every import of every module below `top`."""
    return [found for module, file in modules(top).items() for found in imports(module, file)]


def room(name: str) -> str | None:
    """Return the room that a full module name lies in; None outside, and for `tuner` itself."""
    head, *rest = name.split(".")
    return rest[0] if head == "tuner" and rest else None


def unlisted(top: Path) -> list[str]:
    """Return a message for every room that has no place in ROOMS."""
    rooms = {room(name) for name in modules(top)} - {None}
    return [
        f"tuner/{name} is new: list it in ROOMS of tests/test_import_direction.py"
        for name in sorted(map(str, rooms - LAYER.keys()))
    ]


def wrong_directions(top: Path) -> list[str]:
    """Return a message for every import that points up, or where a room must not look."""
    messages = []
    for found in all_imports(top):
        where = f"{found.module} line {found.line} imports {found.target}"
        source, target = room(found.module), room(found.target)
        if source is None and found.target.startswith("tuner.") and found.at_load:
            messages.append(f"{where}: the package itself imports nothing when it is loaded")
        if source is None or source not in LAYER:
            continue
        library = found.target.split(".")[0]
        excused = (found.module, library) in EXCUSED
        if LAYER[source] <= PURE and library in WORLDLY and not excused:
            messages.append(f"{where}: pure logic does not touch the world")
        if target is None or target == source or target not in LAYER:
            continue
        if LAYER[target] > LAYER[source]:
            messages.append(f"{where}: {source} lies below {target} and must not know it")
        forbidden, reason = FORBIDDEN.get(source, (set(), ""))
        if target in forbidden:
            messages.append(f"{where}: {reason}")
        allowed, reason = CONFINED.get(source, ({target}, ""))
        if target not in allowed:
            messages.append(f"{where}: {reason}")
    return messages


def cycle(top: Path) -> list[str]:
    """Return the modules of one cycle of imports at load time; empty when there is none."""
    known = modules(top)
    graph: dict[str, set[str]] = {name: set() for name in known}
    for found in all_imports(top):
        # `from tuner.a import b`: either the module tuner.a.b, or a name in the module tuner.a.
        target = found.target if found.target in known else found.target.rpartition(".")[0]
        if found.at_load and target in known and target != found.module:
            graph[found.module].add(target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_every_room_has_its_place() -> None:
    """A new room is placed in the house on purpose."""
    assert unlisted(TOP) == []


def test_imports_point_one_way() -> None:
    """No room knows the rooms above it, and the confined rooms stay confined."""
    assert wrong_directions(TOP) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Any module can be loaded first."""
    assert cycle(TOP) == []


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("space/space.py", "from tuner import phases", "space lies below phases"),
        ("stats/power.py", "import tuner.paths", "NumPy and SciPy only"),
        ("space/space.py", "def f():\n    import subprocess", "does not touch the world"),
        ("space/space.py", "from ..store import x", "space lies below store"),
        ("report/page.py", "from ..generators import port", "function of the record alone"),
        ("testing/lab.py", "from tuner.phases import confirm", "behind the ports"),
        ("__init__.py", "from tuner.cli import main", "imports nothing when it is loaded"),
    ],
)
def test_an_import_in_the_wrong_direction_is_found(
    tmp_path: Path, file: str, text: str, complaint: str
) -> None:
    """The rules above would notice, however the import is written."""
    path = tmp_path / "tuner" / file
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    (message,) = wrong_directions(tmp_path)
    assert complaint in message


def test_an_import_in_the_right_direction_passes(tmp_path: Path) -> None:
    """The rules do not cry wolf."""
    path = tmp_path / "tuner" / "phases" / "confirm.py"
    path.parent.mkdir(parents=True)
    path.write_text("import subprocess\nfrom tuner.stats import paired", encoding="utf-8")
    assert wrong_directions(tmp_path) == []


def test_a_room_without_a_place_is_found(tmp_path: Path) -> None:
    """The message says where to list it."""
    (tmp_path / "tuner" / "attic").mkdir(parents=True)
    (tmp_path / "tuner" / "attic" / "__init__.py").touch()
    assert unlisted(tmp_path) == [
        "tuner/attic is new: list it in ROOMS of tests/test_import_direction.py"
    ]


@pytest.mark.parametrize(
    ("back", "found"),
    [
        ("import tuner.facts", True),
        ("from .facts import x", True),
        ("def f():\n    import tuner.facts", False),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import tuner.facts",
            False,
        ),
    ],
)
def test_a_circle_is_found_where_it_would_hurt(tmp_path: Path, back: str, found: bool) -> None:
    """Only imports at load time can deadlock each other."""
    (tmp_path / "tuner").mkdir()
    (tmp_path / "tuner" / "facts.py").write_text("from tuner import space", encoding="utf-8")
    (tmp_path / "tuner" / "space.py").write_text(back, encoding="utf-8")
    assert bool(cycle(tmp_path)) is found


def test_the_help_loads_no_heavy_library() -> None:
    """`tuner --help` answers at once: what a command needs is loaded by that command."""
    program = (
        "import sys, tuner.cli\n"
        "sys.argv = ['tuner', '--help']\n"
        "try: tuner.cli.main()\n"
        "except SystemExit as end: assert not end.code\n"
        "print('loaded:', *{name.partition('.')[0] for name in sys.modules})"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], cwd=TOP, capture_output=True, text=True, check=True
    ).stdout
    loaded = output.rpartition("loaded:")[2].split()
    assert "click" in loaded
    heavy = {"altair", "ansible_runner", "numpy", "optuna", "scipy", "sqlalchemy", "vl_convert"}
    assert heavy & set(loaded) == set()


def test_one_module_calls_what_optuna_keeps_for_storages() -> None:
    """`optuna.storages.BaseStorage` is no interface for users: an upgrade meets one module."""
    internal = {
        *("create_new_study", "get_study_id_from_name", "get_study_user_attrs"),
        *("set_study_user_attr", "create_new_trial", "get_trial_id_from_study_id_trial_number"),
        *("set_trial_user_attr", "set_trial_state_values", "get_all_trials", "delete_study"),
    }
    callers = {
        name
        for name, file in modules(TOP).items()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in internal
    }
    assert callers == {"tuner.store.optuna_storage"}
