"""``tuner apply`` from the command line, on this machine in the place of a host."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome, Terminal, Tuner, kept_handlers, run_main, simulate
from tests.hosts.nginxes import NGINX

SHORT = ("--study", "static", "--time", "10s", "--rate", "600", "--quiet")
OWN = """\
# ours
pid PID;
error_log LOG;
events {
    worker_connections 768;
}
http {
    access_log off;
    server {
        listen 127.0.0.1:18999;
        location /admin { deny all; }
    }
}
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A host's own main file, and an inventory of this machine."""
    path = tmp_path / "nginx.conf"
    text = OWN.replace("PID", str(tmp_path / "pid")).replace("LOG", str(tmp_path / "log"))
    path.write_text(text)
    (tmp_path / "hosts.yml").write_text(
        "targets: {hosts: {here: {ansible_connection: local}}}\n", encoding="utf-8"
    )
    return path


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study of the lab, ``mine``, that found something better."""
    folder = tmp_path_factory.mktemp("studies")
    with pytest.MonkeyPatch.context() as patch, kept_handlers():
        patch.chdir(folder)
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        simulate(patch)
        assert run_main(patch, "optimize", "--trials", "1", "--name", "mine", *SHORT) == 0
    return folder


@pytest.fixture
def here(studies: Path, own: Path, tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> Tuner:
    """``tuner apply`` in that folder, to the file ``own`` of this machine."""
    monkeypatch.chdir(studies)
    # The user who made them.
    monkeypatch.setenv("XDG_STATE_HOME", str(studies / "state"))
    inventory = str(own.parent / "hosts.yml")

    def run(name: str, *arguments: str) -> Outcome:
        return tuner("apply", name, "--inventory", inventory, "--file", str(own), *arguments)

    return run


def test_without_a_terminal_it_must_be_confirmed_beforehand(here: Tuner, own: Path) -> None:
    """Nothing is read of any host: there is nobody to ask."""
    before = own.read_text()
    done = here("mine")
    assert done.code == 2
    assert "--yes: no terminal to ask for confirmation; preview the change with --check" in done.err
    assert own.read_text() == before


def test_in_a_terminal_it_asks_after_showing_the_difference(
    here: Tuner, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a yes nothing is changed."""
    before = own.read_text()
    monkeypatch.setattr(sys, "stdin", Terminal("no\n"))
    done = here("mine")
    assert done.code == 130
    assert 0 < done.out.index("\n+    sendfile on;") < done.out.index("apply these changes?")
    assert own.read_text() == before


@pytest.mark.integration
@pytest.mark.parametrize("option", ["--diff", pytest.param("--check", marks=pytest.mark.root)])
def test_what_would_change_is_shown_and_nothing_changes(
    here: Tuner, own: Path, option: str
) -> None:
    """The settings of a study of the lab in the host's own file, which keeps its lines."""
    if option == "--check" and (NGINX is None or os.geteuid() != 0):
        pytest.skip("no nginx, or not root: the host's server cannot judge")
    before = own.read_text()
    names = {path.name for path in own.parent.iterdir()}
    done = here("mine", "--yes", option)
    assert done.code == 0, done.err
    assert "here: would change " in done.out
    assert "\n+    sendfile on;" in done.out
    assert "-        location /admin" not in done.out
    assert "the study was made in the lab" in done.err
    assert (f"nginx -t -c {own}: " in done.out) == (option == "--check")
    assert own.read_text() == before
    logs = {"pid", "log"}
    assert {path.name for path in own.parent.iterdir()} - logs == names - logs


def test_a_verdict_is_accepted_by_its_own_name_only(here: Tuner) -> None:
    """A study whose verdict is better is not applied as one that is equivalent."""
    done = here("mine", "--diff", "--force-verdict", "equivalent")
    assert done.code == 2
    assert "--force-verdict: the verdict of 'mine' is better " in done.err
    done = here("mine", "--diff", "--force-verdict", "better")
    assert done.code == 2
