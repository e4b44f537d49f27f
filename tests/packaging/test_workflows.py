"""The workflows of GitHub call what `make` has, with the least rights, and run no foreign text."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packaging.linted import actionlint
from tuner import __version__

TOP = Path(__file__).resolve().parents[2]
FOLDER = TOP / ".github" / "workflows"
FORMS = sorted((TOP / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RIGHTS = {
    "tests.test": {"contents": "read"},
    "audit.audit": {"contents": "read"},
    "release.build": {"contents": "read"},
    "release.attest": {"attestations": "write", "id-token": "write"},
    "release.publish": {"id-token": "write"},
}
"""Rights of each job, which are reviewed here once more."""
_MAKE = re.compile(r"(?:sudo )?make ([a-z-]+)")
_PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def read(path: Path) -> dict[str, Any]:
    """Return a YAML file with all scalars as text, so that the key ``on`` stays a word."""
    found: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)  # noqa: S506 - safe
    return found


WORKFLOWS = {path.stem: read(path) for path in sorted(FOLDER.glob("*.yml"))}


def jobs() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each job with its name, such as ``release.build``."""
    for name, workflow in WORKFLOWS.items():
        for job, keys in workflow["jobs"].items():
            yield f"{name}.{job}", keys


def steps() -> Iterator[Mapping[str, Any]]:
    """Yield each step of every job."""
    for _, job in jobs():
        yield from job["steps"]


def test_every_script_is_a_target_of_make() -> None:
    """A workflow does nothing that a developer cannot do, and holds no expression in a script."""
    targets = set(re.findall(r"^([a-z-]+):", (TOP / "Makefile").read_text("utf-8"), re.MULTILINE))
    scripts = [step["run"] for step in steps() if "run" in step]
    called = [match[1] if (match := _MAKE.fullmatch(script)) else script for script in scripts]
    assert called
    assert set(called) <= targets


def test_rights_are_the_least() -> None:
    """A workflow has none by itself; each job names its own."""
    assert {name: workflow["permissions"] for name, workflow in WORKFLOWS.items()} == {
        name: {} for name in WORKFLOWS
    }
    assert {name: job["permissions"] for name, job in jobs()} == RIGHTS


def test_nothing_of_a_stranger_runs_with_rights() -> None:
    """No trigger runs the code of a pull request with secrets, and no checkout keeps its token."""
    triggers = {trigger for workflow in WORKFLOWS.values() for trigger in workflow["on"]}
    assert triggers <= {"push", "pull_request", "schedule"}
    for step in steps():
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] == "false"


@pytest.mark.parametrize(
    "path", [TOP / "action.yml", *sorted(FOLDER.glob("*.yml"))], ids=lambda path: path.stem
)
def test_actions_are_pinned(path: Path) -> None:
    """A commit, with its version for readers; a tag may move."""
    used = re.findall(r"uses: (.*)", path.read_text(encoding="utf-8"))
    assert used
    assert [action for action in used if not _PINNED.fullmatch(action)] == []


def test_every_job_ends() -> None:
    """A hanging job would otherwise run for six hours."""
    assert [name for name, job in jobs() if "timeout-minutes" not in job] == []


def test_actionlint_accepts_them() -> None:
    """Syntax, expressions, inputs of known actions and names of events are right."""
    assert actionlint(*sorted(FOLDER.glob("*.yml"))) == ""


def test_a_tag_of_another_version_is_refused() -> None:
    """The release stops before it builds, and the shell runs nothing that stands in a tag."""
    for tag, code in ((f"v{__version__}", 0), ("v99", 2), ("v$(false)", 2)):
        done = subprocess.run(
            ["make", "release-tag"],
            cwd=TOP,
            env={"PATH": "/usr/bin:/bin", "GITHUB_REF_NAME": tag},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert (tag in done.stderr) == (code != 0)


@pytest.mark.parametrize(
    "form", [form for form in FORMS if form.stem != "config"], ids=lambda form: form.stem
)
def test_issue_forms_are_complete(form: Path) -> None:
    """GitHub ignores a form without these keys, or with an identifier twice."""
    found = read(form)
    assert {"name", "description", "body"} <= set(found)
    asked = [item for item in found["body"] if item["type"] != "markdown"]
    assert len({item["id"] for item in asked}) == len(asked)
    assert all(item["attributes"]["label"] for item in asked)
    assert any(item.get("validations") == {"required": "true"} for item in asked)


def test_the_citation_is_of_this_version() -> None:
    """Version, licence and address are those of the package."""
    found = read(TOP / "CITATION.cff")
    assert found["version"] == __version__
    assert found["license"] == PROJECT["license"]
    assert found["repository-code"] == PROJECT["urls"]["Source"]


def test_addresses_are_those_of_the_project() -> None:
    """Files for the public repository link to it alone."""
    files = [TOP / "SECURITY.md", TOP / "CITATION.cff", *FORMS]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    links = re.findall(r"https://github\.com/[^/\s]+/[^/\s>]+", text)
    assert set(links) == {PROJECT["urls"]["Source"]}
