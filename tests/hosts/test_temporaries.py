"""Temporary folders: in the study's own while it runs, and swept where a process was killed."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.hosts.nginxes import needs_nginx, nginx_lab
from tuner.hosts import ansible_temporary
from tuner.hosts.playbooks import remote_temporary
from tuner.paths import temporaries_in, temporary

TOP = Path(__file__).resolve().parents[2]
DEPLOY = """
import sys
from dataclasses import replace
from pathlib import Path
from tests.hosts.nginxes import NginxLab
from tuner.hosts import local

lab = NginxLab(Path(sys.argv[1]))
spec = lab.spec("baseline", local.free_ports(1)[0])
lab.deployer.publish({"index.html": b"one"})
lab.deployer.deploy([replace(spec, start=("sh", "-c", "touch logs/begun; exec sleep 60"))])
"""
HELD = """
import time
from tuner.paths import temporary

with temporary("samples") as folder:
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's folder for temporary files."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_a_study_has_them_in_its_own_folder(system: Path, tmp_path: Path) -> None:
    """Temporary files lie in the study's folder while it runs, and in the system's afterwards."""
    with temporaries_in(tmp_path / "study" / "work"):
        with temporary("samples") as name:
            assert Path(name).parent == tmp_path / "study" / "work"
        assert list(system.iterdir()) == []
    with temporary("apply") as name:
        assert Path(name).parent == system
    assert list(system.iterdir()) == []


def test_what_a_killed_process_left_is_swept(system: Path) -> None:
    """By the next that makes one; those of a living process, and others' folders, stay."""
    (system / "tuner-of-mine").mkdir()
    command = [sys.executable, "-c", HELD]
    environment = {**os.environ, "TMPDIR": str(system), "PYTHONPATH": str(TOP)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        with temporary("samples"):
            assert left.is_dir()
        process.send_signal(signal.SIGKILL)
    assert left.is_dir()
    with temporary("samples"):
        assert not left.exists()
    assert [path.name for path in system.iterdir()] == ["tuner-of-mine"]


def test_what_a_killed_playbook_left_on_a_host_is_removed_when_it_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From tuner's folder of the account that logged in; a younger one may be in use."""
    folder = tmp_path / ".ansible" / "tuner"
    for name in ("ansible-tmp-1-2-3", "ansible-tmp-4-5-6", "of-mine"):
        (folder / name).mkdir(parents=True)
        (folder / name / "module.py").touch()
    for name in ("ansible-tmp-1-2-3", "of-mine"):
        os.utime(folder / name, (0, 0))
    account = pwd.struct_passwd(("x", "", os.geteuid(), os.getegid(), "", str(tmp_path), ""))
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: account)
    ansible_temporary.sweep()
    assert {path.name for path in folder.iterdir()} == {"ansible-tmp-4-5-6", "of-mine"}
    assert (os.geteuid(), os.getegid()) == (account.pw_uid, account.pw_gid)


def test_a_users_own_setting_of_that_folder_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Ansible's configuration file or its environment: the usual one may not be writable."""
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("ANSIBLE_CONFIG", "ANSIBLE_REMOTE_TEMP", "ANSIBLE_REMOTE_TMP"):
        monkeypatch.delenv(name, raising=False)
    Path("ansible.cfg").write_text("[defaults]\nforks = 5\n")
    assert remote_temporary() == {"ANSIBLE_REMOTE_TEMP": "~/.ansible/tuner"}
    Path("ansible.cfg").write_text("[defaults]\nremote_tmp = /tmp/%u\n")
    assert remote_temporary() == {}
    Path("ansible.cfg").unlink()
    monkeypatch.setenv("ANSIBLE_REMOTE_TMP", "/srv/tmp")
    assert remote_temporary() == {}


@pytest.mark.integration
@needs_nginx[1]
def test_a_deployment_that_is_killed_leaves_nothing_outside_the_study(tmp_path: Path) -> None:
    """Neither modules of Ansible's in the system's folder, nor files in the user's own."""
    for name in ("tmp", "home"):
        (tmp_path / name).mkdir()
    environment = {
        **os.environ,
        "TMPDIR": str(tmp_path / "tmp"),
        "HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(TOP),
    }
    with nginx_lab(tmp_path / "study") as lab:
        begun = lab.deployer.instances_dir / "baseline" / "logs" / "begun"
        command = [sys.executable, "-c", DEPLOY, str(tmp_path / "study")]
        with subprocess.Popen(command, env=environment) as process:
            while not begun.exists():
                assert process.poll() is None
                time.sleep(0.05)
            process.kill()
        left = [*(tmp_path / "tmp").rglob("*"), *(tmp_path / "home").rglob("*")]
        assert [path for path in left if "pyenv" not in str(path)] == []
