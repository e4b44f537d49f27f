"""The role: what a linter says of it, and what it does to a folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.export.unsafe import read
from tuner.export.ansible import role, variables
from tuner.judge.results import StudyResult, evaluate
from tuner.testing.sample_record import sample_record

ANSIBLE = Path(sys.executable).with_name("ansible-playbook")
LINT = shutil.which("ansible-lint", path=str(ANSIBLE.parent)) or shutil.which("ansible-lint")


@pytest.fixture(scope="module")
def study() -> StudyResult:
    """A study with a better configuration."""
    return evaluate(sample_record("better"))


@pytest.fixture(scope="module")
def caddy(study: StudyResult) -> StudyResult:
    """The same of a server that has variables in its environment."""
    more = {"caddy.env": "# For Caddy\nGOGC=200\n"}
    found = study.record.configurations.items()
    record = replace(
        study.record,
        server=replace(study.record.server, name="caddy"),
        configurations={digest: replace(known, more=more) for digest, known in found},
    )
    return replace(study, record=record)


@pytest.fixture
def roles(study: StudyResult, tmp_path: Path) -> Path:
    """The folder that holds the role and its playbook."""
    return written(study, tmp_path / "roles")


def written(study: StudyResult, folder: Path) -> Path:
    """Return the role of a study in a folder."""
    for name, text in role(study).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def test_every_file_says_where_it_comes_from(study: StudyResult, caddy: StudyResult) -> None:
    """Study, hash and verdict stand in all of them, and the values as data."""
    assert study.candidate
    files = role(study)
    for name, text in (*files.items(), *role(caddy).items()):
        assert study.record.name in text, name
        assert "Better: " in text, name
    defaults = read(files["tuned_nginx/defaults/main.yml"])
    values = study.record.configurations[study.candidate].values
    assert defaults["tuned_nginx_parameters"] == dict(values)
    assert defaults["tuned_nginx_provenance"]["configuration"] == study.candidate
    assert read(variables(study)["nginx.yml"])["tuned_nginx_parameters"] == dict(values)


def test_a_server_that_cannot_reload_is_restarted(study: StudyResult, caddy: StudyResult) -> None:
    """Envoy reads its file only when it starts, Apache not all of it; the others reload."""
    for name, unit in {"envoy": "envoy", "apache": "apache2"}.items():
        record = replace(study.record, server=replace(study.record.server, name=name))
        text = role(replace(study, record=record))
        handlers = yaml.safe_load(text[f"tuned_{name}/handlers/main.yml"])
        assert handlers[0]["ansible.builtin.service"]["state"] == "restarted"
        tasks = yaml.safe_load(text[f"tuned_{name}/tasks/main.yml"])
        assert tasks[0]["notify"] == handlers[0]["name"]
        assert f"restarts `{unit}`" in text[f"tuned_{name}/README.md"]
    (first, *_) = yaml.safe_load(role(caddy)["tuned_caddy/handlers/main.yml"])
    assert first["ansible.builtin.service"]["state"] == "reloaded"


def test_envoys_threads_are_a_variable_of_its_process(study: StudyResult) -> None:
    """They stand in no file of Envoy's."""
    known = study.record.configurations
    threads = {"envoy.env": "CONCURRENCY=3\n"}
    record = replace(
        study.record,
        server=replace(study.record.server, name="envoy"),
        configurations={digest: replace(found, more=threads) for digest, found in known.items()},
    )
    files = role(replace(study, record=record))
    assert read(files["tuned_envoy/defaults/main.yml"])["tuned_envoy_environment"] is True
    assert any("CONCURRENCY=3" in text for text in files.values())


@pytest.mark.parametrize("server", ["nginx", "caddy"])
def test_names_are_those_of_the_role(study: StudyResult, caddy: StudyResult, server: str) -> None:
    """Each variable begins with the role's name, and each has its description."""
    files = role({"nginx": study, "caddy": caddy}[server])
    defaults = read(files[f"tuned_{server}/defaults/main.yml"])
    specs = yaml.safe_load(files[f"tuned_{server}/meta/argument_specs.yml"])
    assert all(name.startswith(f"tuned_{server}_") for name in defaults)
    assert set(specs["argument_specs"]["main"]["options"]) == set(defaults)


def apply(
    roles: Path, target: Path, *more: str, name: str = "tuned_nginx"
) -> subprocess.CompletedProcess[str]:
    """Return apply the role to this machine, into a folder of the test."""
    given = {
        f"{name}_path": str(target),
        f"{name}_owner": "",
        f"{name}_group": "",
        f"{name}_become": False,
        f"{name}_validate": "grep -q keepalive %s",
        f"{name}_service": "",
        f"{name}_drop_ins": str(target.parent / "drop-ins"),
        f"{name}_systemd": True,
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
def test_variables_of_the_process_are_a_drop_in(caddy: StudyResult, tmp_path: Path) -> None:
    """The drop-in names its environment file; --check writes nothing; both can be removed again."""
    roles, target = written(caddy, tmp_path / "roles"), tmp_path / "etc" / "Caddyfile"
    target.parent.mkdir()
    done = apply(roles, target, "--check", name="tuned_caddy")
    assert "failed=0" in done.stdout, done.stdout + done.stderr
    folder = target.parent / "drop-ins"
    assert not folder.exists()
    done = apply(roles, target, name="tuned_caddy")
    assert "failed=0" in done.stdout, done.stdout + done.stderr
    assert (folder / "tuner.conf").read_text() == f"[Service]\nEnvironmentFile={folder}/tuner.env\n"
    assert (folder / "tuner.env").read_text().endswith("\nGOGC=200\n")
    assert "changed=0" in apply(roles, target, name="tuned_caddy").stdout
    done = apply(roles, target, "-e", "tuned_caddy_environment=false", name="tuned_caddy")
    assert "changed=1" in done.stdout, done.stdout + done.stderr
    assert not list(folder.iterdir())


@pytest.mark.integration
@pytest.mark.skipif(LINT is None, reason="ansible-lint is not installed")
@pytest.mark.parametrize("server", ["nginx", "caddy"])
def test_the_linter_has_nothing_to_say(
    study: StudyResult, caddy: StudyResult, tmp_path: Path, server: str
) -> None:
    """By its strictest profile."""
    assert LINT is not None
    roles = written({"nginx": study, "caddy": caddy}[server], tmp_path / "roles")
    done = subprocess.run(
        [LINT, "--offline", "--profile", "production", "--nocolor", "-q", "."],
        cwd=roles,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
