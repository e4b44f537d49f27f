"""``tuner apply`` from the command line, on this machine in the place of a host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome, Tuner, kept_handlers, run_main, simulate
from tests.hosts.nginxes import NGINX
from tuner.testing.lab import Effect

SHORT = ("--time", "10s", "--rate", "600", "--quiet")
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
    """A folder with two studies of the lab: ``mine`` found something better, ``same`` nothing."""
    folder = tmp_path_factory.mktemp("studies")
    with pytest.MonkeyPatch.context() as patch, kept_handlers():
        patch.chdir(folder)
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        host = simulate(patch)
        assert run_main(patch, "optimize", "--trials", "1", "--name", "mine", *SHORT) == 0
        host.truth = lambda _: Effect(ln_latency=0.0, capacity_per_s=4_000.0)
        assert run_main(patch, "compare", "stock", "hand", "--name", "same", *SHORT) == 0
    return folder


@pytest.fixture
def here(studies: Path, own: Path, tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> Tuner:
    """``tuner apply`` in that folder, to the file ``own`` of this machine."""
    monkeypatch.chdir(studies)
    inventory = str(own.parent / "hosts.yml")

    def run(name: str, *arguments: str) -> Outcome:
        return tuner("apply", name, "--inventory", inventory, "--file", str(own), *arguments)

    return run


def test_without_a_terminal_it_must_be_confirmed_beforehand(here: Tuner, own: Path) -> None:
    """Nothing is read of any host: there is nobody to ask."""
    before = own.read_text()
    done = here("mine")
    assert done.code == 2
    assert "--yes: there is no terminal to ask on; see what would change with --check" in done.err
    assert own.read_text() == before


@pytest.mark.integration
@pytest.mark.parametrize("option", ["--diff", "--check"])
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


def test_a_study_that_showed_nothing_is_refused(here: Tuner) -> None:
    """By the name of its verdict, which can be accepted."""
    done = here("same", "--diff")
    assert done.code == 2
    assert "NAME: the verdict of 'same' is " in done.err
    kind = done.err.rpartition("--force-verdict ")[2].strip()
    assert kind in {"equivalent", "inconclusive"}
    done = here("same", "--diff", "--force-verdict", kind)
    assert done.code == 0, done.err
    assert f"the verdict is {kind}: the configuration was not shown to be better" in done.err
