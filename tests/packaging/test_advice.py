"""Install lines that tuner and its documentation show: they install this project."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import InvalidRequirement, Requirement

TOP = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PLACES = (
    "README.md", "CONTRIBUTING.md", "Makefile", ".ci/*", "docs/**/*.md", "loadgen/*.md",
    "playbooks/**/*", "templates/**/*", "spaces/**/*", "tuner/**/*.py", "tuner/**/*.j2",
    ".github/**/*", "action.yml", "Containerfile", "SECURITY.md",
)  # fmt: skip

_INSTALL = re.compile(r"\b(?:pip|pipx|uv tool|uv pip) (?:install|upgrade) ([^`\n;&|()]+)")
_RUN = re.compile(r"\b(?:uvx|uv tool run|pipx run)((?: --(?:from|spec|with) \S+)*) ([^\s`]+)")
_OPTION = re.compile(r"--(?:from|spec|with) (\S+)")


def installed(text: str) -> Iterator[Requirement]:
    """Yield each requirement that an install line of ``text`` names; files and folders are none."""
    words = [word for line in _INSTALL.findall(text) for word in line.split()]
    for options, command in _RUN.findall(text):
        # The command is also what is installed, unless an option names something else.
        words.extend(_OPTION.findall(options) or [command])
    for word in words:
        try:
            yield Requirement(word.strip("'\",.:"))
        except InvalidRequirement:
            continue


def advice() -> Iterator[tuple[str, Requirement]]:
    """Yield each requirement that a file of the project tells users to install, with the file."""
    for pattern in PLACES:
        for path in sorted(TOP.glob(pattern)):
            if path.is_file() and "__pycache__" not in path.parts:
                name = str(path.relative_to(TOP))
                for requirement in installed(path.read_text(encoding="utf-8")):
                    yield name, requirement


@pytest.mark.parametrize(
    "line",
    [
        "pip install 'tuner[caddy]'",
        "run: pip install -U tuner.",
        "pipx install tuner",
        "uv tool install tuner==1.0",
        "uvx --from tuner tuner doctor",
        "uvx tuner doctor",
        "pipx run tuner doctor",
    ],
)
def test_a_line_that_installs_the_other_project_is_noticed(line: str) -> None:
    """Each way to install the PyPI project `tuner` is recognised."""
    assert "tuner" in {requirement.name for requirement in installed(line)}


@pytest.mark.parametrize(
    "line", ["pip install ./tuner.whl", "uvx --from servertune tuner doctor", "make optimize"]
)
def test_a_line_that_installs_this_project_is_accepted(line: str) -> None:
    """The command's name after `uvx --from` installs nothing."""
    assert "tuner" not in {requirement.name for requirement in installed(line)}


def test_no_advice_installs_the_other_project() -> None:
    """`tuner` on PyPI belongs to another project, which would replace this one."""
    assert [place for place, requirement in advice() if requirement.name == "tuner"] == []


def test_every_extra_that_advice_names_exists() -> None:
    """An unknown extra installs nothing more, with a warning only."""
    named = [(place, found) for place, found in advice() if found.name == PROJECT["name"]]
    assert {"tuner/cli/dashboard.py", "tuner/store/storage.py"} <= dict(named).keys()
    unknown = {
        (place, extra)
        for place, found in named
        for extra in found.extras - PROJECT["optional-dependencies"].keys()
    }
    assert unknown == set()
