"""Only a server's own modules name it.

A server is a module `tuner/servers/NAME.py`, `tuner/own/NAME/`, `tuner/lint/NAME_*.py` and the
reader of its language; every other module asks the adapter. `tests/servers/test_seam.py` adds a
server so.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuner.machine.facts import SERVER_NAMES

TOP = Path(__file__).resolve().parents[1]

# Module → why it names a server all the same.
EXCUSED = {
    "machine/facts.py": "the server of a study that names none",
    "servers/backend.py": "the lab's backend, the same whichever server is under test",
    "render/syntax.py": "the language of the backend's template",
    "testing/sample_record.py": "a record of one study, made up",
}


def belongs(path: str) -> bool:
    """Return whether a module of `tuner/` lies under the name of a server."""
    names = "|".join(SERVER_NAMES)
    pattern = rf"servers/({names})\.py|own/({names})/.*|lint/({names})_\w+\.py"
    return bool(re.fullmatch(pattern, path))


def naming(source: str) -> Iterator[str]:
    """Yield each place of a module that names a server: its name as text, or one of its modules."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and node.value in SERVER_NAMES:
            yield f"line {node.lineno}: {node.value!r}"
        if isinstance(node, ast.ImportFrom | ast.Import):
            targets = [each.name for each in node.names]
            if isinstance(node, ast.ImportFrom):
                targets = [f"{node.module}.{each}" for each in targets]
            for target in targets:
                room, _, rest = target.removeprefix("tuner.").partition(".")
                first = re.split(r"[._]", rest)[0]
                if room in {"servers", "own", "lint"} and first in SERVER_NAMES:
                    yield f"line {node.lineno}: {target}"


def test_no_module_outside_a_servers_own_names_it() -> None:
    """Not as text that is compared, and not by importing what is particular to it."""
    found = {}
    for file in sorted((TOP / "tuner").rglob("*.py")):
        path = file.relative_to(TOP / "tuner").as_posix()
        places = list(naming(file.read_text(encoding="utf-8")))
        if places and not belongs(path):
            found[path] = places
    assert {path: places for path, places in found.items() if path not in EXCUSED} == {}
    assert set(EXCUSED) <= set(found), "an excuse that nobody needs any more"


@pytest.mark.parametrize(
    "source",
    [
        'if server.name == "caddy": ...',
        "def f():\n    from tuner.own.nginx.tree import parse",
        "import tuner.servers.caddy",
        "from tuner.lint import nginx_rules",
    ],
)
def test_a_name_is_found_however_it_comes_in(source: str) -> None:
    """The rule above would notice."""
    assert len(list(naming(source))) == 1


def test_a_server_under_its_own_name_is_free_to_name_itself() -> None:
    """And a module whose name only begins so is not."""
    assert belongs("own/caddy/reader.py")
    assert belongs("lint/nginx_scope.py")
    assert not belongs("servers/nginx_like.py")
