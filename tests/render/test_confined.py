"""A template of a user's own has limits of time, memory and size, and sees the files named."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.render.placed import LAB
from tests.render.test_render import MINE
from tests.spaces import load_space
from tuner.errors import DefinitionError
from tuner.render import confined
from tuner.render.render import render

USES = "{{ p.worker_processes }} {{ p.tcp_nodelay }}\n"
DOUBLING = (
    "{% set ns = namespace(a='a') %}"
    "{% for i in range(60) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}"
)


def mine(folder: Path, template: str, *, templates: str = "") -> str:
    """Render a user's own template, with what the space says of others."""
    (folder / "s.yaml").write_text(templates + MINE, encoding="utf-8")
    if template:
        (folder / "mine.conf.j2").write_text(template + USES, encoding="utf-8")
    space = load_space(str(folder / "s.yaml"), connections=1, memory_bytes=1)
    return render(space.template, space.baseline("stock"), space, LAB)


@pytest.mark.parametrize(
    "template",
    [
        "{% set x = 'a' * 10000000000 %}",
        "{{ 'a'.center(10 ** 10) }}",
        "{{ '%10000000000d' % 1 }}",
        "{{ 'a\nb' | indent(10 ** 10, true) }}",
        DOUBLING,
    ],
    ids=["times", "center", "format", "indent", "doubling"],
)
def test_memory_has_a_limit(tmp_path: Path, template: str) -> None:
    """A template that takes more than 256 MB of memory is refused."""
    with pytest.raises(DefinitionError, match=r"mine\.conf\.j2: takes more than 256 MB of memory"):
        mine(tmp_path, template)


def test_time_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops within loops end with the process, and the next template gets another."""
    loops = "{% for a in range(99999) %}" * 3 + "{% endfor %}" * 3
    monkeypatch.setattr(confined, "CPU_S", 1)
    with pytest.raises(DefinitionError, match="takes more than 1 s of CPU time"):
        mine(tmp_path, loops)
    monkeypatch.setattr(confined, "_WALL_S", 0.1)
    with pytest.raises(DefinitionError, match="takes more than 1 s of CPU time"):
        mine(tmp_path, loops)
    monkeypatch.undo()
    assert mine(tmp_path, "a\n") == "a\n1 on\n"


def test_the_text_has_a_limit(tmp_path: Path) -> None:
    """A rendered text above the limit is refused."""
    with pytest.raises(DefinitionError, match="writes 20,000,005 characters; at most 16,777,216"):
        mine(tmp_path, "{{ 'a' * 20000000 }}")


def test_endless_recursion_is_answered(tmp_path: Path) -> None:
    """Endless recursion in a template is refused with a message."""
    with pytest.raises(DefinitionError, match="recursion"):
        mine(tmp_path, "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}")


def test_only_files_that_the_space_names_are_included(tmp_path: Path) -> None:
    """A file that the space does not name cannot be included."""
    (tmp_path / "part.conf.j2").write_text("part;\n")
    include = "{% include 'part.conf.j2' %}"
    with pytest.raises(DefinitionError, match=r"there is no template 'part\.conf\.j2'"):
        mine(tmp_path, include)
    assert mine(tmp_path, include, templates="templates: [part.conf.j2]\n") == "part;\n1 on\n"


@pytest.mark.parametrize("name", [".ssh/id_rsa", "../id_rsa", "/etc/passwd", "id_rsa"])
def test_no_other_file_can_be_included(tmp_path: Path, name: str) -> None:
    """Neither below the folder, nor above, nor anywhere."""
    (tmp_path / ".ssh").mkdir()
    for file in (".ssh/id_rsa", "id_rsa"):
        (tmp_path / file).write_text("secret")
    with pytest.raises(DefinitionError, match="there is no template"):
        mine(tmp_path, f"{{% include '{name}' %}}")
    with pytest.raises(DefinitionError, match=r"is not a \.j2 file in the same folder"):
        mine(tmp_path, "", templates=f"templates: [{name}]\n")


@pytest.mark.parametrize("named", ["mine.conf.j2", "part.j2"])
def test_a_link_that_leads_elsewhere_is_refused(tmp_path: Path, named: str) -> None:
    """A folder from a stranger may hold one."""
    folder = tmp_path / "space"
    folder.mkdir()
    (tmp_path / "secret").write_text(USES)
    (folder / named).symlink_to(tmp_path / "secret")
    own = "" if named == "mine.conf.j2" else "a"
    with pytest.raises(DefinitionError, match="is outside of the folder"):
        mine(folder, own, templates="templates: [part.j2]\n")


def test_a_module_in_the_working_directory_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of templates imports tuner's libraries alone."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jinja2.py").write_text("import pathlib; pathlib.Path('imported').touch()")
    confined._WRITER.end()
    assert mine(tmp_path, "a\n") == "a\n1 on\n"
    assert not (tmp_path / "imported").exists()


def test_a_process_that_was_killed_is_replaced(tmp_path: Path) -> None:
    """The next template is written all the same."""
    mine(tmp_path, "a\n")
    process = confined._WRITER._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert mine(tmp_path, "a\n") == "a\n1 on\n"
