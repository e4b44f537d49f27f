"""This machine: facts, free ports, the lab's folder, and what a dead study left behind."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.errors import HostError
from tuner.hosts import local


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Claims of these tests stay among themselves."""
    folder = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


def test_facts_are_those_of_this_machine() -> None:
    """The facts are the kernel's, in the record's units."""
    found = local.facts()
    assert found.hostname == socket.gethostname()
    assert set(found.cpus) == os.sched_getaffinity(0)
    assert found.kernel == os.uname().release
    assert found.memory_bytes > 1 << 26
    assert found.file_limit > 0
    assert found.virtualisation


def test_free_ports_are_consecutive_and_free() -> None:
    """All can be bound at once."""
    ports = local.free_ports(5)
    assert list(ports) == list(range(ports[0], ports[0] + 5))
    servers = [socket.create_server(("127.0.0.1", port)) for port in ports]
    for server in servers:
        server.close()


def test_ports_that_are_taken_are_stepped_over() -> None:
    """Also one in the middle of a range."""
    first = local.free_ports(3)[0]
    with socket.create_server(("127.0.0.1", first + 1)):
        assert first + 1 not in local.free_ports(3)


def test_no_free_ports_are_said_plainly() -> None:
    """With the range that was looked at."""
    with pytest.raises(HostError, match="no 20000 consecutive free ports between 18080 and 28000"):
        local.free_ports(20_000)


def test_the_lab_lies_in_the_studys_folder_where_its_account_can_reach_it(tmp_path: Path) -> None:
    """Otherwise, for root alone, in a folder of the system's that is the study's own."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    inside, elsewhere = local.lab_folder(closed / "one"), local.lab_folder(closed / "two")
    if os.geteuid() == 0:
        assert inside.parent == Path("/var/tmp")  # noqa: S108 - where it must be
        assert inside != elsewhere
        assert local.lab_folder(closed / "one") == inside
    else:
        assert inside == (closed / "one").resolve() / "lab"


@pytest.mark.root
def test_a_program_in_a_private_home_is_copied_for_the_account(tmp_path: Path) -> None:
    """Root's instances run as nobody, who cannot enter it; elsewhere it runs where it is."""
    home, lab = tmp_path / "home", tmp_path / "lab"
    home.mkdir(mode=0o700)
    program = home / "server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    found = local.runnable(str(program), lab)
    if os.geteuid() != 0:
        assert found == str(program)
        return
    assert (Path(found).parent.parent, Path(found).name) == (lab / "programs", "server")
    assert stat.S_IMODE(Path(found).stat().st_mode) == 0o755
    assert local.runnable("/bin/true", lab) == "/bin/true"
    Path(found).unlink()
    os.chown(lab, 65534, 65534)
    with pytest.raises(HostError, match="not root's own folder"):
        local.runnable(str(program), lab)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs instances as another account")
def test_an_open_study_folder_is_used_by_root_too() -> None:
    """All its parents can be entered by everybody."""
    study = Path("/usr/share/tuner-study")
    assert all(parent.stat().st_mode & stat.S_IXOTH for parent in study.parents if parent.exists())
    assert local.lab_folder(study) == study / "lab"


# --- claims ------------------------------------------------------------------------------------


def claim_here(tmp_path: Path, name: str = "study") -> local.Claim:
    """Return a claim of this process."""
    return local.claim(tmp_path / name, tmp_path / "lab", tmp_path / "work")


def test_a_running_study_is_claimed_and_released(tmp_path: Path) -> None:
    """Nobody else's leftovers, as long as the process lives."""
    mine = claim_here(tmp_path)
    assert local.claims() == [mine]
    assert local.strays() == []
    local.release(mine)
    assert local.claims() == []
    local.release(mine)


def test_a_dead_study_leaves_a_stray() -> None:
    """A process that ended without releasing its claim; killed, for instance."""
    program = (
        "import os, signal; from pathlib import Path; from tuner.hosts import local;"
        "local.claim(Path('study'), Path('/lab'), Path('/work'));"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -9
    (stray,) = local.strays()
    assert (stray.lab, stray.work) == ("/lab", "/work")
    assert stray.pid != os.getpid()
    local.release(stray)
    assert local.strays() == []


def test_a_process_id_that_is_used_again_is_another_process(tmp_path: Path) -> None:
    """The start time distinguishes two processes with one id."""
    mine = claim_here(tmp_path)
    assert mine.alive
    assert not replace(mine, started=mine.started - 1).alive
    assert not replace(mine, pid=2**22 + 1).alive


def test_a_study_is_run_by_one_process_at_a_time(tmp_path: Path) -> None:
    """The message names the other one."""
    study = tmp_path / "study"
    waiting = subprocess.Popen(
        [
            sys.executable,
            "-c",
            (
                "import sys; from pathlib import Path; from tuner.hosts import local;"
                "local.claim(Path(sys.argv[1]), Path('/lab'), Path('/work')); print('claimed',"
                " flush=True); sys.stdin.read()"
            ),
            str(study),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "claimed\n"
    with pytest.raises(HostError, match=f"run by process {waiting.pid}; wait for it or stop it"):
        local.claim(study, tmp_path / "lab", tmp_path / "work")
    claim_here(tmp_path, "another")
    waiting.communicate()
    assert len(local.strays()) == 1
    local.claim(study, tmp_path / "lab", tmp_path / "work")
    assert local.strays() == []


def test_a_damaged_claim_is_passed_over(tmp_path: Path, state: Path) -> None:
    """A damaged claim does not stop tuner."""
    mine = claim_here(tmp_path)
    folder = state / "tuner" / "running"
    (folder / "broken.json").write_text("{")
    (folder / "other.json").write_text('{"pid": 1}')
    assert local.claims() == [mine]
