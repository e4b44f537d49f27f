"""The role: what a linter says of it, and what it does to a folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tuner.export.ansible import role, variables
from tuner.report.result import StudyResult, evaluate
from tuner.testing.sample_record import sample_record

ANSIBLE = Path(sys.executable).with_name("ansible-playbook")
LINT = shutil.which("ansible-lint", path=str(ANSIBLE.parent)) or shutil.which("ansible-lint")


@pytest.fixture(scope="module")
def study() -> StudyResult:
    """A study with a better configuration."""
    return evaluate(sample_record("better"))


@pytest.fixture
def roles(study: StudyResult, tmp_path: Path) -> Path:
    """The folder that holds the role and its playbook."""
    for name, text in role(study).items():
        path = tmp_path / "roles" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "roles"


def test_every_file_says_where_it_comes_from(study: StudyResult) -> None:
    """Study, hash and verdict stand in all of them, and the values as data."""
    assert study.candidate
    files = role(study)
    for name, text in files.items():
        assert study.record.name in text, name
        assert "Better: " in text, name
    defaults = yaml.safe_load(files["tuned_nginx/defaults/main.yml"])
    values = study.record.configurations[study.candidate].values
    assert defaults["tuned_nginx_parameters"] == dict(values)
    assert defaults["tuned_nginx_provenance"]["configuration"] == study.candidate
    assert yaml.safe_load(variables(study)["nginx.yml"])["tuned_nginx_parameters"] == dict(values)


def test_names_are_those_of_the_role(study: StudyResult) -> None:
    """Each variable begins with the role's name, and each has its description."""
    files = role(study)
    defaults = yaml.safe_load(files["tuned_nginx/defaults/main.yml"])
    specs = yaml.safe_load(files["tuned_nginx/meta/argument_specs.yml"])
    assert all(name.startswith("tuned_nginx_") for name in defaults)
    assert set(specs["argument_specs"]["main"]["options"]) == set(defaults)


def apply(roles: Path, target: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Apply the role to this machine, into a folder of the test."""
    given = {
        "tuned_nginx_path": str(target),
        "tuned_nginx_owner": "",
        "tuned_nginx_group": "",
        "tuned_nginx_become": False,
        "tuned_nginx_validate": "grep -q keepalive %s",
        "tuned_nginx_service": "",
    }
    return subprocess.run(
        [
            *(str(ANSIBLE), "-i", "localhost,", "-c", "local", str(roles / "site.yml")),
            *("-e", yaml.safe_dump(given, default_flow_style=True, width=10_000).strip(), *more),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=roles,
        env={"PATH": "/usr/bin:/bin", "HOME": str(roles), "ANSIBLE_LOCALHOST_WARNING": "false"}
        | {"ANSIBLE_PYTHON_INTERPRETER": sys.executable, "LC_ALL": "C.UTF-8"},
    )


@pytest.mark.integration
def test_it_puts_the_file_in_place(study: StudyResult, roles: Path, tmp_path: Path) -> None:
    """Once: a second run changes nothing. What was there is kept; a wrong file is not put."""
    assert study.candidate
    target = tmp_path / "etc" / "nginx.conf"
    target.parent.mkdir()
    target.write_text("# what was there\n", encoding="utf-8")
    done = apply(roles, target)
    assert "changed=1" in done.stdout, done.stdout + done.stderr
    text = target.read_text(encoding="utf-8")
    assert text.endswith(study.record.configurations[study.candidate].text)
    assert "changed=0" in apply(roles, target).stdout
    kept = [path for path in target.parent.iterdir() if path != target]
    assert [path.read_text(encoding="utf-8") for path in kept] == ["# what was there\n"]
    wrong = apply(roles, target.with_name("other.conf"), "-e", "tuned_nginx_validate='false %s'")
    assert "failed=1" in wrong.stdout
    assert not target.with_name("other.conf").exists()


@pytest.mark.integration
@pytest.mark.skipif(LINT is None, reason="ansible-lint is not installed")
def test_the_linter_has_nothing_to_say(roles: Path) -> None:
    """By its strictest profile."""
    assert LINT is not None
    done = subprocess.run(
        [LINT, "--offline", "--profile", "production", "--nocolor", "-q", "."],
        cwd=roles,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
